"""Finds the session that a request belongs to.

A request names its session by the path or by a header. Otherwise it belongs to the session whose conversation it goes
on with: the one that gave the last answer among its messages. If there is none, it begins a new session.
"""

from __future__ import annotations

import asyncio
import json
import re
import secrets
import time
from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import Protocol

from agentfw import Message, Session
from agentfw.runs import LiveRun
from agentfw.session import Reply

from .bodies import BadRequest
from .reading import Reading

__all__ = ["Desk", "LiveDesk", "OpenDesk"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Desk(Protocol):
    """What the gateway asks about sessions."""

    def find(self, name: str, user: str, messages: Sequence[Message]) -> Session:
        """The session of a request, which may be a new one."""
        ...

    def known(self, name: str, user: str) -> Session:
        """A session that is in progress."""
        ...

    async def keep(self, session: Session, messages: Sequence[Message] = (), reply: Reply | None = None) -> None:
        """Write what is new in a session to disk. With a reply, remember whose it is."""
        ...

    async def end(self, session: Session) -> float:
        """End a session. Returns its reward."""
        ...


class LiveDesk:
    """The sessions of a live run."""

    def __init__(self, live: LiveRun, *, most: int = 10_000, idle: float = 3600.0) -> None:
        self.live, self.most, self.idle = live, most, idle
        self.reading = Reading(live)
        self._answers: dict[tuple[str, bytes], str] = {}
        """The session of each conversation up to an answer, by user and digest; of sessions without a name."""
        self._conversations: dict[str, list[tuple[str, bytes]]] = {}

    def find(self, name: str, user: str, messages: Sequence[Message]) -> Session:
        if not name:
            name = self._belongs(user, messages)
        if name and (name in self.live.sessions or name in self.live.ended):
            return self.known(name, user)
        if len(self.live.sessions) >= self.most:
            raise BadRequest(f"there are {self.most} sessions in progress", 429, code="too_many_sessions")
        if not name:
            name = f"auto-{secrets.token_hex(6)}"
            self._conversations[name] = []
        return self.live.begin(_checked(name), user)

    def known(self, name: str, user: str) -> Session:
        if name in self.live.ended:
            raise BadRequest("this session has ended", 410, code="session_ended")
        session = self.live.sessions.get(_checked(name))
        if session is None:
            raise BadRequest("there is no such session", 404, code="no_such_session")
        if session.over:
            raise BadRequest("this session has ended", 410, code="session_ended")
        task = session.episode.task
        if user and task.user and user != task.user:
            raise BadRequest("this session belongs to another user", 403, code="another_user")
        if user and not task.user:
            session.episode.task = replace(task, user=user)
        return session

    async def keep(self, session: Session, messages: Sequence[Message] = (), reply: Reply | None = None) -> None:
        await self.live.keep(session)
        if reply is not None and session.name in self._conversations:
            key = session.episode.task.user, _digests([*messages, reply.message])[-1]
            self._answers[key] = session.name
            self._conversations[session.name].append(key)

    async def end(self, session: Session) -> float:
        if session.in_flight:
            raise BadRequest("a request of this session is being answered", 409, code="session_busy")
        return await self._end(session, "ended")

    async def end_idle(self) -> None:
        """End the sessions that nobody has used for a while, for ever."""
        while True:
            await asyncio.sleep(min(60.0, max(0.05, self.idle / 4)))
            for session in list(self.live.sessions.values()):
                if not session.over and not session.in_flight and time.monotonic() - session.used > self.idle:
                    await self._end(session, "idle")

    async def _end(self, session: Session, finish: str) -> float:
        for key in self._conversations.pop(session.name, ()):
            self._answers.pop(key, None)
        reward = await self.live.conclude(session, finish)
        self.reading.ended(session.episode, reward)
        return reward

    def _belongs(self, user: str, messages: Sequence[Message]) -> str:
        """The session that gave the last answer that these messages go on from. Empty if there is none."""
        digests = _digests(messages)
        for message, digest in zip(reversed(messages), reversed(digests), strict=True):
            if message.role == "assistant" and (user, digest) in self._answers:
                return self._answers[user, digest]
        return ""


class OpenDesk:
    """Sessions that somebody else begins, records and ends, each under a name that only its program is told."""

    def __init__(self) -> None:
        self.sessions: dict[str, Session] = {}

    def open(self, session: Session) -> str:
        """Let a session be used. Returns its name here."""
        name = f"p-{secrets.token_hex(12)}"
        self.sessions[name] = session
        return name

    def find(self, name: str, user: str, messages: Sequence[Message]) -> Session:
        return self.known(name, user)

    def known(self, name: str, user: str) -> Session:
        session = self.sessions.get(name)
        if session is None:
            raise BadRequest("there is no such session", 404, code="no_such_session")
        return session

    async def keep(self, session: Session, messages: Sequence[Message] = (), reply: Reply | None = None) -> None:
        return None

    async def end(self, session: Session) -> float:
        raise BadRequest("this session ends when its program does", 409, code="session_busy")


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise BadRequest("a session's name has 1 to 100 letters, digits, dots, dashes and underscores", field="session")
    return name


def _digests(messages: Sequence[Message]) -> list[bytes]:
    """For each message, a digest of the conversation up to it."""
    digest, found = blake2b(digest_size=16), list[bytes]()
    for message in messages:
        calls = [[call.id, call.name, dict(call.arguments)] for call in message.calls]
        row = json.dumps([message.role, message.content, calls, message.answers], sort_keys=True)
        digest.update(row.encode())
        found.append(digest.copy().digest())
    return found
