"""Passes requests on to a server, and its answers back, as they are, in whichever API they are written.

What is added is what the record needs. Token ids with logprobs are asked for where the server's list of models says
that vLLM or agentfw serves them, or if the run insists. The token counts of a stream are asked for everywhere: a server
that refuses the field by its name is asked again without it. What was added for us is taken out of the answer. Nothing
is asked that costs anything, and nothing that a program asks changes what is added for another.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from agentfw import Generation, Request
from agentfw.episode import Usage
from agentfw.errors import UpstreamError
from agentfw.request import Forwarded, Passed

from ...protocols import BadRequest, Malformed, Protocol, protocol_named, protocols
from ...protocols.answers import StreamedReply, read_generation
from ...protocols.completion import objects, parsed, said_in, table
from .endpoint import LARGEST, Endpoint

if TYPE_CHECKING:
    import aiohttp

logger = logging.getLogger(__name__)

_NOT_SENT = {
    *("host", "content-length", "content-type", "content-encoding", "transfer-encoding", "accept-encoding"),
    *("connection", "keep-alive", "te", "trailer", "upgrade", "proxy-authorization", "proxy-connection", "expect"),
    *("cookie", "origin", "referer", "forwarded", "via"),
}
"""Headers of a request that are about its connection, or for the gateway."""
_NOT_RETURNED = {
    *("content-length", "content-encoding", "transfer-encoding", "connection", "keep-alive", "trailer", "upgrade"),
    *("server", "date", "set-cookie", "location", "via", "alt-svc", "strict-transport-security", "www-authenticate"),
}
_ASKING = 10.0  # seconds for a question of what a server knows; the first requests wait for it
_NEXT_TRY = 60.0  # seconds; nobody waits for a server that could not be asked a moment ago
_GIVE_TOKENS = {"vllm", "agentfw"}  # who owns the models, as the list of models says, on servers that give token ids
_SHORTEST_KEY = 16
_CREDENTIALS = {"authorization", "api-key"}
_FOR_TOKENS = {"logprobs": True, "return_token_ids": True}
_CHANGING = {
    *("logit_bias", "frequency_penalty", "presence_penalty", "repetition_penalty", "top_k", "min_p"),
    *("structured_outputs", "guided_json", "guided_regex", "guided_choice", "guided_grammar"),
}
"""Fields that change what tokens are drawn from."""
_MISSING = {404, 405, 501}  # what a server answers that doesn't have an API
_CUT_OFF = "the model's server ended the stream before the answer"


class _Added(NamedTuple):
    """What was added to one request, and has to be taken out of its answer."""

    logprobs: bool = False
    token_ids: bool = False
    usage: bool = False

    def out_of(self, reply: dict[str, Any]) -> dict[str, Any]:
        choices = objects(reply.get("choices"))
        for told in (reply, *choices) if self.token_ids else ():
            for name in ("token_ids", "prompt_token_ids", "prompt_logprobs"):
                told.pop(name, None)
        if self.usage:
            reply.pop("usage", None)
        for choice in choices:
            if self.logprobs and "logprobs" in choice:
                choice["logprobs"] = None
        return reply

    def out_of_line(self, line: bytes) -> bytes:
        """A line of a stream without it. Empty if nothing is left of the line."""
        chunk = parsed(line[5:]) if any(self) and line.startswith(b"data:") else None
        if not isinstance(chunk, dict):
            return line
        if self.usage and chunk.get("usage") and not chunk.get("choices"):
            return b""
        return b"data: " + json.dumps(self.out_of(chunk), separators=(",", ":")).encode() + b"\n"


class Forwarder:
    """Passes requests on to one server."""

    def __init__(
        self,
        endpoint: Endpoint,
        protocol: Protocol,
        *,
        apis: Sequence[str] | None = None,
        extra_body: Mapping[str, Any] | None = None,
        wants_tokens: bool | None = None,
    ) -> None:
        """`apis` are what the server speaks besides `protocol`; without them, it is asked.

        `wants_tokens` says whether token ids are asked for; None: where the server gives them.
        """
        self._endpoint, self.protocol, self._apis = endpoint, protocol, apis
        self._extra_body = dict(extra_body or {})
        self._tokens = wants_tokens if protocol.gives_tokens else False
        self._ask_again = 0.0  # when a server is asked again that could not be
        self._counts = True  # whether the server takes the question for the token counts of a stream
        self._speaks: dict[str, bool] = {}  # the APIs that the server was asked about

    async def speaks(self, name: str, model: str) -> bool:
        """Whether the server speaks a protocol, and answers in it with all that a training needs.

        A server that gives token ids is therefore asked in the protocol that has them.
        """
        asked = next((one for one in protocols().values() if name in (one.name, one.count_path)), None)
        if asked is None or asked is self.protocol or (asked.is_of_openai and self.protocol.is_of_openai):
            return asked is not None
        counts, name = name != asked.name, asked.name
        if self._apis is not None:
            return name in self._apis
        async with self._endpoint.lock():
            if name not in self._speaks:
                if (found := await self._has(asked, model)) is None:
                    return False
                self._speaks[name] = found
        return self._speaks[name] and (counts or not await self._gives_tokens())

    async def _has(self, protocol: Protocol, model: str) -> bool | None:
        """Whether the server knows a protocol: an empty request is then refused for that. None: it didn't say."""
        try:
            path = protocol.address(protocol.path, model or "model")
            async with asyncio.timeout(_ASKING), self._sent(path, b"{}") as response:
                status = response.status
        except (UpstreamError, TimeoutError):
            return None
        if status in (401, 403) and not self._endpoint.key():
            return True  # it asks programs for their keys, which this question doesn't have
        return None if status in (401, 403, 429) or (status >= 500 and status != 501) else status not in _MISSING

    async def forward(self, request: Request, forwarded: Forwarded, model: str) -> Passed:
        if not forwarded.protocol:
            return await self._unread(forwarded)
        protocol = protocol_named(forwarded.protocol)
        tokens = protocol.gives_tokens and await self._gives_tokens()
        body, added = self._body(protocol, forwarded, model, tokens=tokens)
        try:
            path = protocol.address(forwarded.path, model) + forwarded.query
        except BadRequest as problem:
            raise UpstreamError(problem.message, problem.status) from None
        names, without_counts = {action.name for action in request.actions}, False
        while True:
            content = forwarded.raw if forwarded.raw and body == forwarded.body else json.dumps(body).encode()
            try:
                async with self._accepted(path, content, forwarded) as (response, told):
                    if without_counts and "stream_options" not in body:
                        self._counts = False  # only now: the message may have been about something else
                    if response.headers.get("content-type", "").startswith("text/event-stream"):
                        forwarded.begun(response.status, told)
                        generations = await self._streamed(response, protocol, forwarded, added, names)
                        return Passed(_marked(generations, body), headers=told)
                    received, status = b"".join([part async for part in self._parts(response)]), response.status
                break
            except UpstreamError as refusal:
                ours = added.usage or (not forwarded.raw and "stream_options" in body)
                if not (ours and refusal.status in (400, 403, 422) and b"stream_options" in refusal.content):
                    raise
                logger.warning("%s rejects stream_options, so it is omitted", self._endpoint.url)
                without_counts, added = True, added._replace(usage=False)
                body.pop("stream_options")
                if forwarded.raw and "stream_options" in forwarded.body:
                    body["stream_options"] = forwarded.body["stream_options"]
        try:
            reply = parsed(received)
            generations = _generations(protocol.read_answer(reply) if request.messages else _counted(reply), names)
        except Malformed as error:
            logger.warning("an answer of %s can't be read: %s", self._endpoint.url, error)
            words, own = "the answer of the model's server can't be read", received if error.told else b""
            raise UpstreamError(str(error) if own else words, 502, headers=told, content=own) from None
        generations = _marked(generations, body)
        return Passed(generations, json.dumps(added.out_of(reply)).encode() if any(added) else received, told, status)

    async def _unread(self, forwarded: Forwarded) -> Passed:
        """Pass on what nobody reads: files, pictures, lists, and whatever else a server has."""
        address, raw = f"/{forwarded.path}{forwarded.query}", forwarded.raw or None
        async with self._accepted(address, raw, forwarded, forwarded.method) as (response, told):
            forwarded.begun(response.status, told)
            content = bytearray()
            async for part in self._parts(response):
                if forwarded.method == "GET" and forwarded.path.startswith("models"):
                    content += part
                forwarded.hear(part)
        return Passed((Generation(),), bytes(content), told)

    def _body(
        self, protocol: Protocol, forwarded: Forwarded, model: str, *, tokens: bool
    ) -> tuple[dict[str, Any], _Added]:
        asked = forwarded.body
        named = {} if "{model}" in forwarded.path else {"model": model}
        body = protocol.with_sampling({**asked, **named}, forwarded.sampling, run_wins=forwarded.run_wins)
        body |= self._extra_body
        if recalled := "\n\n".join(filter(None, (forwarded.added, forwarded.recalled))):
            body = protocol.with_recalled(body, recalled)
        for number, recalled in forwarded.recalled_again:
            body = protocol.with_recalled_again(body, number, recalled)
        if tokens:
            body |= _FOR_TOKENS
        added = _Added(tokens and not asked.get("logprobs"), tokens and not asked.get("return_token_ids"))
        if not (forwarded.raw or self._counts):
            body.pop("stream_options", None)  # not the program's: it was added when the request was translated
        options = asked.get("stream_options") or {}
        counts = self._counts and protocol.gives_tokens and asked.get("stream") is True
        if counts and isinstance(options, dict) and not options.get("include_usage"):
            body["stream_options"] = {**options, "include_usage": True}
            added = added._replace(usage=True)
        return body, added

    # -- what comes back -----------------------------------------------------------------------------------------------

    async def _streamed(
        self, response: aiohttp.ClientResponse, protocol: Protocol, forwarded: Forwarded, added: _Added, names: set[str]
    ) -> tuple[Generation, ...]:
        """Pass a stream on line by line, and read it for the record."""

        def hear(choice: Mapping[str, Any]) -> None:
            if (said := said_in(table(choice.get("delta")).get("content"))) and not choice.get("index"):
                forwarded.tell(said)

        reply, broken, cut_off = StreamedReply(protocol.reader, hear), "", ""
        try:
            async with aclosing(self._lines(response)) as lines:
                async for line in lines:
                    try:
                        reply.take(line)
                    except Malformed as error:
                        if not broken:
                            logger.warning("a stream of %s is broken: %s", self._endpoint.url, error)
                        broken = broken or "unreadable"
                        if not isinstance(parsed(line.removeprefix(b"data:")), dict):
                            continue  # nor could an error be read that follows on it
                        broken = "told"  # the server's own error
                    if passed := added.out_of_line(line):
                        forwarded.hear(passed)
        except UpstreamError as error:
            cut_off = str(error)
        if cut_off or not (reply.ended or broken == "told"):
            problem = BadRequest(cut_off or _CUT_OFF, 502, code="upstream_failed", kind="server_error")
            forwarded.hear(protocol.error_event(problem))
        try:
            found = _generations(reply.so_far(), names)
        except Malformed:
            raise UpstreamError(_CUT_OFF, 502) from None
        if cut_off or not reply.ended:
            for generation in found:
                generation.finish = "interrupted"
        return found

    async def _lines(self, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        rest = bytearray()
        async with aclosing(self._parts(response)) as parts:
            async for part in parts:
                rest += part
                if b"\n" in part:
                    *lines, rest = rest.split(b"\n")
                    for line in lines:
                        yield bytes(line) + b"\n"
        if rest:
            yield bytes(rest) + b"\n"

    async def _parts(self, response: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
        """The parts of an answer, until it is silent for too long, or too large."""
        import aiohttp

        parts, size = aiter(response.content.iter_any()), 0
        while True:
            try:
                async with asyncio.timeout(self._endpoint.deadline):
                    part = await anext(parts)
            except StopAsyncIteration:
                return
            except aiohttp.ClientError as error:
                logger.warning("%s broke off: %s", self._endpoint.url, error)
                raise UpstreamError("the model's server broke off its answer", 502) from None
            except TimeoutError:
                raise self._silent() from None
            size += len(part)
            if size > LARGEST:
                raise UpstreamError(f"the answer of the model's server has more than {LARGEST // 1_000_000} MB", 502)
            yield part

    # -- the server ----------------------------------------------------------------------------------------------------

    @property
    def _credentials(self) -> set[str]:
        """The headers that programs send their keys in."""
        return _CREDENTIALS | {one.key_header for one in protocols().values()}

    @asynccontextmanager
    async def _accepted(
        self, path: str, content: bytes | None, forwarded: Forwarded, method: str = "POST"
    ) -> AsyncIterator[tuple[aiohttp.ClientResponse, dict[str, str]]]:
        """Send a request that is passed on. Yields the answer, and its headers to pass on. Raises a refusal."""
        async with self._sent(path, content, forwarded, method) as response:
            told = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers)
            headers = {name: value for name, value in told if _passes(name, _NOT_RETURNED)}
            if not 200 <= response.status < 300:
                refusal = b"".join([part async for part in self._parts(response)])
                keys = [forwarded.headers.get(name, "").removeprefix("Bearer ") for name in self._credentials]
                keys = [key for key in keys if len(key) >= _SHORTEST_KEY]  # others stand for none
                for secret in (*keys, self._endpoint.key(), self._endpoint.url, response.url.authority):
                    refusal = refusal.replace(secret.encode(), b"***") if secret else refusal
                status = response.status if response.status >= 400 else 502
                words = f"the model's server refused the request: HTTP {response.status}"
                raise UpstreamError(words, status, headers=headers, content=refusal if status != 502 else b"")
            yield response, headers

    @asynccontextmanager
    async def _sent(
        self, path: str, content: bytes | None, forwarded: Forwarded | None = None, method: str = "POST"
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request. Failures to get an answer are UpstreamErrors without the address."""
        import aiohttp

        headers, callers = dict[str, str](), False
        if forwarded is not None:
            callers = forwarded.key == "callers" or (forwarded.key == "either" and not self._endpoint.key())
            held = _NOT_SENT if callers else _NOT_SENT | self._credentials
            held = held if forwarded.protocol else held - {"content-type"}
            headers = {name: _text_of(value) for name, value in forwarded.headers.items() if _passes(name, held)}
        async with AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(self._endpoint.deadline):
                    sending = self._endpoint.once(path, content, headers, method, with_key=not callers)
                    response = await stack.enter_async_context(sending)
            except aiohttp.ClientError as error:  # some are a TimeoutError, too
                logger.warning("%s can't be reached: %s: %s", self._endpoint.url, type(error).__name__, error)
                raise UpstreamError("the model's server can't be reached", 502) from None
            except TimeoutError:
                raise self._silent() from None
            yield response

    def _silent(self) -> UpstreamError:
        return UpstreamError(f"the model's server has sent nothing for {self._endpoint.deadline:g} s", 504)

    async def _gives_tokens(self) -> bool:
        """Whether token ids are asked for. The server's list of models is looked at, once."""
        now = asyncio.get_running_loop().time()
        if self._tokens is None and now >= self._ask_again:
            async with self._endpoint.lock():
                if self._tokens is None and now >= self._ask_again:
                    try:
                        async with asyncio.timeout(_ASKING), self._sent("/models", None, None, "GET") as response:
                            listed = table(parsed(b"".join([part async for part in self._parts(response)])))
                            owners = {str(row.get("owned_by")) for row in objects(listed.get("data"))}
                            self._tokens = bool(owners & _GIVE_TOKENS)
                    except (UpstreamError, TimeoutError):
                        self._ask_again = now + _NEXT_TRY
        return bool(self._tokens)


def _counted(reply: object) -> dict[str, Any]:
    """What a request took that nobody answers with a text, such as one for embeddings."""
    if not isinstance(reply, dict):
        raise Malformed("the answer is not a JSON object")
    usage = {"completion_tokens": 0, **table(reply.get("usage"))}
    return {"model": reply.get("model"), "choices": [{"message": {"content": ""}}], "usage": usage}


def _generations(reply: dict[str, Any], names: set[str]) -> tuple[Generation, ...]:
    """What was generated, one for each choice. The first has the usage of all."""
    first = read_generation(reply, names)
    others = [read_generation({**reply, "choices": [choice]}, names) for choice in reply["choices"][1:]]
    return first, *(replace(other, usage=Usage(0, 0, 0)) for other in others)


def _marked(generations: tuple[Generation, ...], body: Mapping[str, Any]) -> tuple[Generation, ...]:
    """The generations, marked if the request changed what they were drawn from."""
    form, choice = body.get("response_format"), body.get("tool_choice")
    by_schema = isinstance(form, dict) and form.get("type") != "text"
    constrained = by_schema or choice == "required" or isinstance(choice, dict) or any(map(body.get, _CHANGING))
    return tuple(replace(generation, constrained=True) for generation in generations) if constrained else generations


def _text_of(header: str) -> str:
    """The text of a program's header, which came read as Latin-1. It is sent in UTF-8."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header


def _passes(name: str, held: set[str]) -> bool:
    return name.lower() not in held and not name.lower().startswith(("x-agentfw-", "x-forwarded-", "access-control-"))
