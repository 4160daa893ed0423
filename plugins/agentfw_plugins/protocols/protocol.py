"""The interface of the formats that the gateway speaks.

Between them and a policy, everything is in the format of chat completions: a dialect turns requests into it, and makes
answers out of it. What has no counterpart there is refused by name.

    request = dialect.chat(body)
    answer = dialect.whole(reply, body)
    stream = dialect.stream(body)       # stream.take(chunk), stream.end()
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from .bodies import BadRequest, Body

__all__ = ["About", "Dialect", "Stream", "event", "problem_of"]


@dataclass(frozen=True, slots=True)
class About:
    """What an answer says of itself besides its content."""

    id: str
    created: int
    model: str


class Stream(Protocol):
    """Writes one streamed answer."""

    def take(self, chunk: Mapping[str, Any]) -> Iterator[bytes]: ...
    def end(self) -> Iterator[bytes]: ...


class Dialect(Protocol):
    """One format of requests and answers."""

    path: str
    """Below `/v1/`."""
    required: Mapping[str, Any]
    """Fields that a request must have, with values for one that is read for the record only."""
    names: Mapping[str, str]
    """Its names of fields, by those of chat completions, where they differ."""

    def chat(self, body: Body) -> Body: ...
    def whole(self, reply: Mapping[str, Any], body: Body) -> dict[str, Any]: ...
    def stream(self, body: Body) -> Stream: ...
    def error(self, problem: BadRequest) -> dict[str, Any]: ...
    def failed(self, problem: BadRequest) -> bytes: ...


def event(data: Mapping[str, Any], name: str = "") -> bytes:
    """One server-sent event."""
    text = json.dumps(data, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def problem_of(error: object, status: int = 502, headers: Mapping[str, str] | None = None) -> BadRequest:
    """The problem that an error in the format of chat completions tells of."""
    given = error if isinstance(error, Mapping) else {"message": error}
    words = {name: str(given.get(name) or "") for name in ("message", "code", "param", "type")}
    words["message"] = words["message"] or "the model's server refused the request"
    return BadRequest(
        words["message"], status, code=words["code"], field=words["param"], kind=words["type"], headers=headers
    )
