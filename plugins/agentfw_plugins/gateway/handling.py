"""What the handlers of the gateway share: who asks, bodies of requests, answers and errors, and what is counted.

Without keys, whoever can log in on this machine is served, as the one who runs the gateway; web pages and other
machines are not. With keys, who has the gateway's own key (the operator) may see everything, and who has a key of the
file sees the sessions of that key only: their names begin with the key's, so no request of another key can name them.
Names are compared exactly as they are, character by character. None is normalised into another's.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import secrets
import time
import zlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from agentfw import errors
from agentfw.boundary.gate import needing
from agentfw.errors import AgentfwError, BudgetSpentError, UpstreamError, in_words
from agentfw.turns.session import Reply

from ..protocols import About, BadRequest, Body, ChatRequest, Malformed, Protocol
from ..protocols.chat import ChatCompletions, headed, last_chunks, write_completion
from ..protocols.completion import chunk_of, parsed
from ..protocols.protocol import problem_of, read_body
from .keys import Key, Keys

with needing("the gateway", "web"):
    from prometheus_client import CollectorRegistry, Counter, Histogram
    from starlette.requests import ClientDisconnect, Request
    from starlette.responses import Response

LOOPBACK = ("localhost", "127.0.0.1", "::1")
LARGEST = 64_000_000
"""Bytes of a body, unpacked."""
CHAT = ChatCompletions()
Handler = Callable[[Request], Awaitable[Response]]
logger = logging.getLogger("agentfw.gateway.requests")
"""Each request. It never has what was said, an address's query or a header."""
logger.propagate = False
_STATUS: tuple[tuple[type[AgentfwError], int, str], ...] = (
    (errors.StorageError, 503, "not_recorded"),
    (errors.RequestRefusedError, 400, ""),
    (BudgetSpentError, 429, "insufficient_quota"),
    (errors.EndpointError, 502, "policy_unreachable"),
    (errors.PluginError, 500, "policy_failed"),
    (errors.UnknownNameError, 404, "no_such_item"),
    (errors.UsageError, 409, ""),
    (AgentfwError, 400, ""),
)
"""What an error is answered, by the first kind that it is. What is refused with 4xx would fail again."""
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


@dataclass(frozen=True, slots=True)
class Caller:
    client: str
    """Whose share of the answers it takes: a key's, or else an address's."""
    user: str = ""
    """The user whom the request is of. Empty if it names none."""
    key: Key | None = None
    """The key of the file that it came with. None for the operator."""
    space: str = ""
    """What the names of its sessions begin with in the record: those of a key with its name."""

    def named(self, user: str, hint: str = "") -> Caller:
        """The caller of a request that names this user. A hint counts where nothing else says who the user is."""
        if self.key is None or self.key.user is None:
            return replace(self, user=user or hint)
        if user not in ("", self.key.user):
            raise BadRequest("this key belongs to another user", 403, code="another_user")
        return replace(self, user=self.key.user)

    def may_see(self, user: str) -> bool:
        """Whether a session of this user is the caller's. The operator who names no user sees all."""
        return user in ("", self.user) or (self.key is None and not self.user)

    def check(self, user: str) -> None:
        """Raise BadRequest (403) if a session of this user is none of the caller's."""
        if not self.may_see(user):
            raise BadRequest("this session belongs to another user", 403, code="another_user")


class Callers:
    def __init__(self, operators: Sequence[str] = (), keys: Keys | None = None, *, own_header: bool = False) -> None:
        """With `own_header`, keys of the gateway come in `x-agentfw-key` alone, and others are the provider's."""
        self.operators, self.keys, self._own_header = operators, keys, own_header
        self._has_keys = bool(operators)

    @property
    def needs_key(self) -> bool:
        # Keys that were there and are gone don't open the gateway to everybody.
        self._has_keys = self._has_keys or (self.keys is not None and self.keys.exists)
        return self._has_keys

    def admit(self, request: Request, key_header: str) -> Caller:
        """The caller of a request, before its body is read. Raises BadRequest for whoever is not let in.

        The key is in `x-agentfw-key`, in `authorization`, or where the protocol of the request has it.
        """
        address = request.client.host if request.client else ""
        if not self.needs_key:
            # A web page must not get at it: neither under another name of this machine, nor from another site.
            origin = request.headers.get("origin")
            if not _is_local(f"//{request.headers.get('host', '')}") or (origin and not _is_local(origin)):
                raise BadRequest("without a key, only programs of this machine are served", 403, code="not_local")
            return Caller(address)
        given = request.headers.get("x-agentfw-key", "")
        if not (given or self._own_header):
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            given = given.strip() if scheme.lower() == "bearer" else request.headers.get(key_header, "")
        if self.is_operator(given):
            return Caller(address)
        key = self.keys.find(given) if self.keys is not None else None
        if key is None:
            where = "the gateway's key, in x-agentfw-key," if self._own_header else "the key"
            raise BadRequest(f"{where} is missing or wrong", 401, code="invalid_api_key")
        return Caller(f"{key.name}:", key=key, space=f"{key.name}:")

    def is_operator(self, given: str) -> bool:
        right = [secrets.compare_digest(given.encode(), key.encode()) for key in self.operators]  # each, in equal time
        return any(right)

    async def count(self, caller: Caller) -> None:
        """Count a request for an answer. Raises BadRequest (429) beyond the limit of its key."""
        if caller.key is not None and self.keys is not None:
            await self.keys.count(caller.key)


def caller_of(request: Request, body: Body, hint: str = "") -> Caller:
    """Who sends a request: the user is named in its body, in its address, or in a header.

    `safety_identifier` counts, and so does `hint`, where nothing else names a user.
    """
    name = "x-agentfw-user"
    try:  # a name means the same there and in a body
        header = request.headers.get(name, "").encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        raise BadRequest(f"{name} must be in UTF-8", field=name) from None
    in_address, in_header = Body(dict(request.query_params)), Body({name: header})
    found = {body.name("user", ""), in_address.name("user", ""), in_header.name(name, "")} - {""}
    if len(found) > 1:
        raise BadRequest("the request names several users", field="user")
    hint = body.name("safety_identifier", "") or hint
    admitted: Caller = request.state.caller
    caller = admitted.named(found.pop() if found else "", hint)
    if {"\ufffd", "\0"} & {*caller.user}:  # what stands for a character that can't be read is nobody's name
        raise BadRequest("the user's name has a character that can't be read", field="user")
    return caller


def _is_local(address: str) -> bool:
    try:
        return urlsplit(address).hostname in LOOPBACK
    except ValueError:
        return False


async def body_of(request: Request, *, optional: bool = False) -> Body:
    raw = await bytes_of(request)
    return Body({}) if optional and not raw.strip() else read_body(raw)


async def bytes_of(request: Request, most: int = LARGEST) -> bytes:
    """The body of a request, unpacked, of at most so many bytes."""
    parts, size = list[bytes](), 0
    async for part in request.stream():
        parts.append(part)
        if (size := size + len(part)) > most:
            break
    raw = b"".join(parts)
    for name in reversed([part.strip() for part in request.headers.get("content-encoding", "").lower().split(",")]):
        if name not in ("", "identity") and len(raw) <= most:
            raw = _unpacked(raw, name, most)
    if len(raw) > most:
        raise BadRequest(f"the body has more than {most:,} bytes", 413, code="body_too_large")
    return raw


def _unpacked(raw: bytes, encoding: str, most: int) -> bytes:
    """A body unpacked, or a little more of it than the most that it may have."""
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
    return bytes(found)


class HungUp(Exception):
    """Nobody waits for this answer any more."""


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
    if not isinstance(error, UpstreamError):
        words = f"{error.message} ({error.fix})" if error.fix else error.message
        status, code = next((status, code) for kind, status, code in _STATUS if isinstance(error, kind))
        # Clients of OpenAI and Anthropic try again otherwise, and it would be refused again.
        headers = {"x-should-retry": "false"} if isinstance(error, BudgetSpentError) else {}
        return BadRequest(words, status, code=code, headers=headers)
    if not error.content:
        return BadRequest(error.message, error.status, code="upstream_failed", headers=error.headers)
    reply = parsed(error.content)
    told = reply.get("error", reply) if isinstance(reply, dict) else error.content.decode("utf-8", "replace")[:300]
    problem = problem_of(told, error.status, error.headers)
    problem.passed = error.content
    return problem


class Counts:
    """What was asked and answered, as figures for Prometheus. No label of a figure names a user, a key or a session."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, words: str, *labels: str) -> Counter:
            return Counter(f"agentfw_{name}", words, labels, registry=registry)

        def histogram(name: str, words: str, *labels: str) -> Histogram:
            return Histogram(f"agentfw_{name}_seconds", words, labels, buckets=_SECONDS, registry=registry)

        self._requests = counter(
            "requests", "Requests, by what was asked and the status of the answer", "what", "status"
        )
        self._until = histogram("request", "Time until an answer or a stream begins, by what was asked", "what")
        self._answers = counter("answers", "Answers of the policy, by how they ended", "end")
        self._answer = histogram("answer", "Time that a complete answer of the policy takes, with its wait in the line")
        self._first = histogram("first_piece", "Time until the first piece of a streamed answer")
        self._masked = counter("masked", "Secrets in what users typed, which no memory hears, by kind", "kind")
        self._tokens = counter("tokens", "Tokens of complete answers, where the policy tells their number", "kind")

    def request(self, what: str, status: int, seconds: float) -> None:
        self._requests.labels(what, str(status)).inc()
        self._until.labels(what).observe(seconds)

    def masked(self, counts: Mapping[str, int]) -> None:
        for kind, count in counts.items():
            self._masked.labels(kind).inc(count)

    def answer(self, task: asyncio.Task[Reply], seconds: float, to_first: float | None, *, hung_up: bool) -> None:
        """Count an answer that is over. `to_first` is how long the first piece took, if it was streamed."""
        if to_first is not None:
            self._first.observe(to_first)
        if hung_up or task.cancelled():
            self._answers.labels("hung_up").inc()
        elif (failure := task.exception()) is not None:
            self._answers.labels("failed" if isinstance(failure, AgentfwError) else "refused").inc()
        else:
            usage, count = task.result().turn.usage, task.result().turn.count
            self._answers.labels("complete").inc()
            self._answer.observe(seconds)
            self._tokens.labels("prompt").inc(usage.prompt or 0)
            self._tokens.labels("cached").inc(usage.cached or 0)
            self._tokens.labels("sampled").inc(count if usage.sampled is None else usage.sampled)


def guarded(
    what: str,
    handler: Handler,
    callers: Callers,
    counts: Counts | None,
    protocol: Protocol | None = None,
    *,
    needs_key: bool = True,
    admits: bool = True,
) -> Handler:
    """The handler for whoever is let in. What it raises is answered in its protocol, and each request is counted."""
    speaks = protocol or CHAT

    async def handled(request: Request) -> Response:
        request.state.needs_key = callers.needs_key
        try:
            if admits and (needs_key or not callers.needs_key):
                request.state.caller = callers.admit(request, speaks.key_header)
            return await handler(request)
        except BadRequest as error:
            problem = error
        except AgentfwError as error:
            problem = problem_of_error(error)
        except (ClientDisconnect, HungUp):
            return Response(status_code=400)
        except Exception as error:
            if not speaks.title:
                raise
            # It may be unable to word errors, too.
            problem = BadRequest(f"{speaks.title} failed: {in_words(error)}", 500, code="protocol_failed")
            logging.getLogger(__name__).warning("%s", problem.message, exc_info=True)
            return error_answer(problem, CHAT, native=False)
        # A server's refusal may be in the protocol of the request already.
        return error_answer(problem, speaks, native=getattr(request.state, "native", False))

    async def counted(request: Request) -> Response:
        began = time.perf_counter()
        answer = await handled(request)
        status, seconds = answer.status_code, time.perf_counter() - began
        if counts is not None:
            counts.request(what, status, seconds)
        if logger.isEnabledFor(logging.INFO):
            client = getattr(getattr(request.state, "caller", None), "client", "")
            figures = {"what": what, "status": status, "seconds": round(seconds, 4)}
            figures |= {"session": request.path_params.get("session", ""), "client": client}
            logger.info("request", extra={"figures": figures})
        return answer

    return counted


@dataclass
class Writing:
    """Writes an answer in the protocol of its request.

    It is that of a policy that samples by itself, or that of a server, which is passed on as it is or translated.
    """

    protocol: Protocol
    body: Body
    about: About
    asked: ChatRequest
    spoken: Protocol | None
    """The protocol of the server that answers, if the request was passed on to one."""

    def whole(self, replies: Sequence[Reply], headers: Mapping[str, str]) -> Response:
        if (passed := replies[0].passed) is None:
            for reply in replies:
                self._check(reply)
            completion = write_completion(replies, self.asked, self.about)
            return json_answer(self.protocol.write_answer(completion, self.body), headers=headers)
        headers = {**passed.headers, **headers}
        if self.spoken is None or self.spoken is self.protocol:
            return Response(passed.content, passed.status, headers)
        headers.pop("content-type", None)
        completion = headed(self.spoken.read_answer(json.loads(passed.content)), "chat.completion", self.about)
        return json_answer(self.protocol.write_answer(completion, self.body), headers=headers)

    def _check(self, reply: Reply) -> None:
        if self.asked.must_call and not reply.calls:
            raise BadRequest("the answer has no call, which tool_choice requires", 500, code="no_call_made")


@dataclass
class Streaming(Writing):
    """Writes an answer piece by piece, unless its server gives it as a whole."""

    def __post_init__(self) -> None:
        self._reader, self._writer = (self.spoken or self.protocol).reader(), self.protocol.writer(self.body)
        self._native, self._begun, self._broken = self.spoken is self.protocol, False, False

    def piece(self, piece: str | bytes) -> Iterator[bytes]:
        """The events of the next piece of the policy's text, or of the next line of a server's stream."""
        if isinstance(piece, str):
            yield from self._written([*self._start(), chunk_of({"content": piece})])
            return
        if self._native:
            yield piece
            return
        try:
            for line in () if self._broken else piece.splitlines():  # nothing follows an error
                yield from self._written(self._reader.take(line))
        except Malformed as error:
            self._broken = True
            yield self.protocol.error_event(problem_of(error.told or "the model's server sent a broken event"))

    def end(self, reply: Reply) -> Iterator[bytes]:
        if reply.passed is None:
            try:
                self._check(reply)
            except BadRequest as problem:
                yield self.protocol.error_event(problem)
                return
            yield from self._written([*self._start(), *last_chunks(reply, self.asked)])
        elif self._native or self._broken:
            return
        yield from self._writer.end()

    def _start(self) -> Iterator[dict[str, Any]]:
        if not self._begun:
            self._begun = True
            yield chunk_of({"role": "assistant", "content": ""})

    def _written(self, chunks: Iterable[dict[str, Any]]) -> Iterator[bytes]:
        for chunk in chunks:
            told = headed(chunk, "chat.completion.chunk", self.about)
            # Some protocols say what an answer is called in the first event only.
            self.about = About(str(told["id"]).removeprefix("chatcmpl-"), told["created"], told["model"])
            yield from self._writer.take(told)
