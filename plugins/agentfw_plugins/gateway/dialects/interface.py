"""The interface of the formats that the gateway speaks, and what they have in common.

asked = dialect.read(body)
answer = dialect.whole(reply, asked, about)
stream = dialect.stream(asked, about)       # stream.start(), stream.text(piece), stream.end(reply)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from agentfw.episode import Call
from agentfw.session import Reply

from ..bodies import Asked, BadRequest, Body

__all__ = ["About", "Dialect", "Pieces", "Stream", "arguments", "counts", "event"]


@dataclass(frozen=True, slots=True)
class About:
    """What an answer says of itself besides its content."""

    id: str
    created: int
    model: str


class Stream(Protocol):
    """Writes one streamed answer. The text of all pieces, and of the end, adds up to that of the reply."""

    def start(self) -> Iterator[bytes]: ...
    def text(self, piece: str) -> Iterator[bytes]: ...
    def end(self, reply: Reply, rest: str) -> Iterator[bytes]: ...


class Dialect(Protocol):
    """One format of requests and answers."""

    def read(self, body: Body) -> Asked: ...
    def whole(self, reply: Reply, asked: Asked, about: About) -> dict[str, Any]: ...
    def stream(self, asked: Asked, about: About) -> Stream: ...
    def error(self, problem: BadRequest) -> dict[str, Any]: ...
    def failed(self, problem: BadRequest) -> bytes: ...


class Pieces:
    """Decides how much of a growing text can be told: nothing that may turn out to be a call, or to be cut off."""

    _BEGINS = ("<", "{", "`", "[")

    def __init__(self, asked: Asked) -> None:
        self._calls, self._waits = bool(asked.actions), bool(asked.stop)
        self._text = self.told = ""

    def take(self, piece: str) -> str:
        """Take the next piece of the policy's text. Returns what can be told now."""
        self._text += piece
        if self._waits:
            return ""
        safe = self._text
        if self._calls:
            safe = safe[: min((place for mark in self._BEGINS if (place := safe.find(mark)) >= 0), default=len(safe))]
            safe = safe.rstrip()
        new, self.told = safe[len(self.told) :], max(safe, self.told, key=len)
        return new

    def rest(self, text: str) -> str:
        """What is left to tell of the reply's text."""
        return text[len(self.told) :] if text.startswith(self.told) else ""


def counts(reply: Reply) -> tuple[int, int, int]:
    """Tokens of the prompt, those of them that were cached, and those of the answer."""
    turn = reply.turn
    prompt = len(turn.prompt_ids) if turn.usage.prompt is None else turn.usage.prompt
    return prompt, turn.usage.cached or 0, turn.count if turn.usage.sampled is None else turn.usage.sampled


def arguments(call: Call) -> str:
    return json.dumps(dict(call.arguments), ensure_ascii=False)


def event(data: Mapping[str, Any], name: str = "") -> bytes:
    """One server-sent event."""
    text = json.dumps(data, separators=(",", ":"))
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()
