"""The models of a gateway, the answers that they are giving, and the line in which requests wait for them.

An answer waits in the line, is asked of the policy, and is recorded. Whoever asked may hang up: then the line is left,
or the policy is told to stop, and what it had said by then stays in the record. An answer that the policy has given is
recorded in any case.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from agentfw import Policy, Session
from agentfw.boundary.settings_input import marked_keys
from agentfw.errors import AgentfwError, BudgetSpentError, EndpointError, UpstreamError
from agentfw.request import Forwarded
from agentfw.runs import Choice, LiveRun
from agentfw.settings import VERSION
from agentfw.turns.session import Reply

from ..models.checkpoint import version_name
from ..protocols import BadRequest, Body, ChatRequest, Protocol
from .handling import Caller
from .profiles import Told
from .sessions.session_finder import SessionFinder
from .variants import Variant

if TYPE_CHECKING:
    from starlette.requests import Request

OWN = "agentfw"
"""What the policy of the run can always be called."""
_PRIVATE = ("user=", "key=")  # parameters of an address that are for the gateway
_LONGEST_ADVICE = 60  # seconds


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

    @property
    def follows_schemas(self) -> bool:
        return self.policy is not None and self.policy.follows_schemas


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


def query_of(request: Request) -> str:
    query = [part for part in request.url.query.split("&") if part and not part.startswith(_PRIVATE)]
    return f"?{'&'.join(query)}" if query else ""


def is_away(error: AgentfwError) -> bool:
    """Whether another model may answer instead: this one's server is unreachable, overloaded or broken."""
    if isinstance(error, UpstreamError):
        return error.status == 429 or error.status >= 500
    return isinstance(error, EndpointError) and not isinstance(error, BudgetSpentError)


def served_models(live: LiveRun, names: Sequence[str], key: Literal["own", "either", "callers"] = "own") -> Models:
    """The models of a live run. `names` are those of its policy."""
    assembly, spec = live.assembly, live.assembly.spec
    # Where the gateway has to call tools of a memory itself, or a hook decides, it has to read each answer.
    acts = assembly.decisions.reads or any(memory.overrides("tools") for memory in assembly.memories)

    def model(choice: Choice, policy: Policy, name: str, fallback: str) -> Model:
        protocol, served = str(getattr(choice.checked, "protocol", "")), version_folder(choice)
        version, forwards = version_name(served) if served else "", policy.forwards and not acts
        return Model(name, assembly.surrounded(policy, name), forwards, fallback, protocol, version)

    own = model(spec.policy, assembly.policy, "", spec.fallback)
    pairs = zip(spec.models, assembly.models.values(), strict=True)
    others = [model(choice, policy, choice.alias, choice.fallback) for choice, policy in pairs]
    return Models(own, others, names=names, known=spec.policy.name, key=key)


def version_folder(choice: Choice) -> Path | None:
    """The folder of the version of a training that a policy answers with."""
    keys = marked_keys(type(choice.checked), VERSION) if choice.checked is not None else ()
    found = [str(value) for key in keys if (value := getattr(choice.checked, key, ""))]
    return Path(found[0]) if found else None


class ModelRoute(NamedTuple):
    model: Model
    asked: ChatRequest
    forwarded: Forwarded | None = None
    spoken: Protocol | None = None
    """The protocol that the model's server is asked in, if the request is passed on."""
    remembers: bool = True
    """Whether memories take part."""

    def varied(self, variant: Variant) -> ModelRoute:
        """The same as a variant has it, which is of this model: with its prompt in the system message."""
        asked, forwarded = self.asked, self.forwarded
        if variant.prompt:
            asked = replace(asked, messages=variant.prompted(asked.messages))
            forwarded = forwarded and replace(forwarded, added=variant.prompt)
        return self._replace(asked=asked, forwarded=forwarded, remembers=variant.remembers)


Instead = Callable[[Model], Awaitable[ModelRoute | None]]
"""How another model is asked if this one is away."""


class HungUp(Exception):
    """Nobody waits for this answer any more."""


class AnswerInProgress:
    def __init__(
        self,
        answers: AnswersInProgress,
        session: Session,
        caller: Caller,
        route: ModelRoute,
        instead: Instead | None,
        told: Told,
    ) -> None:
        """`told` is what the request says of its user."""
        self._answers, self.session, self._caller = answers, session, caller
        self.route, self._instead, self._told = route, instead, told
        self._can_stop, self._began = True, time.monotonic()
        self.hung_up, self.seconds = False, 0.0
        """Whether nobody waited for its end, and how long it took."""
        self.seconds_to_first: float | None = None
        """How long the first piece took, if it is streamed."""
        self.told: asyncio.Queue[str | bytes | None] = asyncio.Queue()
        """The pieces of a streamed answer, or its lines if it is passed on; None is the end."""
        self.headers: dict[str, str] = {}
        """The headers of a stream that is passed on."""
        self.task = asyncio.create_task(self._run())
        self.task.add_done_callback(self._done)
        answers.all.add(self)

    async def reply(self) -> Reply:
        """Wait for the answer. It goes on if the waiting is cancelled."""
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
            self.hung_up = True
            session.note("session", "hung_up")
            await finder.keep(session)
            raise HungUp from None
        except AgentfwError:
            if not session.over:  # the next gateway that answers here has to know what was asked and said
                await finder.keep(session)
            raise
        await finder.keep(session, self.route.asked.messages, reply)
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
        return self.seconds_to_first is not None or bool(self.headers)

    def _tell(self, piece: str | bytes) -> None:
        if self.seconds_to_first is None:
            self.seconds_to_first = time.monotonic() - self._began
        self.told.put_nowait(piece)

    def _done(self, task: asyncio.Task[Reply]) -> None:
        self.seconds = time.monotonic() - self._began
        self.told.put_nowait(None)
        if not task.cancelled():
            task.exception()  # whoever asked may be gone, and an exception that nobody looks at is printed
        self._answers.all.discard(self)
        if self._answers.count is not None:
            self._answers.count(self)


class AnswersInProgress:
    def __init__(
        self, finder: SessionFinder, line: Line, count: Callable[[AnswerInProgress], object] | None = None
    ) -> None:
        """`count` is called with each answer that is over."""
        self.finder, self.line, self.count = finder, line, count
        self.all = set[AnswerInProgress]()

    async def finish(self, session: Session | None = None, *, seconds: float | None = None) -> None:
        """Wait for the answers in progress, of one session or of all. Those that take longer are cut off."""
        left = [answer for answer in self.all if session is None or answer.session is session]
        if left:
            _, late = await asyncio.wait([answer.task for answer in left], timeout=seconds)
            for answer in left:
                if answer.task in late:
                    answer.give_up()
            await asyncio.gather(*(answer.task for answer in left), return_exceptions=True)


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
