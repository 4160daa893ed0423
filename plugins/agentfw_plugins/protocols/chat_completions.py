"""OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .bodies import BadRequest, Body
from .protocol import event

__all__ = ["ChatCompletions"]


class ChatCompletions:
    """The format of /v1/chat/completions."""

    path = "chat/completions"
    required: Mapping[str, Any] = {}
    names: Mapping[str, str] = {}

    def chat(self, body: Body) -> Body:
        return body

    def whole(self, reply: Mapping[str, Any], body: Body) -> dict[str, Any]:
        return dict(reply)

    def stream(self, body: Body) -> _Chunks:
        return _Chunks()

    def error(self, problem: BadRequest) -> dict[str, Any]:
        kind = problem.kind or ("invalid_request_error" if problem.status < 500 else "server_error")
        return {
            "error": {
                "message": problem.message,
                "type": kind,
                "param": problem.field or None,
                "code": problem.code or None,
            }
        }

    def failed(self, problem: BadRequest) -> bytes:
        return event(self.error(problem))


class _Chunks:
    """A streamed chat completion."""

    def take(self, chunk: Mapping[str, Any]) -> Iterator[bytes]:
        yield event(chunk)

    def end(self) -> Iterator[bytes]:
        yield b"data: [DONE]\n\n"
