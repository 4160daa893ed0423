"""Answers requests: which model is asked and how, in whose session, and the line in which requests wait for it.

An answer waits in the line, is asked of the policy, and is recorded. Whoever asked may hang up: then the line is left,
or the policy is told to stop, and what it had said by then stays in the record. An answer that the policy has given is
recorded in any case.
"""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal, NamedTuple

from agentfw import Message, Policy, Session
from agentfw.boundary.gate import needing
from agentfw.errors import AgentfwError, EndpointError, UpstreamError
from agentfw.request import Forwarded
from agentfw.turns.session import Reply

from ..protocols import About, BadRequest, Body, ChatRequest, Protocol, protocols
from ..protocols.chat import read_chat, recorded
from ..view.index_rows import PART_OF
from .handling import CHAT, Caller, Callers, Counts, HungUp, Streaming, Writing, body_of, caller_of, problem_of_error
from .learning.learning import Learning
from .profiles import Sent, Told, told_by
from .sessions.session_finder import SESSION_NAME, SessionFinder
from .variants import NOTE, Variant, VariantFile

with needing("the gateway", "web"):
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse

OWN = "agentfw"
"""What the policy of the run can always be called."""
_PRIVATE = ("user=", "key=")  # parameters of an address that are for the gateway
_LONGEST_ADVICE = 60  # seconds
_SUB_AGENT, _PARENT = "x-claude-code-agent-id", "x-parent-session-id"
"""Headers of Claude Code, which has the session of the agent that it works for, and of opencode, which has its own."""


@dataclass(frozen=True, slots=True)
class Model:
    name: str = ""
    """Empty for the policy of the run."""
    policy: Policy | None = None
    """None: whichever a session has."""
    forwards: bool = False
    """Whether requests are passed on as they are."""
    fallback: str = ""
    """The model that answers if this one is away."""
    protocol: str = ""
    """The protocol of its server, if requests are passed on."""
    version: str = ""
    """The version of a training that it is. Empty for a model as it came."""


class Models:
    def __init__(
        self,
        own: Model | None = None,
        others: Sequence[Model] = (),
        *,
        names: Sequence[str] = (),
        known: str = "",
        key: Literal["own", "either", "callers"] = "own",
    ) -> None:
        """`names` are those of the run's policy; without any, it answers to all that no other model has.

        `known` is a name of the policy that means no model of its server. `key` says whose key requests are passed on
        with, as in `Forwarded`.
        """
        self.key: Literal["own", "either", "callers"] = key
        self.own, self.others = own or Model(), {model.name: model for model in others}
        self._names, self._own_names = names, {OWN, known}

    @property
    def names(self) -> tuple[str, ...]:
        """What programs are told that there is, besides the models of a server that they may choose among."""
        usual = (OWN,) if self.own.forwards else sorted(self._own_names - {""})
        return tuple(dict.fromkeys((*(self._names or usual), *self.others)))

    @property
    def are_the_servers(self) -> bool:
        """Whether programs may choose among the models of a server, by the names that it gives them."""
        return self.own.forwards and not self._names

    def of_client(self, request: Request) -> Model:
        """The model whose server a request is for that names none."""
        return self._speaking("messages" if "anthropic-version" in request.headers else self.own.protocol)

    def _speaking(self, protocol: str) -> Model:
        if self.own.protocol == protocol:
            return self.own
        speaking = (model for model in self.others.values() if model.forwards and model.protocol == protocol)
        return next(speaking, self.own)

    def find(self, name: str, protocol: str) -> Model:
        """The model that a program asks for. Raises BadRequest (404) if there is none.

        A name that says nothing to the gateway is one of the server that speaks the protocol of the request: with
        two providers, requests, and the keys in them, go to the one that they are for.
        """
        if name in self.others:
            return self.others[name]
        if self.are_the_servers and name not in self._own_names:
            return self._speaking(protocol)
        if self._names and name not in (*self._names, OWN):
            words = f'there is no model "{name[:200]}"; there is: {", ".join(self.names)}'
            raise BadRequest(words, 404, code="model_not_found", field="model")
        return self.own

    async def route(self, protocol: Protocol, given: Body, body: Body, request: Request, model: Model) -> ModelRoute:
        """How a model is asked. What it can't do is refused."""
        if not model.forwards or model.policy is None:
            if protocol.plain and not (model.policy is not None and model.policy.continues):
                raise _no_text(protocol)
            follows_schemas = model.policy is not None and model.policy.follows_schemas
            asked = read_chat(protocol.read_request(body), follows_schemas=follows_schemas)
            return ModelRoute(model, replace(asked, plain=protocol.plain))
        # The server is asked in the protocol of the request, or in the first to which it can be translated.
        name = body.name("model")
        others = [one for one in protocols().values() if one.converses and not (one.plain or protocol.plain)]
        for spoken in (protocol, *others):
            if await model.policy.speaks(spoken.name, name):
                break
        else:
            if protocol.plain:
                raise _no_text(protocol)
            raise BadRequest("the model's server speaks no known protocol", 502)
        if spoken is protocol:
            asked = replace(recorded(protocol, body), plain=protocol.plain)
        else:
            chat = protocol.read_request(body)
            asked, given = recorded(CHAT, chat), Body(spoken.write_request(chat))
        path = spoken.stream_path if asked.stream and spoken.stream_path else spoken.path
        forwarded = self.forwarded(model, spoken, path, name, given, request)
        if spoken is not protocol:  # what else the program's address asks is in another protocol
            forwarded = replace(forwarded, query=f"?{path.partition('?')[2]}" if "?" in path else "")
        return ModelRoute(model, asked, forwarded, spoken)

    def key_for(self, request: Request) -> Literal["own", "either", "callers"]:
        """Whose key a request is passed on with. A key of the gateway, which there may be by now, never leaves it."""
        return "own" if self.key == "either" and request.state.needs_key else self.key

    def forwarded(
        self, model: Model, protocol: Protocol, path: str, name: str, body: Body, request: Request
    ) -> Forwarded:
        """A request as it is passed on to the server of a model, in the protocol that it is written in."""
        values = body.values
        if name in self._own_names or (model is self.own and name in self.others):  # its server doesn't know the name
            name, values = "", {key: value for key, value in values.items() if key != "model"}
        path, query, headers = path.partition("?")[0], query_of(request), {**request.headers}
        return Forwarded(values, protocol.name, path, name, query, body.raw, headers, key=self.key_for(request))


def _no_text(protocol: Protocol) -> BadRequest:
    words = f"{protocol.name} is not supported by this policy: it can't go on with a text"
    return BadRequest(words, code="unsupported_parameter")


def query_of(request: Request) -> str:
    query = [part for part in request.url.query.split("&") if part and not part.startswith(_PRIVATE)]
    return f"?{'&'.join(query)}" if query else ""


def is_away(error: AgentfwError) -> bool:
    """Whether another model may answer instead: this one's server is unreachable, overloaded or broken."""
    if isinstance(error, UpstreamError):
        return error.status == 429 or error.status >= 500
    return isinstance(error, EndpointError)


class ModelRoute(NamedTuple):
    model: Model
    asked: ChatRequest
    forwarded: Forwarded | None = None
    spoken: Protocol | None = None
    """The protocol that the model's server is asked in, if the request is passed on."""
    remembers: bool = True

    def varied(self, variant: Variant) -> ModelRoute:
        """The same as a variant has it, which is of this model: with its prompt in the system message."""
        asked, forwarded = self.asked, self.forwarded
        if variant.prompt:
            asked = replace(asked, messages=variant.prompted(asked.messages))
            forwarded = forwarded and replace(forwarded, added=variant.prompt)
        return self._replace(asked=asked, forwarded=forwarded, remembers=variant.remembers)


class AnswerInProgress:
    def __init__(
        self,
        answers: Answers,
        session: Session,
        caller: Caller,
        route: ModelRoute,
        instead: Callable[[Model], Awaitable[ModelRoute | None]] | None,
        told: Told,
        sent: Sequence[Message],
    ) -> None:
        """`instead` says how another model is asked if this one is away, and `told` what the request says of its user.

        `sent` are the messages of the program. The answer goes on whether or not anybody waits for it.
        """
        self._answers, self.session, self._caller = answers, session, caller
        self.route, self._instead, self._told, self._sent = route, instead, told, sent
        self._can_stop, self._hung_up, self._started = True, False, time.monotonic()
        self._seconds_to_first: float | None = None  # how long the first piece took, if it is streamed
        self.pieces: asyncio.Queue[str | bytes | None] = asyncio.Queue()
        """The pieces of a streamed answer, or its lines if it is passed on; None is the end."""
        self.headers: dict[str, str] = {}
        """The headers of a stream that is passed on."""
        self.task = asyncio.create_task(self._run())
        self.task.add_done_callback(self._done)

    async def reply(self) -> Reply:
        try:
            return await asyncio.shield(self.task)
        except asyncio.CancelledError:
            if self.task.cancelled():  # before it began
                raise HungUp from None
            raise

    def give_up(self) -> None:
        """Nobody waits for the answer. If the policy is still at work on it, it stops."""
        if self._can_stop:
            self.task.cancel()

    async def _run(self) -> Reply:
        session, finder = self.session, self._answers.finder
        try:
            async with self._answers.line.place(self._caller.client):
                try:
                    reply = await self._answered()
                finally:
                    self._can_stop = False
        except asyncio.CancelledError:
            self._hung_up = True  # also if that can't be recorded
            session.note("session", "hung_up")
            await finder.keep(session)
            raise HungUp from None
        except AgentfwError:
            if not session.over:  # the next gateway that answers here has to know what was asked and said
                await finder.keep(session)
            raise
        await finder.keep(session, self._sent, reply)
        return reply

    async def _answered(self) -> Reply:
        """The answer of the model that was asked for, or of the next one that isn't away."""
        tried = set[str]()
        while True:
            tried.add(self.route.model.name)
            try:
                return await self._asked_of(self.route)
            except AgentfwError as error:
                if self._begun or self._instead is None or not is_away(error):
                    raise
                try:
                    other = await self._instead(self.route.model)
                except BadRequest:
                    other = None  # it can't do what is asked
                if other is None or other.model.name in tried:
                    raise
                about = {"model": self.route.model.name, "instead": other.model.name, "why": error.message}
                self.session.note("session", "fell_back", about)
                self.route = other

    async def _asked_of(self, route: ModelRoute) -> Reply:
        asked, forwarded = route.asked, route.forwarded
        # A variant's prompt may stand before what the program has sent.
        said = (*[()] * (len(asked.messages) - len(self._told.said)), *self._told.said)
        # A text has no place for what is remembered, and side work is none of the user's.
        is_users = not (asked.plain or self._told.is_side_work)
        if forwarded is not None:
            forwarded = replace(forwarded, hear=self._tell, begun=lambda _, headers: self.headers.update(headers))
        return await self.session.answer(
            asked.messages,
            asked.actions,
            asked.sampling,
            user=self._caller.user if is_users and route.remembers else "",
            said=said,
            stop=asked.stop,
            schema=asked.schema,
            tell=self._tell if asked.stream else None,
            forwarded=forwarded,
            plain=asked.plain,
            model=route.model.name,
            policy=route.model.policy if route.model.name else None,
        )

    @property
    def _begun(self) -> bool:
        """Whether something of the answer was sent on, which can't be taken back."""
        return self._seconds_to_first is not None or bool(self.headers)

    def _tell(self, piece: str | bytes) -> None:
        if self._seconds_to_first is None:
            self._seconds_to_first = time.monotonic() - self._started
        self.pieces.put_nowait(piece)

    def _done(self, task: asyncio.Task[Reply]) -> None:
        seconds = time.monotonic() - self._started
        self.pieces.put_nowait(None)
        if not task.cancelled():
            task.exception()  # whoever asked may be gone, and an exception that nobody looks at is printed
        if self._answers.counts is not None:
            self._answers.counts.answer(task, seconds, self._seconds_to_first, hung_up=self._hung_up)


class Answers:
    def __init__(
        self,
        finder: SessionFinder,
        models: Models,
        callers: Callers,
        line: Line,
        *,
        learning: Learning | None = None,
        variants: VariantFile | None = None,
        counts: Counts | None = None,
    ) -> None:
        self.finder, self.models, self.callers, self.line = finder, models, callers, line
        self.learning, self._variants, self.counts = learning, variants, counts
        self._requests: dict[asyncio.Task[None], tuple[Session, list[AnswerInProgress]]] = {}
        """Each request in progress: its session, which is released when all of its answers are done."""

    async def answer(self, protocol: Protocol, request: Request, *, streams: bool = False) -> Response:
        given = await body_of(request)
        body = protocol.addressed(given, {**request.query_params, **request.path_params}, streams=streams)
        model = self.models.find(body.name("model"), protocol.name)
        route = await self.models.route(protocol, given, body, request, model)
        told = told_by(Sent(request.headers, given.values, route.asked))
        if told.masked and self.counts is not None:
            self.counts.masked(told.masked)
        name = request.path_params.get("session") or request.headers.get("x-agentfw-session", "") or told.session
        caller = await self._caller(protocol, request, body, route, told, name)
        file = self._variants if self._variants and os.path.lexists(self._variants.path) else None
        comparison, variant = file.read() if file is not None else None, Variant()

        async def instead(away: Model) -> ModelRoute | None:
            if not away.fallback:
                return None
            other = self.models.others.get(away.fallback, self.models.own)
            found = await self.models.route(protocol, given, body, request, other)
            return found.varied(variant) if found.asked.answers == 1 else None

        # It is found by what its program has sent, and not by a prompt that is there for as long as a comparison.
        session, sent = await self._session(request, caller, name, told, route.asked), route.asked.messages
        answers: list[AnswerInProgress] = []
        try:
            headers = {"x-agentfw-session": session.name.removeprefix(caller.space)}
            if comparison is not None:
                if not route.asked.plain:
                    variant = comparison.of(caller.user or f"session {headers['x-agentfw-session']}", caller.space)
                    if variant.model:
                        body = Body({**body.values, "model": variant.model})
                        model = self.models.find(variant.model, protocol.name)
                        route = await self.models.route(protocol, given, body, request, model)
                    route = route.varied(variant)
                headers["x-agentfw-variant"] = _in_header(variant.name)
                noted = {"began": comparison.began, "variant": variant.name}
                events = reversed(session.episode.events)
                if next((one.data for one in events if (one.kind, one.name) == ("session", NOTE)), None) != noted:
                    session.note("session", NOTE, noted)
                if self.learning is not None:
                    self.learning.served.pin(session.name, variant.version)
            if self.learning is not None:
                headers["x-agentfw-version"] = self.learning.served.version_of(session.name, session.episode.task.user)
            goes_on = instead if route.asked.answers == 1 else None
            for asked in route.asked.each():
                each = route._replace(asked=asked)
                if answers:
                    self.finder.hold(session)
                answers.append(AnswerInProgress(self, session, caller, each, goes_on, told, sent))
        finally:
            attending = asyncio.create_task(self._attend(request, session, answers))
            self._requests[attending] = session, answers
            attending.add_done_callback(self._requests.pop)
        about = About(f"{headers['x-agentfw-session']}-{secrets.token_hex(4)}", int(time.time()), route.asked.model)
        try:
            if route.asked.stream:
                return await self._streamed(answers[0], partial(Streaming, protocol, body, about), headers)
            replies = [await answer.reply() for answer in answers]
        finally:
            request.state.native = answers[0].route.spoken is protocol
        headers["x-agentfw-turn"] = str(replies[0].turn.index)
        if self.learning is not None:
            headers["x-agentfw-version"] = _in_header(replies[0].turn.version)
        route = answers[0].route
        headers |= self._answered_by(route)
        return Writing(protocol, body, about, route.asked, route.spoken).whole(replies, headers)

    async def _caller(
        self, protocol: Protocol, request: Request, body: Body, route: ModelRoute, told: Told, name: str
    ) -> Caller:
        """Who asks in the session of this name."""
        # A field that programs are known to put a session's id into is no user.
        caller = caller_of(request, body, "" if told.program else route.asked.user)
        if route.spoken is protocol and caller.key is not None:
            protocol.refuse_foreign(body)
        await self.callers.count(caller)
        if not request.state.needs_key:
            caller = self.finder.asking(caller, name)
        return caller.named("", told.user) if told.user and not caller.user else caller  # whoever has this device

    async def _session(self, request: Request, caller: Caller, name: str, told: Told, asked: ChatRequest) -> Session:
        """The session that a request belongs to, which is a part of another one if a sub-agent asks."""
        agent, parent = request.headers.get(_SUB_AGENT, ""), request.headers.get(_PARENT, "")
        if name and agent and SESSION_NAME.fullmatch(f"{name}.{agent}"):
            name, parent = f"{name}.{agent}", name
        elif name == parent or not SESSION_NAME.fullmatch(parent):
            parent = ""
        try:
            session = await self.finder.find(caller, name, asked.messages)
        except BadRequest as error:
            if name != told.session or error.status not in (403, 410):
                raise
            # The program can't choose another name for a session that is over, or another user's.
            session = await self.finder.find(caller, "", asked.messages)
        if parent and not session.episode.turns:
            session.note("session", PART_OF, {"session": parent})
        return session

    def _answered_by(self, route: ModelRoute) -> dict[str, str]:
        """The headers that say which of several models answered, and which version of a training it is."""
        headers = {"x-agentfw-model": _in_header(route.model.name or OWN)} if self.models.others else {}
        if route.model.version and (self.learning is None or route.model.name):
            headers["x-agentfw-version"] = _in_header(route.model.version)
        return headers

    async def _attend(self, request: Request, session: Session, answers: Sequence[AnswerInProgress]) -> None:
        """Give answers up when their client hangs up, and release their session when all are done."""

        def hung_up(_: object) -> None:
            for answer in answers:
                answer.give_up()

        if answers:
            watch = asyncio.create_task(until_gone(request))
            watch.add_done_callback(hung_up)
            await asyncio.wait([answer.task for answer in answers])
            watch.cancel()
        for _ in range(max(1, len(answers))):
            await self.finder.release(session)

    async def _streamed(
        self,
        answer: AnswerInProgress,
        write: Callable[[ChatRequest, Protocol | None], Streaming],
        headers: dict[str, str],
    ) -> Response:
        first = await answer.pieces.get()
        writing = write(answer.route.asked, answer.route.spoken)
        headers = {**headers, **self._answered_by(answer.route)}
        if first is None:
            reply = await answer.reply()  # a failure before the first word has a status code of its own
            if reply.passed is not None:
                return writing.whole([reply], headers)  # this server doesn't stream

        async def events(piece: str | bytes | None) -> AsyncIterator[bytes]:
            while piece is not None:
                written = [*writing.piece(piece)]
                # What has come by now goes out in one write.
                while not answer.pieces.empty() and (piece := answer.pieces.get_nowait()) is not None:
                    written += writing.piece(piece)
                if written:
                    yield b"".join(written)
                if piece is not None:
                    piece = await answer.pieces.get()
            try:
                reply = await answer.reply()
            except AgentfwError as error:
                yield writing.protocol.error_event(problem_of_error(error))
                return
            except HungUp:
                return
            for event in writing.end(reply):
                yield event

        headers = {**answer.headers, **headers}
        return StreamingResponse(events(first), media_type="text/event-stream", headers=headers)

    async def finish(self, session: Session | None = None, *, seconds: float | None = None) -> None:
        """Wait for the requests in progress, of one session or of all. Answers that take longer are cut off."""
        left = {task: answers for task, (of, answers) in self._requests.items() if session is None or of is session}
        if left:
            _, late = await asyncio.wait(left, timeout=seconds)
            for answer in (answer for task in late for answer in left[task]):
                answer.give_up()
            await asyncio.wait(left)


def _in_header(name: str) -> str:
    """A name as the value of a header, where it is sent in UTF-8."""
    return name.encode("utf-8", "replace").decode("latin-1")


async def until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Line:
    """The line in front of a policy, where clients take turns, however many requests each of them has in it.

    At most so many answers are given at once, and nothing else limits them. When the line is full, the client with the
    most requests in it loses its last one.
    """

    def __init__(self, *, at_once: int = 64, waiting: int = 1000, patience: float = 60.0) -> None:
        self.at_once, self.waiting, self.patience = at_once, waiting, patience
        self.served = Counter[str]()
        """Number of answers in progress, by client."""
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        """The waiting requests of each client. The client whose turn it is comes first."""
        self._seconds = 1.0  # about how long an answer takes

    @property
    def length(self) -> int:
        return sum(map(len, self._queues.values()))

    @asynccontextmanager
    async def place(self, client: str) -> AsyncIterator[None]:
        """Wait for a place. Raises BadRequest (503) if there is none in time."""
        if self.served.total() < self.at_once:
            self.served[client] += 1
        else:
            await self._wait(client)
        began = time.monotonic()
        try:
            yield
        finally:
            self._seconds += 0.1 * (time.monotonic() - began - self._seconds)
            self._leave(client)

    async def _wait(self, client: str) -> None:
        if self.length >= self.waiting:
            longest = max(self._queues, key=lambda one: len(self._queues[one]), default=client)
            if len(self._queues.get(longest, ())) <= len(self._queues.get(client, ())) + 1:
                raise self._busy("the line is full")
            last = self._queues[longest].pop()
            if not last.done():  # it may have given up, and not left yet
                last.set_exception(self._busy("the line is full"))
        turn = asyncio.get_running_loop().create_future()
        self._queues.setdefault(client, deque()).append(turn)
        try:
            async with asyncio.timeout(self.patience):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._leave(client)  # its turn came at the same moment
            elif turn in self._queues.get(client, ()):
                self._queues[client].remove(turn)
                if not self._queues[client]:
                    del self._queues[client]
            if not isinstance(error, TimeoutError):
                raise
            raise self._busy(f"no place became free within {self.patience:g} s") from None

    def _leave(self, client: str) -> None:
        self.served[client] -= 1
        if not self.served[client]:
            del self.served[client]
        while self._queues and self.served.total() < self.at_once:
            following = next(iter(self._queues))
            queue = self._queues.pop(following)
            turn = queue.popleft()
            if queue:  # its next request waits until the other clients have had their turn
                self._queues[following] = queue
            if not turn.done():
                self.served[following] += 1
                turn.set_result(None)

    def _busy(self, why: str) -> BadRequest:
        advice = min(max(1, math.ceil(self._seconds * (self.length + 1) / self.at_once)), _LONGEST_ADVICE)
        words = f"this server is busy: it gives {self.at_once} answers at once (--max-concurrency), and {why}"
        return BadRequest(words, 503, code="server_busy", headers={"retry-after": str(advice)})
