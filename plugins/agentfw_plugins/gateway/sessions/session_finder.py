"""Finds the session that a request belongs to.

A request names its session by the path or by a header. Otherwise it belongs to the session whose conversation it goes
on with: the one that gave the last answer among its messages. If there is none, it begins a new session.

A session that nobody used for a while ends, and so does one whose gateway was stopped for good. The next request under
its name begins a new one, which is called NAME~2 in the record; NAME stands for the newest.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from hashlib import blake2b

from agentfw import Message, Session
from agentfw.errors import StorageError
from agentfw.runs import EndedSession, LiveRun
from agentfw.turns.session import Reply

from ...protocols import BadRequest
from ..handling import Caller
from ..reading import Reading

ENDED, IDLE, CLOSED = "ended", "idle", "closed"
"""How a session ends that its program ends, one that nobody used for a while, and one that the gateway's end ended."""

_ANSWERED = "answered"
"""Notes where a conversation without a name can go on from, so that it does in the next process, too."""
_UNNAMED = "auto-"
SESSION_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class SessionFinder:
    """What the gateway asks about sessions."""

    def asking(self, caller: Caller, name: str) -> Caller:
        """The caller of a request for an answer, who may have named nobody. `name` is empty or their session's."""
        return caller

    async def find(self, caller: Caller, name: str, messages: Sequence[Message]) -> Session:
        """The session of a request, which may be a new one. `name` is empty or what the caller calls it."""
        return await self.known(caller, name)

    async def known(self, caller: Caller, name: str) -> Session:
        raise NotImplementedError

    def hold(self, session: Session) -> None:
        """Say that a request has one answer more, so that its session is released once more."""

    async def release(self, session: Session) -> None:
        """Release a session after an answer. Call this once for each session that `find` or `known` returned."""

    @asynccontextmanager
    async def leading(self, caller: Caller, name: str) -> AsyncIterator[Session]:
        """A session that is in progress, for the block."""
        session = await self.known(caller, name)
        try:
            yield session
        finally:
            await self.release(session)

    async def keep(self, session: Session, messages: Sequence[Message] = (), reply: Reply | None = None) -> None:
        """Record what is new in a session. With a reply, remember whose it is."""

    async def end(self, session: Session) -> float:
        """End a session. Returns its reward."""
        raise NotImplementedError


class LiveSessionFinder(SessionFinder):
    def __init__(self, live: LiveRun, *, most: int = 10_000, idle: float = 3600.0, default_user: str = "") -> None:
        """`default_user` asks where a request names nobody, unless its session is another user's."""
        self.live, self.most, self.idle, self.default_user = live, most, idle, default_user
        self.reading = Reading(live)
        self._answers: dict[str, str] = {}
        """The session that goes on from each answer, of those without a name. The record has them, too."""
        self._in_use = Counter[str]()  # number of answers of each session, with those that are waited for
        self._newest: dict[str, str] = {}  # what the names of sessions stand for that were begun again
        for name in (*live.ended, *live.sessions):  # in the order in which they began
            if "~" in name:
                self._newest[name.partition("~")[0]] = name
        for session in live.sessions.values():
            self._answers |= dict.fromkeys(_answers_of(session), session.name)

    def asking(self, caller: Caller, name: str) -> Caller:
        if caller.user or caller.key is not None or not self.default_user:
            return caller
        session = self.live.sessions.get(self._newest_of(caller.space + name))
        user = session.episode.task.user if session is not None else ""
        return replace(caller, user=user or self.default_user)

    async def find(self, caller: Caller, name: str, messages: Sequence[Message]) -> Session:
        if not name:
            name = (await self._going_on(answers_in(caller, messages))).removeprefix(caller.space)
        return await self._lead(caller, name or f"{_UNNAMED}{secrets.token_hex(6)}", begins=True)

    async def known(self, caller: Caller, name: str) -> Session:
        return await self._lead(caller, name, begins=False)

    async def _going_on(self, answers: Sequence[str]) -> str:
        """The name of the session that the last of these answers was given in. Empty if there is none."""
        known = (self._answers.get(answer, "") for answer in reversed(answers))
        return next((name for name in known if name in self.live.sessions), "")

    async def _lead(self, caller: Caller, name: str, *, begins: bool) -> Session:
        """Return the newest session of a name. With `begins`, start one if there is none or the last one was left."""
        full = self._newest_of(caller.space + name)
        session, ended = self.live.sessions.get(full), self.live.ended.get(full)
        if session is not None and (finish := session.episode.finish):
            ended = EndedSession(finish, session.episode.task.user)
        if ended is not None:
            self._check_again(caller, ended.finish, ended.user, begins=begins)
            first, _, number = full.partition("~")
            full = self._newest[first] = f"{first}~{int(number or 1) + 1}"
            session = self.live.begin(full, caller.user)
        elif session is None:
            self._check_new(name, begins=begins)
            session = self.live.begin(full, caller.user)
        session = self._of(caller, session, name, begins=begins)
        self.hold(session)
        return session

    def _newest_of(self, full: str) -> str:
        """The newest session of a name. A client that was told NAME~2 may ask for it when there is a NAME~3."""
        first = full.partition("~")[0]
        return self._newest.get(first, first)

    def hold(self, session: Session) -> None:
        self._in_use[session.name] += 1

    async def release(self, session: Session) -> None:
        self._in_use[session.name] -= 1
        if not self._in_use[session.name]:
            del self._in_use[session.name]

    def _of(self, caller: Caller, session: Session, name: str, *, begins: bool) -> Session:
        """The session, if the caller may use it. One of nobody becomes theirs."""
        if "~" in name and not begins and session.name != caller.space + name:
            raise BadRequest("this session has ended", 410, code="session_ended")
        task = session.episode.task
        caller.check(task.user)
        if caller.user and not task.user:
            session.episode.task = replace(task, user=caller.user)
        return session

    def _check_again(self, caller: Caller, finish: str, user: str, *, begins: bool) -> None:
        """Raise BadRequest unless another session can begin under the name of one that has ended."""
        if not begins or finish not in (IDLE, CLOSED):
            raise BadRequest("this session has ended", 410, code="session_ended")
        caller.check(user)
        self._check_room()

    def _check_new(self, name: str, *, begins: bool) -> None:
        """Raise BadRequest unless a session can begin under this name."""
        if not begins:
            raise no_such_session()
        self._check_room()
        if not SESSION_NAME.fullmatch(name):
            words = "a session's name has 1 to 100 letters, digits, dots, dashes and underscores"
            raise BadRequest(words, field="session")

    def _check_room(self) -> None:
        if len(self.live.sessions) >= self.most:
            raise BadRequest(f"there are {self.most} sessions in progress", 429, code="too_many_sessions")

    async def keep(self, session: Session, messages: Sequence[Message] = (), reply: Reply | None = None) -> None:
        if reply is not None and is_unnamed(session):
            *_, digest = digests_of([*messages, reply.message])
            session.note("session", _ANSWERED, {"digest": digest.hex()})
            self._answers[answer_of(session, digest)] = session.name
        await self.live.keep(session)

    async def end(self, session: Session) -> float:
        if session.in_flight:
            raise BadRequest("a request of this session is being answered", 409, code="session_busy")
        return await self._end(session, ENDED)

    async def care(self) -> None:
        """End the sessions that nobody has used for a while, for ever."""
        while True:
            await asyncio.sleep(min(60.0, max(0.05, self.idle / 4)))
            with suppress(StorageError):  # on a full disk, they end when there is room again
                for session in list(self.live.sessions.values()):
                    is_used = self._in_use[session.name] or time.monotonic() - session.used <= self.idle
                    if not (session.over or is_used):
                        await self._end(session, IDLE)

    async def _end(self, session: Session, finish: str) -> float:
        for answer in _answers_of(session):
            self._answers.pop(answer, None)
        reward = await self.live.conclude(session, finish) or 0.0
        self.reading.ended(session.episode, reward)
        return reward

    @asynccontextmanager
    async def telling(self, user: str) -> AsyncIterator[Mapping[int, Session | None]]:
        """For a block that changes what is remembered of a user: sessions that others lead, too, are told of it.

        These are given by their numbers. None: it is being answered or ended elsewhere, and isn't told.
        """
        yield {}

    async def forget(self, user: str) -> dict[str, int]:
        """Let the memories forget a user, with all that was said so far. Returns how much they delete."""
        return await self.live.forget(user)

    async def close(self) -> None:
        """Called when no request is answered any more."""


class OpenSessionFinder(SessionFinder):
    """Sessions that somebody else begins, records and ends, each under a name that only its program is told."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}

    async def known(self, caller: Caller, name: str) -> Session:
        if name not in self.sessions:
            raise no_such_session()
        return self.sessions[name]

    async def end(self, session: Session) -> float:
        raise BadRequest("this session ends when its program does", 409, code="session_busy")


def no_such_session() -> BadRequest:
    return BadRequest("there is no such session", 404, code="no_such_session")


def is_unnamed(session: Session) -> bool:
    """Whether a session is found by its conversation."""
    return session.name.rpartition(":")[2].startswith(_UNNAMED)


def _answers_of(session: Session) -> Iterator[str]:
    for event in session.episode.events:
        if (event.kind, event.name) == ("session", _ANSWERED):
            yield answer_of(session, bytes.fromhex(event.data["digest"]))


def answer_of(session: Session, digest: bytes) -> str:
    """What the last answer of a session is called, after which its conversation has this digest."""
    return _answer_name(session.name[: session.name.rfind(":") + 1], session.episode.task.user, digest)


def answers_in(caller: Caller, messages: Sequence[Message]) -> list[str]:
    """What the answers among the messages of a caller are called, if they were theirs."""
    found = zip(messages, digests_of(messages), strict=True)
    return [_answer_name(caller.space, caller.user, digest) for message, digest in found if message.role == "assistant"]


def _answer_name(space: str, user: str, digest: bytes) -> str:
    """A name of one length for an answer, which nobody else's has, whatever was said before it."""
    return blake2b(json.dumps([space, user, digest.hex()]).encode(), digest_size=16).hexdigest()


def digests_of(messages: Sequence[Message]) -> list[bytes]:
    """For each message, a digest of the conversation up to it."""
    digest, found = blake2b(digest_size=16), list[bytes]()
    for message in messages:
        calls = [[call.id, call.name, dict(call.arguments)] for call in message.calls]
        digest.update(json.dumps([message.role, message.content, calls, message.answers], sort_keys=True).encode())
        found.append(digest.copy().digest())
    return found
