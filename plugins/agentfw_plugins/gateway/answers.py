"""What the handlers of the gateway share: bodies of requests, answers, and errors.

An answer is written in the protocol of its request: that of a policy that samples by itself, or that of a server, which
is passed on as it is or translated.

    writing = Writing(protocol, body, asked, about, spoken=protocol)
    writing.whole([reply], headers)
    writing.piece("He"), writing.piece(b'data: {"choices": [...]}\n'), writing.end(reply)
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from agentfw.errors import (
    AgentfwError,
    BudgetSpentError,
    EndpointError,
    PluginError,
    RequestRefusedError,
    StorageError,
    UpstreamError,
    UsageError,
)
from agentfw.turns.session import Reply

from ..protocols import About, BadRequest, Body, ChatRequest, Malformed, Protocol
from ..protocols.bodies import read_body
from ..protocols.chat import Chunks, headed, write_completion
from ..protocols.protocol import problem_of

LARGEST = 64_000_000
"""Bytes of a body, unpacked."""


async def body_of(request: Request, *, optional: bool = False) -> Body:
    """The JSON body of a request."""
    raw = await bytes_of(request)
    return Body({}) if optional and not raw.strip() else read_body(raw)


async def bytes_of(request: Request, most: int = LARGEST) -> bytes:
    """The body of a request, unpacked, of at most so many bytes."""
    parts, size = list[bytes](), 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise _too_large(most)
        parts.append(part)
    raw = b"".join(parts)
    encodings = request.headers.get("content-encoding", "").lower().split(",")
    for name in reversed([part.strip() for part in encodings]):
        if name not in ("", "identity"):
            raw = _unpacked(raw, name, most)
    return raw


def _unpacked(raw: bytes, encoding: str, most: int) -> bytes:
    """A body that a program has packed, never more of it than a body may have."""
    try:
        if encoding in ("gzip", "x-gzip", "deflate"):
            reader = zlib.decompressobj(zlib.MAX_WBITS | 32)  # either header
            found = reader.decompress(raw, most + 1)
            is_broken = not reader.eof and len(found) <= most
        elif encoding == "zstd":
            import zstandard

            window = zstandard.ZstdDecompressor(max_window_size=2**27)
            found, is_broken = window.stream_reader(io.BytesIO(raw)).read(most + 1), False
        else:
            raise ImportError(encoding)
    except ImportError:
        words = f'the encoding "{encoding[:40]}" can\'t be read here; send gzip'
        raise BadRequest(words, 415, field="content-encoding") from None
    except Exception:  # each library has errors of its own
        is_broken = True
    if is_broken:
        raise BadRequest(f"the body is not in {encoding}, as its header says", field="content-encoding")
    if len(found) > most:
        raise _too_large(most)
    return bytes(found)


def _too_large(most: int) -> BadRequest:
    return BadRequest(f"the body has more than {most:,} bytes", 413, code="body_too_large")


async def until_gone(request: Request) -> None:
    """Wait until the client hangs up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def json_answer(content: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    # In ASCII: a model can write lone surrogates, which UTF-8 can't encode.
    return Response(json.dumps(content), status, headers, media_type="application/json")


def error_answer(problem: BadRequest, protocol: Protocol, *, native: bool) -> Response:
    """The answer to a request that failed. A server's own refusal is passed on, in the protocol of the request.

    With `native`, it is in that protocol already.
    """
    headers = {**problem.headers}
    if problem.passed and native:
        return Response(problem.passed, problem.status, headers)
    headers.pop("content-type", None)
    if problem.status == 401:
        headers["www-authenticate"] = "Bearer"
    for name, own in protocol.fields.items():
        if problem.field == name or problem.field.startswith((f"{name}[", f"{name}.")):
            problem.message = problem.message.replace(name, own)
            problem.field = problem.field.replace(name, own, 1)
    return json_answer(protocol.error(problem), problem.status, headers)


def problem_of_error(error: AgentfwError) -> BadRequest:
    """What a request is answered that failed with this error."""
    words = f"{error.message} ({error.fix})" if error.fix else error.message
    if isinstance(error, UpstreamError):
        return _passed(error)
    if isinstance(error, StorageError):
        return BadRequest(words, 503, code="not_recorded")
    if isinstance(error, RequestRefusedError):
        return BadRequest(words, 400)
    if isinstance(error, BudgetSpentError):
        # Clients of OpenAI and Anthropic try again otherwise, and it would be refused again.
        return BadRequest(words, 429, code="insufficient_quota", headers={"x-should-retry": "false"})
    if isinstance(error, EndpointError):
        return BadRequest(words, 502, code="policy_unreachable")
    if isinstance(error, PluginError):
        return BadRequest(words, 500, code="policy_failed")
    # A wrong setting, or a prompt that is too long: the same request would fail again.
    return BadRequest(words, 409 if isinstance(error, UsageError) else 400)


def _passed(error: UpstreamError) -> BadRequest:
    """A server's refusal, with all that a program may act on."""
    if not error.content:
        return BadRequest(error.message, error.status, code="upstream_failed", headers=error.headers)
    try:
        reply = json.loads(error.content)
    except (ValueError, RecursionError):
        reply = None
    told = reply.get("error", reply) if isinstance(reply, dict) else error.content.decode("utf-8", "replace")[:300]
    problem = problem_of(told, error.status, error.headers)
    problem.passed = error.content
    return problem


class Writing:
    """One answer."""

    def __init__(
        self, protocol: Protocol, body: Body, asked: ChatRequest, about: About, *, spoken: Protocol | None
    ) -> None:
        """`spoken` is the protocol of the server that answers, if the request was passed on to one."""
        self.protocol, self._body, self._asked, self._about = protocol, body, asked, about
        self._spoken, self._native = spoken or protocol, spoken is protocol
        self._reader, self._writer = self._spoken.reader(), protocol.writer(body)
        self._chunks, self._begun, self._broken = Chunks(asked, about), False, False

    def whole(self, replies: Sequence[Reply], headers: Mapping[str, str]) -> Response:
        passed = replies[0].passed
        if passed is None:
            for reply in replies:
                self._check(reply)
            completion = write_completion(replies, self._asked, self._about)
            return json_answer(self.protocol.write_answer(completion, self._body), headers=headers)
        headers = {**passed.headers, **headers}
        if self._native:
            return Response(passed.content, passed.status, headers)
        headers.pop("content-type", None)
        completion = headed(self._spoken.read_answer(json.loads(passed.content)), "chat.completion", self._about)
        return json_answer(self.protocol.write_answer(completion, self._body), headers=headers)

    def piece(self, piece: str | bytes) -> Iterator[bytes]:
        """The events of the next piece of the policy's text, or of the next line of a server's stream."""
        if isinstance(piece, str):
            yield from self._written(self._start())
            yield from self._written(self._chunks.text(piece))
        elif self._native:
            yield piece
        else:
            yield from self._translated(piece)

    def end(self, reply: Reply) -> Iterator[bytes]:
        if reply.passed is None:
            try:
                self._check(reply)
            except BadRequest as problem:
                yield self.protocol.error_event(problem)
                return
            yield from self._written(self._start())
            yield from self._written(self._chunks.end(reply))
        elif self._native or self._broken:
            return
        yield from self._writer.end()

    def _translated(self, piece: bytes) -> Iterator[bytes]:
        """Nothing follows an error, whatever the server goes on with."""
        try:
            for line in () if self._broken else piece.splitlines():
                yield from self._written(
                    headed(chunk, "chat.completion.chunk", self._about) for chunk in self._reader.take(line)
                )
        except Malformed as error:
            self._broken = True
            yield self.protocol.error_event(problem_of(error.told or "the model's server sent a broken event"))

    def _start(self) -> Iterator[dict[str, Any]]:
        if not self._begun:
            self._begun = True
            yield from self._chunks.start()

    def _written(self, chunks: Iterator[dict[str, Any]]) -> Iterator[bytes]:
        for chunk in chunks:
            yield from self._writer.take(chunk)

    def _check(self, reply: Reply) -> None:
        if self._asked.must_call and not reply.calls:
            raise BadRequest("the answer has no call, which tool_choice requires", 500, code="no_call_made")
