"""What the handlers of the gateway share: bodies of requests, the user that they name, and answers in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from .bodies import BadRequest, Body, read_body

__all__ = ["body_of", "json_answer", "user_of"]


async def body_of(request: Request, most: int, *, optional: bool = False) -> Body:
    """The body of a request, of at most so many bytes."""
    parts, size = list[bytes](), 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise BadRequest(f"the body has more than {most:,} bytes", 413, code="body_too_large")
        parts.append(part)
    raw = b"".join(parts)
    return Body({}) if optional and not raw.strip() else read_body(raw)


def json_answer(content: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    # In ASCII: a model can write lone surrogates, which UTF-8 can't encode.
    return Response(json.dumps(content), status, headers, media_type="application/json")


def user_of(request: Request, body: Body) -> str:
    """The user that a request names: in its body, in its address, or in a header."""
    return (
        body.name("user", "")
        or Body(dict(request.query_params)).name("user", "")
        or Body(dict(request.headers)).name("x-agentfw-user", "")
    )
