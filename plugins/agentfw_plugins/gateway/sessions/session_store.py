"""The sessions that several gateways share: how a gateway leads one of them, and how all are read, copied and deleted.

A gateway takes a session before it works on it, and gives it back afterwards. In between no other gateway has it. Each
piece of news is committed before it is acknowledged, so whoever takes the session next knows all of it. Each gateway
says every second that it is alive. One that didn't for `LEASE` seconds has lost its sessions, and others let their
memories hear what was said there. Times are the database's: the clocks of gateways may differ.

Only news and the end of a session wait for the disk. A session that two gateways take after a crash of the database, or
because one of them was silent for too long, has the news of one: those of the other are refused. The methods wait for
the database, so an event loop calls them in threads.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import reduce
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from agentfw import Episode, Host
from agentfw.boundary.gate import needing
from agentfw.boundary.secrets import struck
from agentfw.errors import StorageError, UsageError, disk_fix
from agentfw.runs import LiveRun, encoded, make_private, parse_spec
from agentfw.turns.session import extended

with needing("shared sessions", "replicas"):
    from sqlalchemy import ColumnElement, Row, and_, delete, func, insert, literal, select, update
    from sqlalchemy.exc import IntegrityError

from ..learning.ratings import MOST
from .session_database import ANSWERED, ANSWERS, GATEWAYS, LEARNING, NEWS, SESSIONS, SessionDatabase

LEASE = 5.0
"""Seconds after which a gateway is dead that no longer says that it is alive."""
_ASKED = 86400.0
"""Seconds after which the row of a dead gateway is deleted, if there is nothing left to hear of what was said there."""
_PAGE = 200  # number of sessions that are read at a time
_IS_UNHEARD = (SESSIONS.c.heard < SESSIONS.c.said) & SESSIONS.c.ended.is_(None)


@dataclass(frozen=True, slots=True)
class Shared:
    number: int
    """Unique among all sessions of the store."""
    first: str
    again: int
    """How often a session of this name was begun again."""
    user: str
    version: int
    """Number of pieces of news."""
    finish: str = ""
    unheard: int = 0
    """The version up to which something was said that, as far as the store was told, no memory has heard. Or 0."""
    is_taken: bool = True
    """Whether it is this gateway's now. False if it is another's, or has ended."""

    @property
    def name(self) -> str:
        return f"{self.first}~{self.again + 1}" if self.again else self.first


class Gateways(NamedTuple):
    """The other gateways of a store."""

    now: float
    """The database's time, in seconds since 1970."""
    alive: dict[str, dict[str, Any]]
    """The settings of those that are alive, by name."""
    dead: list[str]
    """Those that died, and whose unheard sayings no gateway has taken over yet."""


class SessionStore:
    def __init__(
        self, address: str, *, lease: float = LEASE, settings: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self.lease, self.settings = lease, dict(settings)
        self.holder = new_holder()
        self.database = SessionDatabase(address, asks_first=False)
        self._now = self.database.clock
        left = select(SESSIONS.c.number).where(SESSIONS.c.hearer == GATEWAYS.c.name, _IS_UNHEARD).exists()
        self.database.rows(delete(GATEWAYS).where(GATEWAYS.c.alive_until < self._now - _ASKED, ~left), waits=False)
        self.say_alive()

    def say_alive(self) -> Gateways:
        """Say that this gateway is alive, and ask for the others. Without this, it is dead when its lease ends.

        Who was silent for a lease itself calls nobody dead: perhaps none could reach the database.
        """
        until = self._now + self.lease
        with self.database.transaction(waits=False) as connection:
            rows = connection.execute(select(GATEWAYS, self._now.label("now"))).all()
            mine = update(GATEWAYS).where(GATEWAYS.c.name == self.holder).values(alive_until=until)
            if not connection.execute(mine).rowcount:
                row = {"name": self.holder, "settings": self.settings, "alive_until": until}
                connection.execute(insert(GATEWAYS).values(**row))
            now = rows[0].now if rows else self.database.now(connection)
        alive = {row.name: row.settings for row in rows if row.alive_until > now}
        dead = [row.name for row in rows if row.name not in alive] if self.holder in alive else []
        return Gateways(now, {name: alive[name] for name in alive if name != self.holder}, dead)

    def take_over(self, dead: Sequence[str], besides: Sequence[int]) -> list[tuple[int, str]]:
        """Promise to let the memories hear what they haven't heard at dead gateways, nor at this one.

        Returns numbers and users of the sessions, besides those of which it is known.
        """
        with self.database.transaction(waits=False) as connection:
            asked = select(GATEWAYS.c.name).where(GATEWAYS.c.name.in_(dead), GATEWAYS.c.alive_until <= self._now)
            names = connection.execute(asked.with_for_update(skip_locked=True)).scalars().all()
            is_left = SESSIONS.c.hearer.in_([*names, self.holder]) & SESSIONS.c.number.not_in(besides)
            taken = update(SESSIONS).where(is_left, _IS_UNHEARD).values(hearer=self.holder)
            found = connection.execute(taken.returning(SESSIONS.c.number, SESSIONS.c.user)).all()
            connection.execute(delete(GATEWAYS).where(GATEWAYS.c.name.in_(names)))
            return [(row.number, row.user) for row in found]

    def take(self, first: str) -> Shared | None:
        """Take the newest session of a name, if nobody else has it. None if there is none."""
        newest = select(SESSIONS.c.number).where(SESSIONS.c.first == first).order_by(SESSIONS.c.again.desc()).limit(1)
        is_newest = SESSIONS.c.number == newest.scalar_subquery()
        is_free = _is_free(self.database) | (SESSIONS.c.holder == self.holder)
        with self.database.transaction(waits=False) as connection:
            taken = update(SESSIONS).where(is_newest, SESSIONS.c.finish == "", is_free).values(holder=self.holder)
            if (row := connection.execute(taken.returning(SESSIONS)).first()) is not None:
                return _shared(row, is_taken=True)
            row = connection.execute(select(SESSIONS).where(is_newest)).first()
            return None if row is None else _shared(row, is_taken=False)

    def begin(self, first: str, again: int, user: str) -> Shared | None:
        """Begin a session, and take it. None if another gateway was quicker."""
        try:
            with self.database.transaction(waits=False) as connection:
                values = {"first": first, "again": again, "user": user, "version": 0, "finish": "", "used": self._now}
                made = insert(SESSIONS).values(**values, holder=self.holder).returning(SESSIONS)
                return _shared(connection.execute(made).one(), is_taken=True)
        except IntegrityError:
            return None

    def records(self, number: int) -> list[dict[str, Any]]:
        asked = select(NEWS.c.record).where(NEWS.c.session == number).order_by(NEWS.c.version)
        return [row.record for row in self.database.rows(asked)]

    def left_of(self, user: str) -> list[Shared]:
        """The sessions of a user that go on, or have ended and weren't scored yet."""
        asked = select(SESSIONS).where(SESSIONS.c.user == user, SESSIONS.c.ended.is_(None)).order_by(SESSIONS.c.number)
        return [_shared(row, is_taken=False) for row in self.database.rows(asked)]

    def heard_of(self, number: int) -> int:
        """Up to which version the memories have heard a session."""
        rows = self.database.rows(select(SESSIONS.c.heard).where(SESSIONS.c.number == number))
        return int(rows[0].heard) if rows else 0

    def append(
        self,
        number: int,
        version: int,
        record: Mapping[str, Any],
        *,
        user: str,
        first: str,
        finish: str = "",
        answer: str = "",
        gives_back: bool = False,
    ) -> None:
        """Commit a piece of news of a session that this gateway has. It becomes number `version` + 1.

        `answer` is the digest of a conversation that goes on in the session whose name begins with `first`. Unless it
        `gives_back` the session, this gateway has it from then on.
        """
        kinds, record = {tuple(event[1:3]) for event in record.get("events", ())}, struck(dict(record))
        values: dict[str, Any] = {"version": version + 1, "user": user, "finish": finish, "used": self._now}
        values["holder"] = "" if gives_back else self.holder
        values |= {"said": version + 1, "hearer": self.holder} if ("memory", "said") in kinds else {}
        values |= {"rated": version + 1} if ("observation", "feedback") in kinds else {}
        # One that is free and as this gateway knows it is as good as its own.
        is_ours = SESSIONS.c.holder.in_(("", self.holder)) & (SESSIONS.c.version == version)
        with self.database.transaction() as connection:
            changed = connection.execute(update(SESSIONS).where(SESSIONS.c.number == number, is_ours).values(**values))
            if not changed.rowcount:
                asked = select(NEWS.c.record).where(NEWS.c.session == number, NEWS.c.version == version + 1)
                if connection.execute(asked).scalar_one_or_none() == json.loads(json.dumps(record)):
                    return  # it was committed, but the connection broke before that was said
                raise StorageError(
                    "another gateway has taken this session over, because this one said nothing for "
                    f"{self.lease:g} seconds",
                    fix="ask again",
                )
            connection.execute(insert(NEWS).values(session=number, version=version + 1, record=record))
            if answer:
                connection.execute(ANSWERED, {"digest": answer, "first": first})

    def give_back(self, number: int) -> None:
        mine = (SESSIONS.c.number == number) & (SESSIONS.c.holder == self.holder)
        self.database.rows(update(SESSIONS).where(mine).values(holder=""), waits=False)

    def conclude(self, number: int, reward: float, heard: int | None) -> None:
        """Say that a session has ended, was scored, and was heard up to a version, if memories hear."""
        values = {"holder": "", "ended": self._now, "reward": reward, **({} if heard is None else {"heard": heard})}
        self.database.rows(update(SESSIONS).where(SESSIONS.c.number == number).values(**values))

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

    def take_unused(self, idle: float) -> Shared | None:
        """Take a session that nobody has used for so long, or whose end a killed gateway left unscored."""
        is_left = (SESSIONS.c.finish != "") | (SESSIONS.c.used <= self._now - idle)
        found = select(SESSIONS.c.number).where(SESSIONS.c.ended.is_(None), is_left, _is_free(self.database)).limit(1)
        with self.database.transaction(waits=False) as connection:
            number = connection.execute(found.with_for_update(skip_locked=True)).scalar_one_or_none()
            if number is None:
                return None
            taken = update(SESSIONS).where(SESSIONS.c.number == number).values(holder=self.holder)
            return _shared(connection.execute(taken.returning(SESSIONS)).one(), is_taken=True)

    def session_of(self, digests: Sequence[str]) -> str:
        """The name of the session in progress that the last of these conversations goes on in, or nothing."""
        goes_on = select(SESSIONS).where(SESSIONS.c.first == ANSWERS.c.first, SESSIONS.c.finish == "").exists()
        asked = select(ANSWERS.c.digest, ANSWERS.c.first).where(ANSWERS.c.digest.in_(digests), goes_on)
        found = {row.digest: str(row.first) for row in self.database.rows(asked)}
        return next((found[digest] for digest in reversed(digests) if digest in found), "")

    def close(self) -> None:
        """Leave everything to the other gateways, and close the connections."""
        self.database.rows(update(GATEWAYS).where(GATEWAYS.c.name == self.holder).values(alive_until=self._now))
        self.database.close()


def _is_free(database: SessionDatabase) -> ColumnElement[bool]:
    """Whether no gateway that is alive works on a session."""
    return SESSIONS.c.holder.not_in(select(GATEWAYS.c.name).where(GATEWAYS.c.alive_until > database.clock))


def _shared(row: Row[Any], *, is_taken: bool) -> Shared:
    unheard = row.said if row.heard < row.said else 0
    return Shared(row.number, row.first, row.again, row.user, row.version, row.finish, unheard, is_taken)


def new_holder() -> str:
    """A name for a gateway that no other has."""
    return f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(8)}"


# -- all sessions ------------------------------------------------------------------------------------------------------


class Chosen(NamedTuple):
    """Sessions of a store: those for which all of this holds."""

    user: str = ""
    space: str = ""
    """Name of the key that they were led with."""
    before: float | None = None
    """Not used since then, in seconds since 1970."""
    since: float | None = None
    """Used since then."""
    rated: bool = False

    def condition(self) -> ColumnElement[bool]:
        conditions: list[ColumnElement[bool]] = [literal(True)]
        if self.user:
            conditions.append(SESSIONS.c.user == self.user)
        if self.space:
            conditions.append(SESSIONS.c.first.startswith(f"{self.space}:", autoescape=True))
        if self.before is not None:
            conditions.append(SESSIONS.c.used < self.before)
        if self.since is not None:
            conditions.append(SESSIONS.c.used >= self.since)
        if self.rated:
            conditions.append(SESSIONS.c.rated > 0)
        return and_(*conditions)


class SessionJournal:
    def __init__(self, database: str | SessionDatabase) -> None:
        """`database` is its address, or one that is open."""
        self.database = SessionDatabase(database) if isinstance(database, str) else database

    def sessions(self, chosen: Chosen) -> Iterator[Episode]:
        """Chosen sessions, in the order in which they began."""
        return (episode for _, episode in self.versions(chosen))

    def versions(self, chosen: Chosen) -> Iterator[tuple[int, Episode]]:
        """The same, each with its version."""
        last = -1
        while rows := self._read(and_(chosen.condition(), SESSIONS.c.number > last), SESSIONS.c.number, _PAGE):
            last = rows[-1][0].number
            yield from ((row.version, episode) for row, episode in rows if episode is not None)

    def newest(self, wanted: Iterable[ColumnElement[bool]], most: int) -> list[tuple[Episode, float | None]]:
        """The newest sessions for which all this holds, with their rewards."""
        rows = self._read(and_(literal(True), *wanted), SESSIONS.c.number.desc(), most)
        return [(episode, row.reward) for row, episode in rows if episode is not None]

    def news(self, known: Mapping[int, int], most: int) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """What is new in the newest sessions since these versions: number, version and record."""
        with self.database.transaction() as connection:
            newest = select(SESSIONS.c.number, SESSIONS.c.version).order_by(SESSIONS.c.number.desc()).limit(most)
            changed = [row.number for row in connection.execute(newest) if row.version > known.get(row.number, 0)]
            for number in reversed(changed):
                asked = select(NEWS).where(NEWS.c.session == number, NEWS.c.version > known.get(number, 0))
                for row in connection.execute(asked.order_by(NEWS.c.version)).all():
                    yield row.session, row.version, row.record

    def gone(self, known: Collection[int]) -> set[int]:
        """Which of these sessions were deleted."""
        there = select(SESSIONS.c.number).where(SESSIONS.c.number >= min(known, default=0))
        return {*known} - {row.number for row in self.database.rows(there)}

    def rated_so_far(self) -> int:
        asked = select(func.count() + func.coalesce(func.sum(SESSIONS.c.rated), 0)).where(SESSIONS.c.rated > 0)
        return int(self.database.rows(asked)[0][0])

    def copied(self, versions: Mapping[int, int]) -> None:
        """Say up to which versions a training has a copy of sessions."""
        with self.database.transaction() as connection:
            for number, version in versions.items():
                connection.execute(update(SESSIONS).where(SESSIONS.c.number == number).values(copied=version))

    def drop_ended(self, age: float) -> int:
        """Delete sessions that ended so many seconds ago. Returns how many.

        Feedback stays until a training has a copy of it. Where gateways learn, the newest of it stays also then.
        """
        newest = select(SESSIONS.c.number).where(SESSIONS.c.rated > 0).order_by(SESSIONS.c.used.desc()).limit(MOST)
        kept = select(newest.subquery().c.number)
        is_learned = and_(select(LEARNING.c.number).exists(), SESSIONS.c.number.in_(kept))
        is_old = SESSIONS.c.ended < self.database.clock - age
        return self._delete(and_(is_old, SESSIONS.c.rated <= SESSIONS.c.copied, ~is_learned))

    def delete(self, chosen: Chosen) -> tuple[int, int]:
        """Delete chosen sessions. Returns how many, and how many a gateway works on at the moment, which stay."""
        deleted = self._delete(chosen.condition())
        left = select(func.count()).select_from(SESSIONS).where(chosen.condition())
        return deleted, int(self.database.rows(left)[0][0])

    def _delete(self, wanted: ColumnElement[bool]) -> int:
        """Delete sessions, but those that a gateway works on."""
        asked = select(SESSIONS.c.number, SESSIONS.c.first).where(wanted, _is_free(self.database)).limit(_PAGE)
        deleted = 0
        while True:
            with self.database.transaction() as connection:
                if not (rows := connection.execute(asked.with_for_update(of=SESSIONS, skip_locked=True)).all()):
                    return deleted
                numbers = [row.number for row in rows]
                connection.execute(delete(NEWS).where(NEWS.c.session.in_(numbers)))
                connection.execute(delete(ANSWERS).where(ANSWERS.c.first.in_([row.first for row in rows])))
                connection.execute(delete(SESSIONS).where(SESSIONS.c.number.in_(numbers)))
            deleted += len(rows)

    def close(self) -> None:
        self.database.close()

    def _read(
        self, wanted: ColumnElement[bool], order: ColumnElement[int], most: int
    ) -> list[tuple[Row[Any], Episode | None]]:
        """Sessions, each with all that was said in it. None: nothing yet."""
        with self.database.transaction() as connection:
            rows = connection.execute(select(SESSIONS).where(wanted).order_by(order).limit(most)).all()
            are_theirs = NEWS.c.session.in_([row.number for row in rows])
            asked = select(NEWS).where(are_theirs).order_by(NEWS.c.session, NEWS.c.version)
            of_sessions = groupby(connection.execute(asked).all(), lambda row: row.session)
        episodes = {number: joined(row.record for row in news) for number, news in of_sessions}
        return [(row, episodes.get(row.number)) for row in rows]


def joined(news: Iterable[Mapping[str, Any]]) -> Episode:
    """A session from all its news."""
    return reduce(extended, map(Episode.from_record, news))


_OF_COPIES = {
    "environment": "sessions",
    # Nobody is asked in a copy. What answered stands in its turns.
    "policy": {"name": "scripted", "settings": {"replies": [""]}},
    "rewards": ["feedback"],
}


def copied(address: str, host: Host, root: Path) -> list[Path]:
    """Copy the sessions with feedback into a run below `root`: `agentfw train --from postgresql://...`.

    Each training has a copy of its own, so that it can be resumed and repeated whatever becomes of the database.
    `--keep-ended` may delete what a copy has.
    """
    with closing(SessionJournal(address)) as journal:
        if not journal.rated_so_far():
            words = f"there is no feedback in the sessions at {journal.database.where}"
            raise UsageError(words, fix="rate answers: agentfw feedback SESSION")
        live = LiveRun.create(parse_spec(_OF_COPIES), host, root)
        live.assembly.engine.close()
        turns, versions = live.folder.path / "turns.jsonl", dict[int, int]()
        try:
            make_private(turns)
            with turns.open("wb") as handle:
                for version, episode in journal.versions(Chosen(rated=True)):
                    handle.write(encoded(episode.to_record()))
                    versions[episode.task.index] = version
                handle.flush()
                os.fsync(handle.fileno())
        except OSError as error:
            raise StorageError(f"can't write {turns}: {error.strerror or error}", fix=disk_fix(error)) from error
        journal.copied(versions)
    return [live.folder.path]
