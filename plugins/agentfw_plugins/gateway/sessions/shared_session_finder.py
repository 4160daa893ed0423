"""Finds sessions that several gateways share (see `session_store`).

Any gateway answers in any session. While one does, it has the session to itself, and a request that another gateway
gets meanwhile waits there. What a gateway has in memory of a session is good for as long as no other had news of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TypeVar
from weakref import WeakKeyDictionary

from agentfw import Episode, Message, Session
from agentfw.errors import StorageError
from agentfw.runs import LiveRun
from agentfw.turns.session import Reply, extended, lengths, news_since

from ...protocols import BadRequest
from ..callers import Caller
from .session_database import UnreachableError
from .session_finder import CLOSED, IDLE, LiveSessionFinder, digests_of, has_ended, no_such_session
from .session_journal import SessionJournal
from .session_store import SessionStore, Shared

Answer = TypeVar("Answer")

_PAUSE = 0.05
"""Seconds between two looks whether another gateway has given a session back."""
_THREADS = 8


@dataclass(eq=False)
class _Held:
    """A session that this gateway works on or waits for."""

    requests: int = 0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    number: int | None = None
    """Its number in the store, while it is this gateway's."""


@dataclass(eq=False)
class _Known:
    """How much of a session the store has."""

    version: int
    lengths: tuple[int, int, int, int] = (0, 0, 0, 0)


class SharedSessionFinder(LiveSessionFinder):
    """The sessions of a store, led by this gateway and others."""

    def __init__(
        self,
        live: LiveRun,
        store: SessionStore,
        *,
        most: int = 10_000,
        idle: float = 3600.0,
        patience: float = 60.0,
        keep_ended: float | None = None,
    ) -> None:
        super().__init__(live, most=most, idle=idle)
        self.store, self.patience, self.keep_ended = store, patience, keep_ended
        self._held: dict[str, _Held] = {}
        self._known = WeakKeyDictionary[Session, _Known]()
        self._threads = ThreadPoolExecutor(_THREADS, "agentfw-sessions")

    async def find(self, caller: Caller, name: str, messages: Sequence[Message]) -> Session:
        if not name:
            digests = self._keys(caller, caller.user, messages)
            found = await self._ask(self.store.session_of, digests) if digests else ""
            name = found.removeprefix(caller.space)
        first = caller.space + name if name else self._new_name(caller, "")
        return await self._hold(caller, first, lambda: self._new_name(caller, name) if name else first)

    async def known(self, caller: Caller, name: str) -> Session:
        return await self._hold(caller, caller.space + name)

    async def _hold(self, caller: Caller, first: str, new: Callable[[], str] | None = None) -> Session:
        """Take a session for a request. With `new`, which checks its name, begin one where there is none."""
        held = self._held.setdefault(first, _Held())
        held.requests += 1
        try:
            async with held.lock:
                session = self._led(held)
                if session is None:
                    session = await self._take(held, caller, first, new)
            return self._of(caller, session)
        except BaseException:
            await self._let_go(first, held)
            raise

    def _led(self, held: _Held) -> Session | None:
        """The session, if another request of this gateway has it already."""
        if held.number is None:
            return None
        return next((one for one in self.live.sessions.values() if one.episode.task.index == held.number), None)

    async def _take(self, held: _Held, caller: Caller, first: str, new: Callable[[], str] | None) -> Session:
        until = time.monotonic() + self.patience
        while True:
            found = await self._ask(self.store.take, first)
            again = 0
            if found is not None and found.finish:
                self._check(caller, found.user)
                if new is None or found.finish not in (IDLE, CLOSED):
                    raise has_ended()
                again, found = found.again + 1, None
            if found is None:
                if new is None:
                    raise no_such_session()
                self._check_room()
                found = await self._ask(self.store.begin, new(), again, caller.user)
                if found is None:
                    continue
            if found.is_taken:
                held.number = found.number
                return await self._up_to_date(found)
            if time.monotonic() > until:
                words = "another gateway is answering in this session"
                raise BadRequest(words, 503, code="session_busy", headers={"retry-after": "1"})
            await asyncio.sleep(_PAUSE)

    async def _up_to_date(self, shared: Shared) -> Session:
        """The session as the store has it."""
        session = self.live.sessions.get(shared.name)
        known = None if session is None else self._known.get(session)
        if session is not None and known is not None and known.version == shared.version:
            return session
        news = [Episode.from_record(record) for record in await self._ask(self.store.records, shared.number)]
        if news:
            session = self.live.adopt(reduce(extended, news))
            self._known[session] = _Known(shared.version, lengths(session.episode))
        else:
            session = self.live.begin(shared.name, shared.user, shared.number)
            self._known[session] = _Known(0)
        return session

    async def keep(self, session: Session, messages: Sequence[Message] = (), reply: Reply | None = None) -> None:
        first = _first(session)
        answers = []
        if reply is not None and first.rpartition(":")[2].startswith("auto-"):
            space = first.rpartition("auto-")[0]
            answers = [_key(space, session.episode.task.user, digests_of([*messages, reply.message])[-1])]
        await self._commit(session, answers=answers)
        await self.live.keep(session)

    async def _commit(self, session: Session, *, finish: str = "", answers: Sequence[str] = ()) -> None:
        """Write what is new in a session to the store."""
        first, episode = _first(session), session.episode
        async with self._held[first].lock:
            known = self._known.get(session)
            if known is None:
                raise StorageError("another gateway has taken this session over", fix="ask again")
            until, task = lengths(episode), episode.task
            record = news_since(episode, known.lengths).to_record()
            append = partial(self.store.append, user=task.user, finish=finish, answers=answers, first=first)
            try:
                await self._ask(append, task.index, known.version, record)
            except Exception:
                # It may be written or not, and perhaps it is another gateway's now: the next request asks the store.
                self._forget(session)
                raise
            known.version, known.lengths = known.version + 1, until

    async def release(self, session: Session) -> None:
        first = _first(session)
        await self._let_go(first, self._held[first])

    async def _let_go(self, first: str, held: _Held) -> None:
        async with held.lock:
            held.requests -= 1
            if held.requests == 0:
                if held.number is not None:
                    await self._ask(self.store.give_back, held.number)
                    held.number = None
                if self._held.get(first) is held and not held.requests:
                    del self._held[first]

    async def _end(self, session: Session, finish: str) -> float:
        session.end(finish)
        await self._commit(session, finish=finish)
        reward = await super()._end(session, finish)
        await self._ask(partial(self.store.give_back, session.episode.task.index, concluded=True))
        return reward

    async def end_idle(self) -> None:
        """Renew leases, end unused sessions and delete old ones until cancelled."""
        await asyncio.gather(self._stay_alive(), self._sweep(), self._drop())

    async def _stay_alive(self) -> None:
        while True:
            with contextlib.suppress(UnreachableError):
                numbers = [held.number for held in self._held.values() if held.number is not None]
                await asyncio.to_thread(self.store.renew, numbers)
            await asyncio.sleep(self.store.lease / 3)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(min(60.0, max(0.05, self.idle / 4)))
            with contextlib.suppress(UnreachableError):
                # One at a time: another gateway may end the next one meanwhile.
                while shared := await asyncio.to_thread(self.store.take_unused, self.idle):
                    await self._conclude(shared)
            used = {held.number for held in self._held.values()}
            for session in list(self.live.sessions.values()):
                if session.episode.task.index not in used and time.monotonic() - session.used > self.idle:
                    self._forget(session)

    async def _drop(self) -> None:
        if self.keep_ended is None:
            return
        journal = SessionJournal(self.store.database)
        while True:
            with contextlib.suppress(UnreachableError):
                await asyncio.to_thread(journal.drop_ended, self.keep_ended)
            await asyncio.sleep(min(3600.0, max(0.05, self.keep_ended / 24)))

    async def _conclude(self, shared: Shared) -> None:
        held = self._held.setdefault(shared.first, _Held())
        held.requests += 1
        try:
            async with held.lock:
                session = await self._up_to_date(shared)
                held.number = shared.number
            if shared.finish:  # the gateway that ended it was killed before it was scored
                session.end(shared.finish)
                await super()._end(session, shared.finish)
                await self._ask(partial(self.store.give_back, shared.number, concluded=True))
            else:
                await self._end(session, IDLE)
        finally:
            await self._let_go(shared.first, held)

    def _forget(self, session: Session) -> None:
        """Drop what this gateway has of a session, which goes on elsewhere."""
        self.live.sessions.pop(session.name, None)
        self._known.pop(session, None)

    def _keys(self, caller: Caller, user: str, messages: Sequence[Message]) -> list[str]:
        """What the store calls the conversations up to each answer."""
        digests = zip(messages, digests_of(messages), strict=True)
        return [_key(caller.space, user, digest) for message, digest in digests if message.role == "assistant"]

    async def _ask(self, question: Callable[..., Answer], *values: object) -> Answer:
        """Ask the store in a thread, and again for a while if it can't be reached: every question may be repeated."""
        until = time.monotonic() + self.patience
        while True:
            try:
                return await asyncio.get_running_loop().run_in_executor(self._threads, partial(question, *values))
            except UnreachableError:
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(0.5)

    async def close(self) -> None:
        """Give all sessions back."""
        with contextlib.suppress(UnreachableError):  # the leases end by themselves
            await asyncio.to_thread(self.store.close)
        self._threads.shutdown(wait=False)


def _first(session: Session) -> str:
    """The name that stands for a session and for those that were begun under it before."""
    return session.name.partition("~")[0]


def _key(space: str, user: str, digest: bytes) -> str:
    return f"{space}{user}:{digest.hex()}"
