"""All sessions of a store, to learn from, to export and to delete. `session_store` leads them one by one.

Everything is read in pages, in short transactions, so gateways work on meanwhile and a store may be larger than memory.

    journal = SessionJournal("postgresql://db.example.org/agentfw")
    journal.take("2026-11-22-sessions-7f3a19c4")
    for episode in journal.taken("2026-11-22-sessions-7f3a19c4"):
        ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from itertools import groupby
from typing import Any, NamedTuple

from agentfw import Episode
from agentfw.errors import MissingExtraError
from agentfw.turns.session import extended

try:
    from sqlalchemy import (
        ColumnElement,
        Connection,
        Text,
        and_,
        cast,
        delete,
        func,
        insert,
        literal,
        select,
        update,
    )
except ImportError as error:
    raise MissingExtraError("shared sessions", "replicas", module=error.name or "") from None

from ..learning.ratings import MOST
from .session_database import ANSWERS, COPIED, LEARNED, LEARNING, NEWS, SESSIONS, SessionDatabase

_PAGE = 200
"""Number of sessions that are read at a time."""
_TAKING = 6074002
_FEEDBACK = '"feedback"'
"""What the record of feedback has in it. What people say has its quotation marks escaped."""


class Chosen(NamedTuple):
    """Sessions of a store: those for which all of this holds."""

    user: str = ""
    space: str = ""
    """Name of the key that they were led with."""
    before: float | None = None
    """Not used since then, in seconds since 1970."""

    def condition(self) -> ColumnElement[bool]:
        conditions: list[ColumnElement[bool]] = [literal(True)]
        if self.user:
            conditions.append(SESSIONS.c.user == self.user)
        if self.space:
            conditions.append(SESSIONS.c.first.startswith(f"{self.space}:", autoescape=True))
        if self.before is not None:
            conditions.append(SESSIONS.c.used < self.before)
        return and_(*conditions)


class SessionJournal:
    """What the gateways of a store have recorded."""

    def __init__(self, database: str | SessionDatabase) -> None:
        """`database` is its address, or one that is open."""
        self.database = SessionDatabase(database) if isinstance(database, str) else database

    @property
    def where(self) -> str:
        """The address, without a password."""
        return self.database.where

    def take(self, taker: str) -> int:
        """Take all news that nobody has taken yet. What is taken stays the same until this is called again.

        `taker` is the name of whoever takes them. Returns the number of sessions that it has.
        """
        ours, last = LEARNED.c.taker == taker, func.coalesce(func.max(LEARNED.c.upto), 0)
        version = select(SESSIONS.c.version).where(SESSIONS.c.number == LEARNED.c.session).scalar_subquery()
        other = LEARNED.alias()
        overtaken = select(other.c.session).where(other.c.session == LEARNED.c.session, other.c.upto > LEARNED.c.upto)
        joined = SESSIONS.join(LEARNED, LEARNED.c.session == SESSIONS.c.number, isouter=True)
        new = (
            select(SESSIONS.c.number, literal(taker), last, SESSIONS.c.version)
            .select_from(joined)
            .where(SESSIONS.c.number.not_in(select(LEARNED.c.session).where(ours)))
            .group_by(SESSIONS.c.number, SESSIONS.c.version)
            .having(SESSIONS.c.version > last)
        )
        with self.database.transaction() as connection:
            self.database.alone(connection, _TAKING)
            connection.execute(
                update(LEARNED).where(ours, ~overtaken.exists(), version > LEARNED.c.upto).values(upto=version)
            )
            connection.execute(insert(LEARNED).from_select(["session", "taker", "after", "upto"], new))
            connection.execute(delete(COPIED).where(COPIED.c.taker == taker))
            return int(connection.execute(select(func.count()).where(ours)).scalar_one())

    def taken(self, taker: str) -> Iterator[Episode]:
        """The sessions that somebody has taken, as they were then. Feedback that others took before is left out."""
        asked = select(LEARNED.c.session, LEARNED.c.after, LEARNED.c.upto).where(LEARNED.c.taker == taker)
        last = -1
        while True:
            with self.database.transaction() as connection:
                page = asked.where(LEARNED.c.session > last).order_by(LEARNED.c.session).limit(_PAGE)
                spans = {row.session: (row.after, row.upto) for row in connection.execute(page)}
                found = self._read(connection, list(spans))
            if not spans:
                return
            last = max(spans)
            for number, news in found:
                after, upto = spans[number]
                yield _joined(
                    _without_feedback(one) if version <= after else one for version, one in news if version <= upto
                )

    def sessions(self, chosen: Chosen) -> Iterator[Episode]:
        """Chosen sessions, in the order in which they began."""
        last = -1
        while True:
            with self.database.transaction() as connection:
                asked = select(SESSIONS.c.number).where(chosen.condition(), SESSIONS.c.number > last)
                numbers = list(connection.execute(asked.order_by(SESSIONS.c.number).limit(_PAGE)).scalars())
                found = self._read(connection, numbers)
            if not numbers:
                return
            last = numbers[-1]
            for _, news in found:
                yield _joined(one for _, one in news)

    def copied(self, taker: str) -> None:
        """Say that a copy of all that was taken is on disk."""
        with self.database.transaction() as connection:
            connection.execute(insert(COPIED).values(taker=taker))

    def drop_ended(self, age: float) -> int:
        """Delete sessions that ended so many seconds ago. Returns how many.

        Feedback stays until a training has a copy of it. Where gateways learn, the newest of it stays also then.
        """
        sessions = SESSIONS.alias()
        of_news = NEWS.c.session == sessions.c.number, cast(NEWS.c.record, Text).contains(_FEEDBACK)
        rated = select(sessions.c.number).where(select(NEWS.c.session).where(*of_news).exists())
        newest = rated.order_by(sessions.c.used.desc()).limit(MOST)
        is_learned = and_(select(LEARNING.c.number).exists(), SESSIONS.c.number.in_(newest))
        dropped = 0
        while True:
            with self.database.transaction() as connection:
                self.database.alone(connection, _TAKING)
                of_session = LEARNED.c.session == SESSIONS.c.number
                is_read = select(LEARNED.c.session).where(of_session, LEARNED.c.taker.not_in(select(COPIED.c.taker)))
                is_taken = select(LEARNED.c.session).where(of_session, LEARNED.c.upto >= NEWS.c.version)
                is_waiting = select(NEWS.c.session).where(
                    NEWS.c.session == SESSIONS.c.number,
                    cast(NEWS.c.record, Text).contains(_FEEDBACK),
                    ~is_taken.correlate(SESSIONS, NEWS).exists(),
                )
                asked = select(SESSIONS.c.number, SESSIONS.c.first).where(
                    SESSIONS.c.concluded == 1,
                    SESSIONS.c.used < self.database.now(connection) - age,
                    SESSIONS.c.holder == "",
                    ~is_read.exists(),
                    ~is_waiting.exists(),
                    ~is_learned,
                )
                rows = connection.execute(asked.limit(_PAGE).with_for_update(skip_locked=True)).all()
                _delete(connection, [(row.number, row.first) for row in rows])
            dropped += len(rows)
            if len(rows) < _PAGE:
                return dropped

    def delete(self, chosen: Chosen) -> tuple[int, int]:
        """Delete chosen sessions. Returns how many, and how many a gateway works on at the moment, which stay."""
        deleted = 0
        while True:
            with self.database.transaction() as connection:
                is_free = (SESSIONS.c.holder == "") | (SESSIONS.c.held_until <= self.database.now(connection))
                asked = select(SESSIONS.c.number, SESSIONS.c.first).where(chosen.condition(), is_free)
                rows = connection.execute(asked.limit(_PAGE).with_for_update(skip_locked=True)).all()
                if not rows:
                    left = select(func.count()).select_from(SESSIONS).where(chosen.condition())
                    return deleted, int(connection.execute(left).scalar_one())
                _delete(connection, [(row.number, row.first) for row in rows])
            deleted += len(rows)

    def close(self) -> None:
        self.database.close()

    def _read(self, connection: Any, numbers: Sequence[int]) -> list[tuple[int, list[tuple[int, Episode]]]]:
        """The news of some sessions, each with its version."""
        asked = select(NEWS).where(NEWS.c.session.in_(numbers)).order_by(NEWS.c.session, NEWS.c.version)
        rows = connection.execute(asked).all() if numbers else []
        return [
            (number, [(row.version, Episode.from_record(row.record)) for row in some])
            for number, some in groupby(rows, lambda row: row.session)
        ]


def _delete(connection: Connection, sessions: Sequence[tuple[int, str]]) -> None:
    """Delete sessions by number and name."""
    numbers = [number for number, _ in sessions]
    connection.execute(delete(NEWS).where(NEWS.c.session.in_(numbers)))
    connection.execute(delete(LEARNED).where(LEARNED.c.session.in_(numbers)))
    connection.execute(delete(ANSWERS).where(ANSWERS.c.first.in_([first for _, first in sessions])))
    connection.execute(delete(SESSIONS).where(SESSIONS.c.number.in_(numbers)))


def _joined(news: Iterable[Episode]) -> Episode:
    return reduce(extended, news)


def _without_feedback(news: Episode) -> Episode:
    kept = [event for event in news.events if (event.kind, event.name) != ("observation", "feedback")]
    return replace(news, events=kept)
