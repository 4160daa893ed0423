"""Writes one answer in the format of its request: of a policy that samples by itself, or as a server gave it.

writing = Writing(dialect, body, asked, about, native=True)
writing.whole([reply], headers)
writing.piece("He"), writing.piece(b'data: {"choices": [...]}\n'), writing.end(reply)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.responses import Response

from agentfw.turns.session import Reply

from ..protocols.bodies import Asked, BadRequest, Body
from ..protocols.chat import Chunks, completion
from ..protocols.protocol import About, Dialect
from .answers import json_answer

__all__ = ["Writing"]


class Writing:
    """One answer."""

    def __init__(self, dialect: Dialect, body: Body, asked: Asked, about: About, *, native: bool) -> None:
        """With `native`, a server's answer has the format of the request already."""
        self.dialect, self._body, self._asked, self._about, self._native = dialect, body, asked, about, native
        self._stream, self._chunks, self._begun = dialect.stream(body), Chunks(asked, about), False

    def whole(self, replies: Sequence[Reply], headers: Mapping[str, str]) -> Response:
        passed = replies[0].passed
        if passed is None:
            for reply in replies:
                self._check(reply)
            return json_answer(
                self.dialect.whole(completion(replies, self._asked, self._about), self._body), headers=headers
            )
        headers = {**passed.headers, **headers}
        if self._native:
            return Response(passed.content, headers=headers)
        headers.pop("content-type", None)
        return json_answer(self.dialect.whole(json.loads(passed.content), self._body), headers=headers)

    def piece(self, piece: str | bytes) -> Iterator[bytes]:
        """The events of the next piece of the policy's text, or of the next line of a server's stream."""
        if isinstance(piece, str):
            yield from self._written(self._start())
            yield from self._written(self._chunks.text(piece))
        elif self._native:
            yield piece
        elif piece.startswith(b"data:") and piece[5:].strip() not in (b"", b"[DONE]"):
            yield from self._stream.take(_chunk(piece[5:]))

    def end(self, reply: Reply) -> Iterator[bytes]:
        if reply.passed is None:
            try:
                self._check(reply)
            except BadRequest as problem:
                yield self.dialect.failed(problem)
                return
            yield from self._written(self._start())
            yield from self._written(self._chunks.end(reply))
        elif self._native:
            return
        yield from self._stream.end()

    def _start(self) -> Iterator[dict[str, Any]]:
        if not self._begun:
            self._begun = True
            yield from self._chunks.start()

    def _written(self, chunks: Iterator[dict[str, Any]]) -> Iterator[bytes]:
        for chunk in chunks:
            yield from self._stream.take(chunk)

    def _check(self, reply: Reply) -> None:
        if self._asked.must_call and not reply.calls:
            raise BadRequest("the answer has no call, which tool_choice requires", 500, code="no_call_made")


def _chunk(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    return found if isinstance(found, dict) else {"error": {"message": "the model's server sent a broken event"}}
