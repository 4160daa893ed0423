"""OpenAI's embeddings: the vectors of texts, which nobody answers and no record has."""

from __future__ import annotations

import base64
import struct
from collections.abc import Sequence
from typing import Any

from .bodies import Body
from .protocol import Protocol

_MOST_TEXTS = 2048


class Embeddings(Protocol):
    """The protocol of /v1/embeddings."""

    name, path = "embeddings", "embeddings"
    converses, is_of_openai = False, True

    def texts(self, body: Body) -> tuple[str, ...]:
        """The texts of a request whose vectors a memory's model makes."""
        body.refuse({"dimensions": ()})
        body.refuse_others(("model", "input", "encoding_format", "dimensions", "user"))
        if body.text("encoding_format", "float") not in ("float", "base64"):
            raise body.wrong("encoding_format", "must be float or base64")
        texts = body.strings("input", _MOST_TEXTS)
        if not texts or not all(texts):
            raise body.wrong("input", f"must be a text or a list of up to {_MOST_TEXTS}, none of them empty")
        return texts

    def write_vectors(self, vectors: Sequence[Sequence[float]], model: str, body: Body) -> dict[str, Any]:
        packs = body.values.get("encoding_format") == "base64"
        rows = [
            {"object": "embedding", "index": index, "embedding": _packed(row) if packs else list(row)}
            for index, row in enumerate(vectors)
        ]
        # Its tokens aren't those of a model that is paid for, and nobody counts them.
        return {
            "object": "list",
            "data": rows,
            "model": model,
            "usage": {"prompt_tokens": 0, "total_tokens": 0},
        }


def _packed(row: Sequence[float]) -> str:
    """32-bit floats in the order of bytes that clients expect."""
    return base64.b64encode(struct.pack(f"<{len(row)}f", *row)).decode("ascii")
