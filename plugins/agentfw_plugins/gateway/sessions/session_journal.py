"""All sessions of a store, to learn from, to export and to delete. `session_store` leads them one by one.

Everything is read in pages, in short transactions, so gateways work on meanwhile and a store may be larger than memory.

    journal = SessionJournal("postgresql://db.example.org/agentfw")
    journal.take("2026-11-22-sessions-7f3a19c4")
    for episode in journal.taken("2026-11-22-sessions-7f3a19c4"):
        ...
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
        and_,
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


class Chosen(NamedTuple):
    """Sessions of a store: those for which all of this holds."""

    user: str = ""
    space: str = ""
    """Name of the key that they were led with."""
    before: float | None = None
    """Not used since then, in seconds since 1970."""
    before_number: int | None = None
    """Begun before the one of this number."""
    since: float | None = None
    """Used since then."""
    rated: bool = False
    """With feedback."""

    def condition(self) -> ColumnElement[bool]:
        conditions: list[ColumnElement[bool]] = [literal(True)]
        if self.user:
            conditions.append(SESSIONS.c.user == self.user)
        if self.space:
            conditions.append(SESSIONS.c.first.startswith(f"{self.space}:", autoescape=True))
        if self.before is not None:
            conditions.append(SESSIONS.c.used < self.before)
        if self.before_number is not None:
            conditions.append(SESSIONS.c.number < self.before_number)
        if self.since is not None:
            conditions.append(SESSIONS.c.used >= self.since)
        if self.rated:
            conditions.append(SESSIONS.c.rated > 0)
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
        """Take all feedback that nobody has taken yet, with its sessions.

        What is taken stays the same until this is called again.

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
            .where(SESSIONS.c.rated > 0, SESSIONS.c.number.not_in(select(LEARNED.c.session).where(ours)))
            .group_by(SESSIONS.c.number, SESSIONS.c.version, SESSIONS.c.rated)
            .having(SESSIONS.c.rated > last)
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

    def newest(self, wanted: Iterable[ColumnElement[bool]], most: int) -> list[tuple[Episode, float | None]]:
        """The newest sessions for which all this holds, with their rewards."""
        with self.database.transaction() as connection:
            asked = select(SESSIONS.c.number, SESSIONS.c.reward).where(*wanted).order_by(SESSIONS.c.number.desc())
            rewards = {row.number: row.reward for row in connection.execute(asked.limit(most))}
            found = {number: _joined(one for _, one in news) for number, news in self._read(connection, list(rewards))}
        return [(found[number], reward) for number, reward in rewards.items() if number in found]

    def news(self, known: Mapping[int, int], most: int) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """What is new in the newest sessions since these versions: number, version and record."""
        with self.database.transaction() as connection:
            newest = select(SESSIONS.c.number, SESSIONS.c.version).order_by(SESSIONS.c.number.desc()).limit(most)
            changed = [row.number for row in connection.execute(newest) if row.version > known.get(row.number, 0)]
            for number in reversed(changed):
                asked = select(NEWS).where(NEWS.c.session == number, NEWS.c.version > known.get(number, 0))
                for row in connection.execute(asked.order_by(NEWS.c.version)).all():
                    yield row.session, row.version, row.record

    def rated_so_far(self) -> int:
        """A number that grows when something is rated."""
        with self.database.transaction() as connection:
            asked = select(func.count() + func.coalesce(func.sum(SESSIONS.c.rated), 0)).where(SESSIONS.c.rated > 0)
            return int(connection.execute(asked).scalar_one())

    def copied(self, taker: str) -> None:
        """Say that a copy of all that was taken is on disk."""
        with self.database.transaction() as connection:
            connection.execute(insert(COPIED).values(taker=taker))

    def drop_ended(self, age: float) -> int:
        """Delete sessions that ended so many seconds ago. Returns how many.

        Feedback stays until a training has a copy of it. Where gateways learn, the newest of it stays also then.
        """
        newest = select(SESSIONS.c.number).where(SESSIONS.c.rated > 0).order_by(SESSIONS.c.used.desc()).limit(MOST)
        kept = select(newest.subquery().c.number)
        of_session = LEARNED.c.session == SESSIONS.c.number
        is_read = select(LEARNED.c.session).where(of_session, LEARNED.c.taker.not_in(select(COPIED.c.taker))).exists()
        is_taken = select(LEARNED.c.session).where(of_session, LEARNED.c.upto >= SESSIONS.c.rated).exists()
        is_learned = and_(select(LEARNING.c.number).exists(), SESSIONS.c.number.in_(kept))
        asked = select(SESSIONS.c.number, SESSIONS.c.first).where(
            SESSIONS.c.ended < self.database.clock - age,
            SESSIONS.c.holder == "",
            ~is_read,
            (SESSIONS.c.rated == 0) | is_taken,
            ~is_learned,
        )
        dropped = 0
        while True:
            with self.database.transaction() as connection:
                self.database.alone(connection, _TAKING)
                rows = connection.execute(asked.limit(_PAGE).with_for_update(of=SESSIONS, skip_locked=True)).all()
                _delete(connection, [(row.number, row.first) for row in rows])
            dropped += len(rows)
            if len(rows) < _PAGE:
                return dropped

    def delete(self, chosen: Chosen) -> tuple[int, int]:
        """Delete chosen sessions. Returns how many, and how many a gateway works on at the moment, which stay."""
        deleted = 0
        while True:
            with self.database.transaction() as connection:
                is_free = (SESSIONS.c.holder == "") | (SESSIONS.c.held_until <= self.database.clock)
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
