"""An embedder on a server that speaks OpenAI's `/v1/embeddings`: Ollama, vLLM, llama.cpp, text-embeddings-inference.

    AGENTFW_EMBEDDINGS_URL=http://127.0.0.1:11434/v1 agentfw memory add --embedder http:nomic-embed-text ...

The name of an embedder is stored with its vectors, so it holds the model and no address: the server may move. A key, if
the server needs one, comes from AGENTFW_EMBEDDINGS_KEY and is stored nowhere.

Texts are sent in batches, and the latest vectors are kept in memory. A server that doesn't answer is asked again. If
it stays silent in the middle of a call, the whole call fails, so nothing is half-written.
"""

from __future__ import annotations

import os
import re
import time
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from agentfw_memory.errors import BadInputError, MissingExtraError, StorageError
from agentfw_memory.graph.arrays import Float32Array
from agentfw_memory.graph.validation import check_vectors

URL, KEY = "AGENTFW_EMBEDDINGS_URL", "AGENTFW_EMBEDDINGS_KEY"
BATCH = 64
CACHED = 10_000
ATTEMPTS = 4
PAUSE = 0.2
"""Seconds before the second attempt. Each further pause is twice as long."""
TIMEOUT = 60.0
FAILED_FOR_NOW = {408, 425, 429, 500, 502, 503, 504}


PREFIXES = {
    "e5": ("query: ", "passage: "),
    "bge": ("Represent this sentence for searching relevant passages: ", ""),
    "nomic": ("search_query: ", "search_document: "),
}
"""What models of a family, by a part of their name, were trained to read before queries and before passages."""


def parts_of(model: str) -> list[str]:
    """Return the parts of a model's name, of which one tells its family."""
    return re.split(r"[^a-z0-9]+", model.casefold())


def prefix(model: str, what: Literal["query", "passage"]) -> str:
    """Return what a model reads before a query or a passage.

    >>> prefix("http:multilingual-e5-small", "query"), prefix("all-MiniLM-L6-v2", "query")
    ('query: ', '')
    """
    parts = parts_of(model)
    family = next((name for name in PREFIXES if name in parts and "m3" not in parts), "")
    return PREFIXES[family][what == "passage"] if family else ""


class HttpEmbedder:
    """A model on a server."""

    version = ""

    def __init__(self, model: str) -> None:
        try:
            import httpx
        except ImportError:
            raise MissingExtraError(f"the embedder http:{model}", "memory", module="httpx") from None
        if not model:
            raise BadInputError("the embedder http has no model", fix='name one, such as "http:nomic-embed-text"')
        address = os.environ.get(URL, "").rstrip("/")
        if not address:
            raise BadInputError(
                f"the address of the embedding server isn't known, because {URL} isn't set",
                fix=f"export {URL}=http://127.0.0.1:11434/v1",
            )
        key = os.environ.get(KEY, "")
        headers = {"authorization": f"Bearer {key}"} if key else {}
        self._model, self._address = model, f"{address}/embeddings"
        self._client = httpx.Client(timeout=TIMEOUT, headers=headers)
        self._transport_error = httpx.TransportError
        self._cache: OrderedDict[str, Float32Array] = OrderedDict()
        self.name = f"http:{model}"
        self.dimensions = len(self._asked(["a text to measure"])[0])

    def embed_queries(self, texts: Sequence[str]) -> Float32Array:
        return self._embedded([prefix(self.name, "query") + text for text in texts])

    def embed(self, texts: Sequence[str]) -> Float32Array:
        return self._embedded([prefix(self.name, "passage") + text for text in texts])

    # Helpers

    def _embedded(self, texts: Sequence[str]) -> Float32Array:
        found = {text: self._cache[text] for text in texts if text in self._cache}
        missing = list(dict.fromkeys(text for text in texts if text not in found))
        for start in range(0, len(missing), BATCH):
            batch = missing[start : start + BATCH]
            rows = check_vectors(self._array(self._asked(batch)), batch, self.dimensions)
            found.update(zip(batch, rows, strict=True))
        self._cache.update(found)
        for text in found:
            self._cache.move_to_end(text)
        while len(self._cache) > CACHED:
            self._cache.popitem(last=False)
        return np.array([found[text] for text in texts], np.float32).reshape(len(texts), self.dimensions)

    def _asked(self, texts: list[str]) -> list[Any]:
        """Return the server's vectors in the order of the texts."""
        # Some servers refuse an empty text.
        body = {"model": self._model, "input": [text or " " for text in texts], "encoding_format": "float"}
        problem = ""
        for attempt in range(ATTEMPTS):
            time.sleep(PAUSE * 2 ** (attempt - 1) if attempt else 0.0)
            try:
                answer = self._client.post(self._address, json=body)
            except self._transport_error as error:
                problem = f"doesn't answer: {error or type(error).__name__}"
                continue
            if answer.status_code == 200:
                return self._vectors(answer, len(texts))
            problem = f"answered {answer.status_code}: {answer.text[:200]}"
            if answer.status_code not in FAILED_FOR_NOW:
                raise BadInputError(f"{self._address} {problem}", fix=f"check the model's name, {KEY} and {URL}")
        raise StorageError(
            f"{self._address} {problem}", fix="start the server and repeat the call; nothing of it was stored"
        )

    def _vectors(self, answer: Any, count: int) -> list[Any]:
        try:
            rows = {int(row["index"]): row["embedding"] for row in answer.json()["data"]}
            return [rows[place] for place in range(count)]
        except (ValueError, KeyError, TypeError) as error:
            raise BadInputError(
                f"{self._address} didn't answer with {count} vectors ({type(error).__name__}: {error})",
                fix=f"let {URL} end where /embeddings follows, usually in /v1",
            ) from None

    def _array(self, rows: list[Any]) -> Float32Array:
        try:
            return np.array(rows, np.float32)
        except (ValueError, TypeError) as error:
            raise BadInputError(
                f"{self._address} answered with vectors that are no rows of {self.dimensions} numbers: {error}",
                fix="use a model of embeddings; nothing was stored",
            ) from None
