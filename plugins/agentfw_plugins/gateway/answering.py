"""The answers that a gateway is giving, and the line in which requests wait for them.

An answer waits in the line, is asked of the policy, and is recorded. Whoever asked may hang up: then the line is left,
or the policy is told to stop, and what it had said by then stays in the record. An answer that the policy has given is
recorded in any case.

    answers = AnswersInProgress(finder, Line(at_once=32, waiting=1000, patience=60))
    reply = await answers.begin(session, caller, ModelRoute(model, asked)).reply()

At most so many answers are given at once, and nothing else limits them. The other requests wait, and clients take
turns, however many requests each of them has in the line. When the line is full, the client with the most requests in
it loses its last one.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import NamedTuple

from agentfw import Session
from agentfw.errors import AgentfwError
from agentfw.request import Forwarded
from agentfw.turns.session import Reply

from ..protocols import BadRequest, ChatRequest, Protocol
from .callers import Caller
from .models import Model, is_away
from .profiles import Told
from .sessions.session_finder import SessionFinder
from .variants import Variant

_LONGEST_ADVICE = 60  # seconds


class ModelRoute(NamedTuple):
    """How one model is asked."""

    model: Model
    asked: ChatRequest
    forwarded: Forwarded | None = None
    spoken: Protocol | None = None
    """The protocol that the model's server is asked in, if the request is passed on."""
    remembers: bool = True
    """Whether memories take part."""

    def varied(self, variant: Variant) -> ModelRoute:
        """The same as a variant has it, which is of this model: with its prompt in the system message."""
        found = self._replace(remembers=variant.remembers)
        if not variant.prompt:
            return found
        forwarded = self.forwarded and replace(self.forwarded, added=variant.prompt)
        asked = replace(self.asked, messages=variant.prompted(self.asked.messages))
        return found._replace(asked=asked, forwarded=forwarded)


Instead = Callable[[Model], Awaitable[ModelRoute | None]]
"""How another model is asked if this one is away."""


class HungUp(Exception):
    """Nobody waits for this answer any more."""


class AnswerInProgress:
    """One answer."""

    def __init__(
        self,
        finder: SessionFinder,
        line: Line,
        session: Session,
        caller: Caller,
        route: ModelRoute,
        instead: Instead | None,
        told: Told | None,
    ) -> None:
        self.session, self._finder, self._line = session, finder, line
        self._caller, self.route, self._instead, self._told = caller, route, instead, told
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
        session = self.session
        try:
            async with self._line.place(self._caller.client):
                try:
                    reply = await self._answered()
                finally:
                    self._can_stop = False
        except asyncio.CancelledError:
            self.hung_up = True
            session.note("session", "hung_up")
            await self._finder.keep(session)
            raise HungUp from None
        except AgentfwError:
            if not session.over:  # the next gateway that answers here has to know what was asked and said
                await self._finder.keep(session)
            raise
        await self._finder.keep(session, self.route.asked.messages, reply)
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
        said = None
        if self._told is not None:  # a variant's prompt may stand before what the program has sent
            said = (*[()] * (len(asked.messages) - len(self._told.said)), *self._told.said)
        # A text has no place for what is remembered, and side work is none of the user's.
        is_users = not (asked.plain or (self._told is not None and self._told.is_side_work))
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


class AnswersInProgress:
    """All answers in progress."""

    def __init__(
        self, finder: SessionFinder, line: Line, count: Callable[[AnswerInProgress], object] | None = None
    ) -> None:
        """`count` is called with each answer that is over."""
        self.finder, self.line, self.count = finder, line, count
        self._all = set[AnswerInProgress]()

    def begin(
        self,
        session: Session,
        caller: Caller,
        route: ModelRoute,
        instead: Instead | None = None,
        told: Told | None = None,
    ) -> AnswerInProgress:
        """`told` is what the request says of its user. Default: the messages of the user are what they said."""
        answer = AnswerInProgress(self.finder, self.line, session, caller, route, instead, told)
        self._all.add(answer)
        answer.task.add_done_callback(lambda _: self._over(answer))
        return answer

    def _over(self, answer: AnswerInProgress) -> None:
        self._all.discard(answer)
        if self.count is not None:
            self.count(answer)

    async def finish(self, session: Session | None = None, *, seconds: float | None = None) -> None:
        """Wait for the answers in progress, of one session or of all. Those that take longer are cut off."""
        left = [answer for answer in self._all if session is None or answer.session is session]
        if left:
            _, late = await asyncio.wait([answer.task for answer in left], timeout=seconds)
            for answer in left:
                if answer.task in late:
                    answer.give_up()
            await asyncio.gather(*(answer.task for answer in left), return_exceptions=True)


class Line:
    """The line in front of a policy."""

    def __init__(self, *, at_once: int = 64, waiting: int = 1000, patience: float = 60.0) -> None:
        self.at_once, self.waiting, self.patience = at_once, waiting, patience
        self.served = Counter[str]()
        """Number of answers in progress, by client."""
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        """The waiting requests of each client. The client whose turn it is comes first."""
        self._seconds = 1.0
        """About how long an answer takes."""

    @property
    def length(self) -> int:
        """Number of requests that wait."""
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
            if isinstance(error, TimeoutError):
                raise self._busy(f"no place became free within {self.patience:g} s") from None
            raise

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
        seconds = math.ceil(self._seconds * (self.length + 1) / self.at_once)
        advice = min(max(1, seconds), _LONGEST_ADVICE)
        words = f"this server is busy: it gives {self.at_once} answers at once (--max-concurrency), and {why}"
        return BadRequest(words, 503, code="server_busy", headers={"retry-after": str(advice)})
