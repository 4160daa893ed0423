"""Text encoders of the preference model. They are frozen; nothing here is trained.

    >>> encoder = open_encoder("hash:64")
    >>> rows = encoder.encode(["museum in the morning", "a museum", "pay a bill"])
    >>> rows.shape, bool(rows[0] @ rows[1] > rows[0] @ rows[2])
    ((3, 64), True)

| choice | what it is |
| --- | --- |
| `hash`, `hash:DIMENSIONS` | hashed words and word pairs; knows no meaning and needs nothing |
| `wordllama` | the mean of learned word vectors, 256 dimensions, read from that package's files; no network, no torch |
| `sentence-transformers:MODEL` | any model of that library, by name or folder; needs the extra `embedders` |
| a callable | takes texts, returns one row for each |

The default is `wordllama` if it is installed, otherwise `hash`. A text always gives the same row of unit length, alone
or in a batch. A model saves the encoder's name and version, and refuses vectors of another one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInputError, MissingExtraError

Float32Array = NDArray[np.float32]

HASH_DIMENSIONS = 256
WEIGHTS, TOKENIZER = "weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"
_WORD = re.compile(r"\w+")


class Encoder(Protocol):
    """Turns texts into rows of unit length. One of another class only needs these attributes."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def encode(self, texts: Sequence[str]) -> Float32Array:
        """Return one row per text: an array of shape (texts, dimensions)."""


EncoderChoice = str | Encoder | Callable[[Sequence[str]], Any]


class CheckedEncoder:
    """A function from texts to rows. Its results are checked: one NaN would spread through the whole model."""

    def __init__(self, name: str, rows: Callable[[Sequence[str]], Any], version: str = "") -> None:
        self.name, self.version, self._rows = name, version, rows

    def encode(self, texts: Sequence[str]) -> Float32Array:
        rows, fix = self._rows(texts), "return one row of finite numbers per text, always of the same length"
        try:
            array = np.array(rows, np.float32)
        except (TypeError, ValueError) as error:
            raise BadInputError(f"{self.name} returned no rows of numbers: {error}", fix=fix) from error
        if array.ndim != 2 or len(array) != len(texts) or not array.shape[1]:
            raise BadInputError(f"{self.name} returned an array of shape {array.shape} for {len(texts)} texts", fix=fix)
        if not np.isfinite(array).all():
            raise BadInputError(f"{self.name} returned NaN or infinity", fix=fix)
        # Scale rows to unit length. A zero row (a text without tokens) points along the first axis.
        lengths = np.linalg.norm(array, axis=1, keepdims=True)
        array[lengths[:, 0] == 0.0, 0] = 1.0
        lengths[lengths == 0.0] = 1.0
        return np.asarray(array / lengths, np.float32)


def open_encoder(choice: EncoderChoice = "") -> Encoder:
    """Return the encoder of this name, or wrap a callable and check what it returns."""
    if not isinstance(choice, str):
        if all(hasattr(choice, name) for name in ("name", "version", "encode")):
            return choice  # type: ignore[return-value]
        assert callable(choice)
        return CheckedEncoder(f"callable:{getattr(choice, '__qualname__', type(choice).__qualname__)}", choice)
    kind, _, detail = (choice or ("wordllama" if importlib.util.find_spec("wordllama") else "hash")).partition(":")
    if kind == "hash":
        return _hash(detail or str(HASH_DIMENSIONS))
    if kind == "wordllama" and not detail:
        return _wordllama()
    if kind == "sentence-transformers" and detail:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise MissingExtraError(f"the encoder {kind}", "embedders", module="sentence_transformers") from None
        loaded = SentenceTransformer(detail, device="cpu", trust_remote_code=False)
        return CheckedEncoder(choice, lambda texts: loaded.encode(list(texts), show_progress_bar=False))
    wrong = f'unknown encoder "{choice}"'
    raise BadInputError(wrong, fix="use hash, hash:DIMENSIONS, wordllama, sentence-transformers:MODEL, or a callable")


def _hash(wanted: str) -> Encoder:
    """Adds or subtracts 1 in one column for each word and each pair of neighbours, chosen by a stable hash."""
    if not (wanted.isascii() and wanted.isdigit() and int(wanted)):
        raise BadInputError(f'invalid number of dimensions "{wanted}"', fix='use "hash:256"')
    dimensions = int(wanted)

    def encode(texts: Sequence[str]) -> Float32Array:
        rows = np.zeros((len(texts), dimensions), np.float32)
        for row, text in zip(rows, texts, strict=True):
            # A text without words is hashed by its characters.
            words = _WORD.findall(text.casefold()) or list(text)
            for feature, count in Counter([*words, *map(" ".join, pairwise(words))]).items():
                number = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "big")
                row[(number >> 1) % dimensions] += count if number & 1 else -count
        return rows

    return CheckedEncoder(f"hash:{dimensions}", encode, "1")


def _wordllama() -> Encoder:
    """The mean of the vectors of a text's tokens.

    The package isn't imported, because that configures logging for the whole process and loads an HTTP client. Its
    files are read instead.
    """
    spec = importlib.util.find_spec("wordllama")
    folder = Path(spec.origin).parent if spec is not None and spec.origin is not None else None
    if folder is None or not all((folder / name).is_file() for name in (WEIGHTS, TOKENIZER)):
        raise MissingExtraError("the encoder wordllama", "rewardmodels", module="wordllama")
    vectors, tokenizer, version = _read_wordllama(folder)

    def encode(texts: Sequence[str]) -> Float32Array:
        rows = np.empty((len(texts), vectors.shape[1]), np.float32)
        for place, one in enumerate(tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)):
            # Count distinct tokens, so that a text of megabytes doesn't need a matrix of gigabytes.
            ids, counts = np.unique(np.array(one.ids, np.int64), return_counts=True)
            rows[place] = counts.astype(np.float32) @ vectors[ids]
        return rows

    return CheckedEncoder("wordllama", encode, version)


@lru_cache(maxsize=1)
def _read_wordllama(folder: Path) -> tuple[Float32Array, Any, str]:
    """Vectors, tokenizer and version. They are read once: that takes a second, and nobody changes what was read."""
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    digest = hashlib.blake2b(digest_size=6)
    for name in (WEIGHTS, TOKENIZER):
        digest.update((folder / name).read_bytes())
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return load_file(folder / WEIGHTS)["embedding.weight"].astype(np.float32), tokenizer, digest.hexdigest()
