"""Sessions that several gateways share: a PostgreSQL database or, for the gateways of one machine, a SQLite file.

A gateway takes a session before it works on it, and gives it back afterwards. In between no other gateway has it. Each
piece of news is committed before it is acknowledged, so whoever takes the session next knows all of it. A gateway that
is killed holds its sessions for `LEASE` seconds more. Times are the database's: the clocks of gateways may differ.

Only news and the end of a session wait for the disk. A lease that a crash of the database loses does no harm, since
news are refused where another gateway's came before them.

    store = SessionStore("postgresql://db.example.org/agentfw")
    shared = store.take("tea") or store.begin("tea", 0, user="ada")
    store.append(shared.number, shared.version, episode.to_record(), user="ada", first="tea")
    store.give_back(shared.number)

The methods wait for the database, so an event loop calls them in threads.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentfw.errors import MissingExtraError, StorageError

try:
    from sqlalchemy import ColumnElement, Row, delete, insert, select, update
    from sqlalchemy.exc import IntegrityError
    from sqlalchemy.sql import Select
except ImportError as error:
    raise MissingExtraError("shared sessions", "replicas", module=error.name or "") from None

from .session_database import ANSWERS, NEWS, PLACES, SESSIONS, SessionDatabase

LEASE = 10.0
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
    unheard: int = 0
    """The version up to which something was said that, as far as the store was told, no memory has heard. Or 0."""
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
        self.database = SessionDatabase(address, asks_first=False)
        self._now = self.database.clock

    @property
    def _held(self) -> dict[str, Any]:
        return {"holder": self.holder, "held_until": self._now + self.lease}

    def take(self, first: str) -> Shared | None:
        """Take the newest session of a name, if nobody else has it. None if there is none."""
        newest = select(SESSIONS.c.number).where(SESSIONS.c.first == first).order_by(SESSIONS.c.again.desc()).limit(1)
        is_free = SESSIONS.c.holder.in_(("", self.holder)) | (SESSIONS.c.held_until <= self._now)
        with self.database.transaction(waits=False) as connection:
            taken = update(SESSIONS).where(
                SESSIONS.c.number == newest.scalar_subquery(), SESSIONS.c.finish == "", is_free
            )
            row = connection.execute(taken.values(**self._held).returning(SESSIONS)).first()
            if row is not None:
                return _shared(row, is_taken=True)
            row = connection.execute(select(SESSIONS).where(SESSIONS.c.number == newest.scalar_subquery())).first()
            return None if row is None else _shared(row, is_taken=False)

    def begin(self, first: str, again: int, user: str) -> Shared | None:
        """Begin a session, and take it. None if another gateway was quicker."""
        try:
            with self.database.transaction(waits=False) as connection:
                values = {"first": first, "again": again, "user": user, "version": 0, "finish": "", "used": self._now}
                made = connection.execute(insert(SESSIONS).values(**values, **self._held))
                assert made.inserted_primary_key is not None
                return Shared(made.inserted_primary_key[0], first, again, user, 0)
        except IntegrityError:
            return None

    def records(self, number: int) -> list[dict[str, Any]]:
        """All news of a session, in order."""
        with self.database.transaction() as connection:
            asked = select(NEWS.c.record).where(NEWS.c.session == number).order_by(NEWS.c.version)
            return list(connection.execute(asked).scalars())

    def heard_of(self, number: int) -> int:
        """Up to which version the memories have heard a session."""
        with self.database.transaction() as connection:
            return int(connection.execute(select(SESSIONS.c.heard).where(SESSIONS.c.number == number)).scalar_one())

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
        gives_back: bool = False,
    ) -> None:
        """Commit a piece of news of a session that this gateway has. It becomes number `version` + 1.

        `answers` are digests of conversations that go on in the session whose name begins with `first`. Unless it
        `gives_back` the session, this gateway has it from then on.
        """
        kinds = {tuple(event[1:3]) for event in record.get("events", ())}
        values: dict[str, Any] = {"version": version + 1, "user": user, "finish": finish, "used": self._now}
        values |= {**self._held, **({"holder": ""} if gives_back else {})}
        values |= {"said": version + 1} if ("memory", "said") in kinds else {}
        values |= {"rated": version + 1} if ("observation", "feedback") in kinds else {}
        # One that is free and as this gateway knows it is as good as its own.
        is_ours = SESSIONS.c.holder.in_(("", self.holder)) & (SESSIONS.c.version == version)
        with self.database.transaction() as connection:
            changed = connection.execute(update(SESSIONS).where(SESSIONS.c.number == number, is_ours).values(**values))
            if not changed.rowcount:
                asked = select(NEWS.c.record).where(NEWS.c.session == number, NEWS.c.version == version + 1)
                if connection.execute(asked).scalar_one_or_none() == json.loads(json.dumps(dict(record))):
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

    def give_back(self, number: int) -> None:
        """Let other gateways have a session."""
        with self.database.transaction(waits=False) as connection:
            mine = (SESSIONS.c.number == number) & (SESSIONS.c.holder == self.holder)
            connection.execute(update(SESSIONS).where(mine).values(holder=""))

    def conclude(self, number: int, reward: float, heard: int | None) -> None:
        """Say that a session has ended, was scored, and was heard up to a version, if memories hear."""
        with self.database.transaction() as connection:
            values = {"holder": "", "ended": self._now, "reward": reward}
            values |= {} if heard is None else {"heard": heard}
            connection.execute(update(SESSIONS).where(SESSIONS.c.number == number).values(**values))

    def heard(self, sayings: Sequence[tuple[int, int, int]]) -> list[bool]:
        """Say up to which version the memories have heard sessions, and whether the store knows it now.

        Each is the number of a session, the version, and the one up to which somebody has to have said so before.
        """
        told = []
        with self.database.transaction(waits=False) as connection:
            for number, version, after in sayings:
                known = (SESSIONS.c.number == number) & (SESSIONS.c.heard >= after) & (SESSIONS.c.heard <= version)
                told.append(bool(connection.execute(update(SESSIONS).where(known).values(heard=version)).rowcount))
        return told

    def renew(self, numbers: Sequence[int]) -> None:
        """Say that this gateway still works on these sessions. All others become free when their lease ends."""
        with self.database.transaction(waits=False) as connection:
            mine = (SESSIONS.c.holder == self.holder) & SESSIONS.c.number.in_(numbers)
            until = self._held["held_until"]
            connection.execute(update(SESSIONS).where(mine).values(held_until=until))
            connection.execute(update(PLACES).where(PLACES.c.holder == self.holder).values(held_until=until))

    def take_unused(self, idle: float) -> Shared | None:
        """Take a session that nobody has used for so long, or whose end a killed gateway left unscored."""
        return self._taken((SESSIONS.c.finish != "") | (SESSIONS.c.used <= self._now - idle))

    def take_unheard(self, besides: Sequence[int]) -> Shared | None:
        """Take a session in which something was said that a gateway was killed before its memories could hear it."""
        is_left = (SESSIONS.c.heard < SESSIONS.c.said) & (SESSIONS.c.used <= self._now - self.lease)
        return self._taken(is_left & SESSIONS.c.number.not_in(besides))

    def _taken(self, wanted: ColumnElement[bool]) -> Shared | None:
        """Take a session in progress for which this holds, if there is one that is free."""
        is_free = (SESSIONS.c.holder == "") | (SESSIONS.c.held_until <= self._now)
        found = select(SESSIONS.c.number).where(SESSIONS.c.ended.is_(None), is_free, wanted).limit(1)
        with self.database.transaction(waits=False) as connection:
            number = connection.execute(found.with_for_update(skip_locked=True)).scalar_one_or_none()
            if number is None:
                return None
            taken = update(SESSIONS).where(SESSIONS.c.number == number).values(**self._held)
            return _shared(connection.execute(taken.returning(SESSIONS)).one(), is_taken=True)

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
            connection.execute(delete(PLACES).where(PLACES.c.holder == self.holder))
        self.database.close()


def _shared(row: Row[Any], *, is_taken: bool) -> Shared:
    unheard = row.said if row.heard < row.said else 0
    return Shared(row.number, row.first, row.again, row.user, row.version, row.finish, unheard, is_taken)


def new_holder() -> str:
    """A name for a gateway that no other has."""
    return f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(8)}"
