"""Finds sessions that several gateways share (see `session_store`).

Any gateway answers in any session. While one does, it has the session to itself, and a request that another gateway
gets meanwhile waits there. What a gateway has in memory of a session is good for as long as no other had news of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import shutil
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from agentfw import Episode, Message, Session
from agentfw.errors import StorageError
from agentfw.runs import LiveRun, encoded
from agentfw.turns.session import Reply, lengths

from ...protocols import BadRequest
from ...view.index import Index
from ..handling import Caller
from ..reading import PAGE, Reading, listed
from .session_database import SESSIONS, SharedKeys, UnreachableError
from .session_finder import IDLE, LiveSessionFinder, answer_of, digests_of, is_unnamed
from .session_store import Chosen, SessionJournal, SessionStore, Shared, joined

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

_PAUSE = 0.05  # seconds between two looks whether another gateway has given a session back
_THREADS = 8
_LOOK = 1.0  # seconds between two signs of life, two looks at what was heard or left, and two looks for other keys
_ATTEMPTS = 5
_CLOCKS = 30.0  # seconds by which the clock of this machine may differ from the database's before somebody is told
_NAME = re.compile(r"([^~\0]+)(?:~([1-9]\d{0,8}))?", re.ASCII)  # and how often it was begun
_VIEWED = 1000  # number of sessions that can be looked at


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
    unheard: int = 0
    """Up to which version other gateways are about to say that it was heard."""


@dataclass(eq=False)
class _Said:
    number: int
    user: str
    version: int
    after: int
    """The version up to which another gateway has to say first that it was heard."""
    attempts: int = 0


class SharedSessionFinder(LiveSessionFinder):
    """The sessions of a store, led by this gateway and others."""

    def __init__(
        self,
        live: LiveRun,
        address: str,
        *,
        most: int = 10_000,
        idle: float = 3600.0,
        patience: float = 60.0,
        keep_ended: float | None = None,
    ) -> None:
        super().__init__(live, most=most, idle=idle)
        spec = live.folder.about["spec"]
        shared = {part: spec[part] for part in ("policy", "memories", "rewards") if part in spec}
        self.store, self.patience, self.keep_ended = SessionStore(address, settings=shared), patience, keep_ended
        self.journal = SessionJournal(self.store.database)
        self.reading = SharedReading(live, self.journal)
        self.keys = SharedKeys(self.store.database)
        self._said: list[_Said] = []  # what the store wasn't told yet to be heard
        self._unheard: list[tuple[int, str]] = []
        """Numbers and users of sessions in which something was said at a gateway that is dead."""
        self._told = set[str]()  # the gateways, and this machine's clock, that somebody was told about
        self._breaks = self.store.database.breaks
        self._held: dict[str, _Held] = {}
        self._known = WeakKeyDictionary[Session, _Known]()
        self._threads = ThreadPoolExecutor(_THREADS, "agentfw-sessions")

    async def _going_on(self, answers: Sequence[str]) -> str:
        return await self._ask(self.store.session_of, answers) if answers else ""

    async def _lead(self, caller: Caller, name: str, *, begins: bool) -> Session:
        held = self._held.setdefault(first := (caller.space + name).partition("~")[0], _Held())
        held.requests += 1
        try:
            async with held.lock:
                # Another request of this gateway may have it already.
                live = self.live.sessions.values() if held.number is not None else ()
                session = next((one for one in live if one.episode.task.index == held.number), None)
                if session is None:
                    session = await self._take(held, caller, name, begins=begins)
            return self._of(caller, session, name, begins=begins)
        except BaseException:
            await self._let_go(first, held)
            raise

    async def _take(self, held: _Held, caller: Caller, name: str, *, begins: bool) -> Session:
        until, first = time.monotonic() + self.patience, (caller.space + name).partition("~")[0]
        if "\0" in first:  # which PostgreSQL doesn't take
            self._check_new(name, begins=begins)
        while True:
            found = await self._ask(self.store.take, first)
            again = 0
            if found is not None and found.finish:
                self._check_again(caller, found.finish, found.user, begins=begins)
                again, found = found.again + 1, None
            elif found is None:
                self._check_new(name, begins=begins)
            if found is None and (found := await self._ask(self.store.begin, first, again, caller.user)) is None:
                continue
            if found.is_taken:
                held.number = found.number
                return await self._up_to_date(found)
            if time.monotonic() > until:
                words = "another gateway is answering in this session"
                raise BadRequest(words, 503, code="session_busy", headers={"retry-after": "1"})
            await asyncio.sleep(_PAUSE)

    async def _up_to_date(self, shared: Shared) -> Session:
        session = self.live.sessions.get(shared.name)
        known = None if session is None else self._known.get(session)
        if session is not None and known is not None and known.version == shared.version:
            return session
        if session is not None:
            self.live.leave(session)
        if news := await self._ask(self.store.records, shared.number):
            session = self.live.adopt(joined(news))
            self._known[session] = _Known(shared.version, lengths(session.episode), shared.unheard)
        else:
            session = self.live.begin(shared.name, shared.user, shared.number)
            self._known[session] = _Known(0)
        return session

    async def keep(self, session: Session, messages: Sequence[Message] = (), reply: Reply | None = None) -> None:
        answer = ""
        if reply is not None and is_unnamed(session):
            *_, digest = digests_of([*messages, reply.message])
            answer = answer_of(session, digest)
        number, user = session.episode.task.index, session.episode.task.user
        version = await self._commit(session, answer=answer)
        await self.live.keep(session)
        # Who was forgotten meanwhile may have said something that will never be heard.
        if self.live.hearing.waiting(user) or user in self.live.hearing.forgotten:
            self._said.append(_Said(number, user, version, self._known[session].unheard))

    async def _commit(self, session: Session, *, finish: str = "", answer: str = "") -> int:
        """Write what is new in a session to the store. Returns its version from then on."""
        async with self._held[_first(session)].lock:
            return await self._append(session, finish=finish, answer=answer)

    async def _append(self, session: Session, *, finish: str = "", answer: str = "") -> int:
        first, episode = _first(session), session.episode
        held = self._held[first]
        if (known := self._known.get(session)) is None:
            raise StorageError("another gateway has taken this session over", fix="ask again")
        until, task = lengths(episode), episode.task
        record = session.news(known.lengths).to_record()
        # Nobody else here works on it, so that others may have it at once.
        gives_back = not finish and held.requests == 1
        append = partial(self.store.append, user=task.user, finish=finish, answer=answer, first=first)
        try:
            await self._ask(partial(append, gives_back=gives_back), task.index, known.version, record)
        except Exception:
            # It may be written or not, and perhaps it is another gateway's now: the next request asks the store.
            self._forget(session)
            raise
        if gives_back:
            held.number = None
        known.version, known.lengths = known.version + 1, until
        return known.version

    def hold(self, session: Session) -> None:
        self._held[_first(session)].requests += 1

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
        return await self._concluded(session)

    async def _concluded(self, session: Session) -> float:
        """Let the memories hear and learn from a session that has ended, and score it."""
        number, user, known = session.episode.task.index, session.episode.task.user, self._known[session]
        reward = await super()._end(session, session.episode.finish)
        hearing = self.live.hearing
        if hearing.hears and known.unheard > await self._ask(self.store.heard_of, number):
            await self._hear_rest(number)
        await hearing.finish(user)
        if not hearing.waiting(user):  # otherwise their store is away, and somebody takes the session up again
            await self._ask(self.store.conclude, number, reward, known.version if hearing.hears else None)
        self._forget(session)
        return reward

    @contextlib.asynccontextmanager
    async def telling(self, user: str) -> AsyncIterator[Mapping[int, Session | None]]:
        until = time.monotonic() + self.patience
        began = await self._ask(self.store.left_of, user)
        led: dict[int, Session | None] = {one.number: None for one in began}
        async with contextlib.AsyncExitStack() as stack:
            for one in (each for each in began if time.monotonic() < until):
                with contextlib.suppress(BadRequest):  # it ends at this moment, or another gateway answers in it
                    session = await stack.enter_async_context(self.leading(Caller("", user), one.first))
                    led[session.episode.task.index] = session  # or the one that was begun again under its name
            yield led
            for each in led.values():
                if each is not None and not each.over:
                    await self.keep(each)

    async def forget(self, user: str) -> dict[str, int]:
        until = time.monotonic() + self.patience
        async with self.telling(user) as led:
            # What is about to be heard or learned, such as of an answer that another gateway gave meanwhile, is
            # remembered first, so that it is forgotten, too.
            while any(
                (session := led[one.number]) is None or session.over or (one.unheard and self.live.hearing.hears)
                for one in await self._ask(self.store.left_of, user)
                if one.number in led
            ):
                if time.monotonic() > until:
                    raise StorageError("what this user said is still being answered or learned", fix="ask again")
                await asyncio.sleep(_PAUSE)
            return await self.live.forget(user)  # which is noted in these sessions

    async def care(self) -> None:
        """Stay alive, see to what others have left, and delete old sessions, for ever."""
        await asyncio.gather(
            self._each(_LOOK, self._say_alive),
            self._each(_LOOK, self._tell_heard),
            self._each(_LOOK, self._hear_left),
            self._each(min(60.0, max(0.05, self.idle / 4)), self._sweep),
            self._each(min(3600.0, max(0.05, (self.keep_ended or 0.0) / 24)), self._drop),
            self._each(_LOOK, partial(asyncio.to_thread, self.keys.refresh)),
        )

    async def _each(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            with contextlib.suppress(StorageError):  # of the database, or of a memory
                await work()
            await asyncio.sleep(seconds)

    async def _say_alive(self) -> None:
        breaks = self.store.database.breaks
        gateways = await asyncio.to_thread(self.store.say_alive)
        if (gateways.dead or breaks != self._breaks) and self.live.hearing.hears:
            if breaks != self._breaks:  # what the memories heard shortly before may be lost
                self._said.clear()
            heard_here = [one.number for one in self._said]
            self._unheard += await asyncio.to_thread(self.store.take_over, gateways.dead, heard_here)
            self._breaks = breaks
        apart = time.time() - gateways.now
        if abs(apart) > _CLOCKS:
            self._tell(
                "clock",
                f"the clock of {socket.gethostname()} is {abs(apart):.0f} s {'ahead of' if apart > 0 else 'behind'} "
                "that of the database, so what users say gets wrong times; set it, such as by NTP",
            )
        for name, settings in gateways.alive.items():
            if others := [part for part, value in self.store.settings.items() if settings.get(part, value) != value]:
                self._tell(
                    name,
                    f"gateway {name} shares these sessions with another {' and '.join(others)} than this one, "
                    f"{self.store.holder}; give both the same spec",
                )

    def _tell(self, what: str, words: str) -> None:
        if what not in self._told:
            self._told.add(what)
            logger.warning("%s", words)

    async def _tell_heard(self) -> None:
        """Write to the store what the memories have heard meanwhile."""
        if self._breaks != self.store.database.breaks:
            return
        done = [one for one in self._said if not self.live.hearing.waiting(one.user)]
        sayings = [(one.number, one.version, one.after) for one in done]
        known = await asyncio.to_thread(self.store.heard, sayings) if done else ()
        for said, is_known in zip(done, known, strict=True):
            if said not in self._said:  # the database broke meanwhile, so all of it is asked for again
                continue
            said.attempts += 1
            if is_known or said.attempts > _ATTEMPTS:
                self._said.remove(said)
                if not is_known:  # the other gateway was killed, if it isn't slow
                    self._unheard.append((said.number, said.user))

    async def _hear_left(self) -> None:
        """Let the memories hear what was said at gateways that were killed."""
        while self._unheard:
            number, user = self._unheard[0]
            if version := await self._hear_rest(number):
                self._said.append(_Said(number, user, version, 0))
            self._unheard.remove((number, user))

    async def _hear_rest(self, number: int) -> int:
        """Let the memories hear all that they haven't heard as far as the store knows. They hear nothing twice.

        Returns the version up to which they do. It is 0 if the session was deleted.
        """
        heard = await self._ask(self.store.heard_of, number)
        if news := await self._ask(self.store.records, number):
            episode = joined(news)
            self.live.let_hear(episode, sum(len(one["events"]) for one in news[:heard]))
            if episode.task.query not in self.live.sessions:
                self.live.hearing.leave(episode)
        return len(news)

    async def _sweep(self) -> None:
        # One at a time: another gateway may end the next one meanwhile.
        while shared := await asyncio.to_thread(self.store.take_unused, self.idle):
            held = self._held.setdefault(shared.first, _Held())
            held.requests += 1
            try:
                async with held.lock:
                    session = await self._up_to_date(shared)
                    if shared.finish:  # the gateway that ended it was killed before it was scored
                        session.end(shared.finish)
                    elif held.requests == 1:
                        session.end(IDLE)
                        held.number = None
                        await self._append(session, finish=IDLE)
                    else:  # somebody came for it meanwhile
                        held.number = shared.number
                if held.number != shared.number:
                    await self._concluded(session)
            finally:
                if held.number != shared.number:  # nobody here goes on with it
                    await self._ask(self.store.give_back, shared.number)
                await self._let_go(shared.first, held)
            if self.live.hearing.waiting(shared.user):
                break
        used = {held.number for held in self._held.values()}
        for session in list(self.live.sessions.values()):
            if session.episode.task.index not in used and time.monotonic() - session.used > self.idle:
                self._forget(session)

    async def _drop(self) -> None:
        if self.keep_ended is not None:
            await asyncio.to_thread(self.journal.drop_ended, self.keep_ended)

    def _forget(self, session: Session) -> None:
        """Drop what this gateway has of a session, which goes on elsewhere."""
        self.live.leave(session)
        self._known.pop(session, None)

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
            await self._tell_heard()
            await asyncio.to_thread(self.store.close)
        self._threads.shutdown(wait=False)


class SharedReading(Reading):
    def __init__(self, live: LiveRun, journal: SessionJournal) -> None:
        super().__init__(live)
        self.journal = journal

    def ended(self, episode: Episode, reward: float) -> None:
        """The store has it."""

    async def sessions(self, caller: Caller, before: int | None = None) -> dict[str, Any]:
        wanted = [Chosen(user=caller.user, space=caller.space.removesuffix(":")).condition()]
        if before is not None:
            wanted.append(SESSIONS.c.number < before)
        if caller.key is not None and not caller.user:  # one that names nobody sees those of nobody
            wanted.append(SESSIONS.c.user == "")
        found = await asyncio.to_thread(self.journal.newest, wanted, PAGE + 1)
        rows = (listed(*one) for one in found[:PAGE])
        shown = [{**row, "session": row["session"].removeprefix(caller.space)} for row in rows]
        return {"sessions": shown, "more": len(found) > PAGE}

    def rated_so_far(self) -> object:
        return self.journal.rated_so_far()

    def rated(self, since: float) -> Iterable[Episode]:
        return self.journal.sessions(Chosen(rated=True, since=since))

    def index(self) -> Index:
        return SharedIndex(self.live.folder.path, self.journal)

    async def _find(self, name: str) -> tuple[Episode, float | None] | None:
        if (asked := _NAME.fullmatch(name)) is None:
            return None
        wanted = [SESSIONS.c.first == asked[1], SESSIONS.c.again == int(asked[2] or 1) - 1]
        found = await asyncio.to_thread(self.journal.newest, wanted, 1)
        return found[0] if found else None


class SharedIndex(Index):
    """What the pages of recorded episodes show: a copy of the newest sessions, made when somebody looks."""

    def __init__(self, run: Path, journal: SessionJournal) -> None:
        self._run, self._journal = run, journal
        self._copy = tempfile.TemporaryDirectory(prefix="agentfw-view-")
        self._copied: dict[int, int] = {}  # up to which version each session was copied
        super().__init__(Path(self._copy.name))
        self.beside = run.parent

    def refresh(self) -> None:
        copy = self.root / self._run.name / "turns.jsonl"
        copy.parent.mkdir(exist_ok=True)
        try:
            shutil.copy2(self._run / "run.json", copy.parent)
            with contextlib.suppress(UnreachableError), copy.open("ab") as turns:
                if self._journal.gone(self._copied):
                    turns.truncate(0)  # from which the index sees that all is to be read again
                    self._copied.clear()
                    super().refresh()
                for number, version, news in self._journal.news(self._copied, _VIEWED):
                    turns.write(encoded(news))
                    self._copied[number] = version
        except OSError:  # nobody knows how much of it is written
            self._copied.clear()
            copy.unlink(missing_ok=True)
            raise
        super().refresh()


def _first(session: Session) -> str:
    """The name that stands for a session and for those that were begun under it before."""
    return session.name.partition("~")[0]
