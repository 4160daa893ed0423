"""The answers that a gateway is giving.

An answer waits in the line, is asked of the policy, and is recorded. Whoever asked may hang up: then the line is left,
or the policy is told to stop, and what it had said by then stays in the record. An answer that the policy has given is
recorded in any case.

    work = Working(finder, Line()).begin(session, caller, Way(model, asked))
    reply = await work.reply()
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import NamedTuple

from agentfw import Session
from agentfw.errors import AgentfwError
from agentfw.request import Forwarded
from agentfw.turns.session import Reply

from ..protocols import BadRequest, ChatRequest, Protocol
from .callers import Caller
from .line import Line
from .models import Model, is_away
from .sessions.session_finder import SessionFinder

__all__ = ["HungUp", "Way", "Work", "Working"]


class Way(NamedTuple):
    """How one model is asked."""

    model: Model
    asked: ChatRequest
    forwarded: Forwarded | None = None
    spoken: Protocol | None = None
    """The protocol that the model's server is asked in, if the request is passed on."""


Instead = Callable[[Model], Awaitable[Way | None]]
"""How another model is asked if this one is away."""


class HungUp(Exception):
    """Nobody waits for this answer any more."""


class Work:
    """One answer."""

    def __init__(
        self,
        finder: SessionFinder,
        line: Line,
        session: Session,
        caller: Caller,
        way: Way,
        instead: Instead | None,
    ) -> None:
        self.session, self._finder, self._line = session, finder, line
        self._caller, self.way, self._instead = caller, way, instead
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
        await self._finder.keep(session, self.way.asked.messages, reply)
        return reply

    async def _answered(self) -> Reply:
        """The answer of the model that was asked for, or of the next one that isn't away."""
        tried = set[str]()
        while True:
            tried.add(self.way.model.name)
            try:
                return await self._asked_of(self.way)
            except AgentfwError as error:
                if self._begun or self._instead is None or not is_away(error):
                    raise
                try:
                    other = await self._instead(self.way.model)
                except BadRequest:
                    other = None  # it can't do what is asked
                if other is None or other.model.name in tried:
                    raise
                about = {"model": self.way.model.name, "instead": other.model.name, "why": error.message}
                self.session.note("session", "fell_back", about)
                self.way = other

    async def _asked_of(self, way: Way) -> Reply:
        asked, forwarded = way.asked, way.forwarded
        if forwarded is not None:
            forwarded = replace(forwarded, hear=self._tell, begun=self.headers.update)
        return await self.session.answer(
            asked.messages,
            asked.actions,
            asked.sampling,
            user="" if asked.plain else self._caller.user,  # a text has no place for what is remembered
            stop=asked.stop,
            schema=asked.schema,
            tell=self._tell if asked.stream else None,
            forwarded=forwarded,
            plain=asked.plain,
            model=way.model.name,
            policy=way.model.policy if way.model.name else None,
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


class Working:
    """All answers in progress."""

    def __init__(self, finder: SessionFinder, line: Line, count: Callable[[Work], object] | None = None) -> None:
        """`count` is called with each answer that is over."""
        self.finder, self.line, self.count = finder, line, count
        self._all = set[Work]()

    def begin(self, session: Session, caller: Caller, way: Way, instead: Instead | None = None) -> Work:
        work = Work(self.finder, self.line, session, caller, way, instead)
        self._all.add(work)
        work.task.add_done_callback(lambda _: self._over(work))
        return work

    def _over(self, work: Work) -> None:
        self._all.discard(work)
        if self.count is not None:
            self.count(work)

    async def finish(self, session: Session | None = None, *, seconds: float | None = None) -> None:
        """Wait for the answers in progress, of one session or of all. Those that take longer are cut off."""
        left = [work for work in self._all if session is None or work.session is session]
        if left:
            _, late = await asyncio.wait([work.task for work in left], timeout=seconds)
            for work in left:
                if work.task in late:
                    work.give_up()
            await asyncio.gather(*(work.task for work in left), return_exceptions=True)
