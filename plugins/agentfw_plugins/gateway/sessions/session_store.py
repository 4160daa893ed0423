"""Sessions that several gateways share: a PostgreSQL database or, for the gateways of one machine, a SQLite file.

A gateway takes a session before it works on it, and gives it back afterwards. In between no other gateway has it. Each
piece of news is committed before it is acknowledged, so whoever takes the session next knows all of it. A gateway that
is killed holds its sessions for `LEASE` seconds more. Times are the database's: the clocks of gateways may differ.

    store = SessionStore("postgresql://db.example.org/agentfw")
    shared = store.take("tea") or store.begin("tea", 0, user="ada")
    store.append(shared.number, shared.version, episode.to_record(), user="ada", first="tea")
    store.give_back(shared.number)

The methods wait for the database, so an event loop calls them in threads.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentfw.errors import MissingExtraError, StorageError

try:
    from sqlalchemy import Connection, Row, insert, select, update
    from sqlalchemy.exc import IntegrityError
    from sqlalchemy.sql import Select
except ImportError as error:
    raise MissingExtraError("shared sessions", "replicas", module=error.name or "") from None

from .session_database import ANSWERS, NEWS, SESSIONS, SessionDatabase

LEASE = 30.0
"""Seconds that a session stays with a gateway that no longer says that it is alive."""


@dataclass(frozen=True, slots=True)
class Shared:
    """A session as the store has it."""

    number: int
    """Unique among all sessions of the store."""
    first: str
    again: int
    """How often a session of this name was begun again."""
    user: str
    version: int
    """Number of pieces of news."""
    finish: str = ""
    """How it ended, if it did."""
    is_taken: bool = True
    """Whether it is this gateway's now. False if it is another's, or has ended."""

    @property
    def name(self) -> str:
        return f"{self.first}~{self.again + 1}" if self.again else self.first


class SessionStore:
    """The sessions of all gateways on one database, as one of the gateways sees them."""

    def __init__(self, address: str, *, lease: float = LEASE) -> None:
        self.lease = lease
        self.holder = new_holder()
        """Names this gateway."""
        self.database = SessionDatabase(address)

    def take(self, first: str) -> Shared | None:
        """Take the newest session of a name, if nobody else has it. None if there is none."""
        with self.database.transaction() as connection:
            row = connection.execute(
                select(SESSIONS)
                .where(SESSIONS.c.first == first)
                .order_by(SESSIONS.c.again.desc())
                .limit(1)
                .with_for_update()
            ).first()
            return None if row is None else self._taken(connection, row)

    def begin(self, first: str, again: int, user: str) -> Shared | None:
        """Begin a session, and take it. None if another gateway was quicker."""
        try:
            with self.database.transaction() as connection:
                now = self.database.now(connection)
                values = {"first": first, "again": again, "user": user, "version": 0, "finish": "", "concluded": 0}
                made = connection.execute(
                    insert(SESSIONS).values(**values, holder=self.holder, held_until=now + self.lease, used=now)
                )
                assert made.inserted_primary_key is not None
                return Shared(made.inserted_primary_key[0], first, again, user, 0)
        except IntegrityError:
            return None

    def records(self, number: int) -> list[dict[str, Any]]:
        """All news of a session, in order."""
        with self.database.transaction() as connection:
            asked = select(NEWS.c.record).where(NEWS.c.session == number).order_by(NEWS.c.version)
            return list(connection.execute(asked).scalars())

    def append(
        self,
        number: int,
        version: int,
        record: Mapping[str, Any],
        *,
        user: str,
        first: str,
        finish: str = "",
        answers: Sequence[str] = (),
    ) -> None:
        """Commit a piece of news of a session that this gateway has. It becomes number `version` + 1.

        `answers` are digests of conversations that go on in the session whose name begins with `first`.
        """
        with self.database.transaction() as connection:
            now = self.database.now(connection)
            values = {"version": version + 1, "user": user, "finish": finish, "used": now}
            changed = connection.execute(
                update(SESSIONS)
                .where(SESSIONS.c.number == number, SESSIONS.c.holder == self.holder, SESSIONS.c.version == version)
                .values(**values, held_until=now + self.lease)
            )
            if not changed.rowcount:
                asked = select(SESSIONS.c.holder, SESSIONS.c.version).where(SESSIONS.c.number == number)
                if connection.execute(asked).first() == (self.holder, version + 1):
                    return  # it was committed, but the connection broke before that was said
                raise StorageError(
                    "another gateway has taken this session over, because this one said nothing for "
                    f"{self.lease:g} seconds",
                    fix="ask again",
                )
            connection.execute(insert(NEWS).values(session=number, version=version + 1, record=dict(record)))
            for digest in answers:
                connection.execute(ANSWERS.delete().where(ANSWERS.c.digest == digest))
                connection.execute(insert(ANSWERS).values(digest=digest, first=first))

    def give_back(self, number: int, *, concluded: bool = False) -> None:
        """Let other gateways have a session."""
        with self.database.transaction() as connection:
            connection.execute(
                update(SESSIONS)
                .where(SESSIONS.c.number == number, SESSIONS.c.holder == self.holder)
                .values(holder="", **({"concluded": 1} if concluded else {}))
            )

    def renew(self, numbers: Sequence[int]) -> None:
        """Say that this gateway still works on these sessions. All others become free when their lease ends."""
        with self.database.transaction() as connection:
            until = self.database.now(connection) + self.lease
            mine = (SESSIONS.c.holder == self.holder) & SESSIONS.c.number.in_(numbers)
            connection.execute(update(SESSIONS).where(mine).values(held_until=until))

    def take_unused(self, idle: float) -> Shared | None:
        """Take a session that nobody has used for so long, or whose end a killed gateway left unscored."""
        with self.database.transaction() as connection:
            now = self.database.now(connection)
            is_free = (SESSIONS.c.holder == "") | (SESSIONS.c.held_until <= now)
            is_over = (SESSIONS.c.finish != "") | (SESSIONS.c.used <= now - idle)
            asked = select(SESSIONS).where(SESSIONS.c.concluded == 0, is_free, is_over)
            row = connection.execute(asked.limit(1).with_for_update(skip_locked=True)).first()
            if row is None:
                return None
            self._hold(connection, row.number, now)
            return _shared(row, is_taken=True)

    def session_of(self, digests: Sequence[str]) -> str:
        """The name of the session that the last of these conversations goes on in. Empty if there is none."""
        with self.database.transaction() as connection:
            asked: Select[Any] = select(ANSWERS.c.digest, ANSWERS.c.first).where(ANSWERS.c.digest.in_(digests))
            found = {row.digest: str(row.first) for row in connection.execute(asked)}
        return next((found[digest] for digest in reversed(digests) if digest in found), "")

    def close(self) -> None:
        """Give all sessions back, and close the connections."""
        with self.database.transaction() as connection:
            connection.execute(update(SESSIONS).where(SESSIONS.c.holder == self.holder).values(holder=""))
        self.database.close()

    def _taken(self, connection: Connection, row: Row[Any]) -> Shared:
        now = self.database.now(connection)
        if row.finish or (row.holder not in ("", self.holder) and row.held_until > now):
            return _shared(row, is_taken=False)
        self._hold(connection, row.number, now)
        return _shared(row, is_taken=True)

    def _hold(self, connection: Connection, number: int, now: float) -> None:
        held = {"holder": self.holder, "held_until": now + self.lease}
        connection.execute(update(SESSIONS).where(SESSIONS.c.number == number).values(**held))


def _shared(row: Row[Any], *, is_taken: bool) -> Shared:
    return Shared(row.number, row.first, row.again, row.user, row.version, row.finish, is_taken)


def new_holder() -> str:
    """A name for a gateway that no other has."""
    return f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(8)}"
