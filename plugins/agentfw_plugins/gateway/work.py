"""The answers that a gateway is giving.

An answer waits in the line, is asked of the policy, and is recorded. Whoever asked may hang up: then the line is left,
or the policy is told to stop, and what it had said by then stays in the record. An answer that the policy has given is
recorded in any case.

    work = Working(finder, Line()).begin(session, caller, asked)
    reply = await work.reply()
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from agentfw import Session
from agentfw.forwarding import Forwarded
from agentfw.session import Reply

from .bodies import Asked
from .callers import Caller
from .line import Line
from .session_finder import SessionFinder

__all__ = ["HungUp", "Work", "Working"]


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
        asked: Asked,
        forwarded: Forwarded | None,
    ) -> None:
        self.session, self._finder, self._line = session, finder, line
        self._caller, self._asked = caller, asked
        self._can_stop, self._began = True, time.monotonic()
        self.hung_up, self.seconds = False, 0.0
        """Whether nobody waited for its end, and how long it took."""
        self.seconds_to_first: float | None = None
        """How long the first piece took, if it is streamed."""
        self.told: asyncio.Queue[str | bytes | None] = asyncio.Queue()
        """The pieces of a streamed answer, or its lines if it is passed on; None is the end."""
        self.headers: dict[str, str] = {}
        """The headers of a stream that is passed on."""
        if forwarded is not None:
            forwarded = replace(forwarded, hear=self._tell, begun=self.headers.update)
        self._forwarded = forwarded
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
        session, asked = self.session, self._asked
        try:
            async with self._line.place(self._caller.client):
                try:
                    reply = await session.answer(
                        asked.messages,
                        asked.actions,
                        asked.sampling,
                        user=self._caller.user,
                        stop=asked.stop,
                        schema=asked.schema,
                        tell=self._tell if asked.stream else None,
                        forwarded=self._forwarded,
                    )
                finally:
                    self._can_stop = False
        except asyncio.CancelledError:
            self.hung_up = True
            session.note("session", "hung_up")
            await self._finder.keep(session)
            raise HungUp from None
        await self._finder.keep(session, asked.messages, reply)
        return reply

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

    def begin(self, session: Session, caller: Caller, asked: Asked, forwarded: Forwarded | None = None) -> Work:
        work = Work(self.finder, self.line, session, caller, asked, forwarded)
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
