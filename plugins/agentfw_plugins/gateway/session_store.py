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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from agentfw.errors import MissingExtraError, SettingsError, StorageError

try:
    from sqlalchemy import (
        JSON,
        Column,
        Connection,
        Float,
        Integer,
        MetaData,
        Row,
        String,
        Table,
        Text,
        UniqueConstraint,
        create_engine,
        event,
        insert,
        literal_column,
        select,
        text,
        update,
    )
    from sqlalchemy.engine import URL, make_url
    from sqlalchemy.exc import ArgumentError, IntegrityError, SQLAlchemyError
    from sqlalchemy.sql import Select
except ImportError as error:
    raise MissingExtraError("shared sessions", "replicas", module=error.name or "") from None

__all__ = ["LEASE", "SessionStore", "Shared", "UnreachableError"]

LEASE = 30.0
"""Seconds that a session stays with a gateway that no longer says that it is alive."""
_CONNECTIONS = 10

_tables = MetaData()
_sessions = Table(
    "agentfw_session",
    _tables,
    Column("number", Integer, primary_key=True, autoincrement=True),
    Column("first", String(300), nullable=False),
    Column("again", Integer, nullable=False),
    Column("user", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("holder", String(100), nullable=False),
    Column("held_until", Float, nullable=False),
    Column("used", Float, nullable=False, index=True),
    Column("finish", String(50), nullable=False),
    Column("concluded", Integer, nullable=False, index=True),
    UniqueConstraint("first", "again"),
    sqlite_autoincrement=True,
)
_news = Table(
    "agentfw_session_news",
    _tables,
    Column("session", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("record", JSON, nullable=False),
)
_answers = Table(
    "agentfw_session_answer",
    _tables,
    Column("digest", String(200), primary_key=True),
    Column("first", String(300), nullable=False),
)


class UnreachableError(StorageError):
    """The database doesn't answer. Whatever was asked may be asked again."""


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
        self.holder = f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(8)}"
        """Names this gateway."""
        url = _url(address)
        self._where = url.render_as_string(hide_password=True)
        self._is_file = url.get_backend_name() == "sqlite"
        if self._is_file:
            os.close(os.open(str(url.database), os.O_CREAT | os.O_RDWR, 0o600))
        options: dict[str, Any] = {"connect_args": {"timeout": 60}} if self._is_file else {"max_overflow": 0}
        # A connection that the server has closed meanwhile is replaced, so a failover ends no gateway.
        self._engine = create_engine(url, pool_size=_CONNECTIONS, pool_pre_ping=True, **options)
        if self._is_file:
            event.listen(self._engine, "connect", _plain)
            event.listen(self._engine, "begin", _at_once)
        with self._transaction() as connection:
            if not self._is_file:  # two that begin at once must not both make the tables
                connection.execute(text("SELECT pg_advisory_xact_lock(6074001)"))
            _tables.create_all(connection)

    def take(self, first: str) -> Shared | None:
        """Take the newest session of a name, if nobody else has it. None if there is none."""
        with self._transaction() as connection:
            row = connection.execute(
                select(_sessions)
                .where(_sessions.c.first == first)
                .order_by(_sessions.c.again.desc())
                .limit(1)
                .with_for_update()
            ).first()
            return None if row is None else self._taken(connection, row)

    def begin(self, first: str, again: int, user: str) -> Shared | None:
        """Begin a session, and take it. None if another gateway was quicker."""
        try:
            with self._transaction() as connection:
                now = self._now(connection)
                values = {"first": first, "again": again, "user": user, "version": 0, "finish": "", "concluded": 0}
                made = connection.execute(
                    insert(_sessions).values(**values, holder=self.holder, held_until=now + self.lease, used=now)
                )
                assert made.inserted_primary_key is not None
                return Shared(made.inserted_primary_key[0], first, again, user, 0)
        except IntegrityError:
            return None

    def records(self, number: int) -> list[dict[str, Any]]:
        """All news of a session, in order."""
        with self._transaction() as connection:
            asked = select(_news.c.record).where(_news.c.session == number).order_by(_news.c.version)
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
        with self._transaction() as connection:
            now = self._now(connection)
            values = {"version": version + 1, "user": user, "finish": finish, "used": now}
            changed = connection.execute(
                update(_sessions)
                .where(_sessions.c.number == number, _sessions.c.holder == self.holder, _sessions.c.version == version)
                .values(**values, held_until=now + self.lease)
            )
            if not changed.rowcount:
                asked = select(_sessions.c.holder, _sessions.c.version).where(_sessions.c.number == number)
                if connection.execute(asked).first() == (self.holder, version + 1):
                    return  # it was committed, but the connection broke before that was said
                raise StorageError(
                    "another gateway has taken this session over, because this one said nothing for "
                    f"{self.lease:g} seconds",
                    fix="ask again",
                )
            connection.execute(insert(_news).values(session=number, version=version + 1, record=dict(record)))
            for digest in answers:
                connection.execute(_answers.delete().where(_answers.c.digest == digest))
                connection.execute(insert(_answers).values(digest=digest, first=first))

    def give_back(self, number: int, *, concluded: bool = False) -> None:
        """Let other gateways have a session."""
        with self._transaction() as connection:
            connection.execute(
                update(_sessions)
                .where(_sessions.c.number == number, _sessions.c.holder == self.holder)
                .values(holder="", **({"concluded": 1} if concluded else {}))
            )

    def renew(self, numbers: Sequence[int]) -> None:
        """Say that this gateway still works on these sessions. All others become free when their lease ends."""
        with self._transaction() as connection:
            until = self._now(connection) + self.lease
            mine = (_sessions.c.holder == self.holder) & _sessions.c.number.in_(numbers)
            connection.execute(update(_sessions).where(mine).values(held_until=until))

    def take_unused(self, idle: float) -> Shared | None:
        """Take a session that nobody has used for so long, or whose end a killed gateway left unscored."""
        with self._transaction() as connection:
            now = self._now(connection)
            is_free = (_sessions.c.holder == "") | (_sessions.c.held_until <= now)
            is_over = (_sessions.c.finish != "") | (_sessions.c.used <= now - idle)
            asked = select(_sessions).where(_sessions.c.concluded == 0, is_free, is_over)
            row = connection.execute(asked.limit(1).with_for_update(skip_locked=True)).first()
            if row is None:
                return None
            self._hold(connection, row.number, now)
            return _shared(row, is_taken=True)

    def session_of(self, digests: Sequence[str]) -> str:
        """The name of the session that the last of these conversations goes on in. Empty if there is none."""
        with self._transaction() as connection:
            asked: Select[Any] = select(_answers.c.digest, _answers.c.first).where(_answers.c.digest.in_(digests))
            found = {row.digest: str(row.first) for row in connection.execute(asked)}
        return next((found[digest] for digest in reversed(digests) if digest in found), "")

    def close(self) -> None:
        """Give all sessions back, and close the connections."""
        with self._transaction() as connection:
            connection.execute(update(_sessions).where(_sessions.c.holder == self.holder).values(holder=""))
        self._engine.dispose()

    def _taken(self, connection: Connection, row: Row[Any]) -> Shared:
        now = self._now(connection)
        if row.finish or (row.holder not in ("", self.holder) and row.held_until > now):
            return _shared(row, is_taken=False)
        self._hold(connection, row.number, now)
        return _shared(row, is_taken=True)

    def _hold(self, connection: Connection, number: int, now: float) -> None:
        held = {"holder": self.holder, "held_until": now + self.lease}
        connection.execute(update(_sessions).where(_sessions.c.number == number).values(**held))

    def _now(self, connection: Connection) -> float:
        words = "(julianday('now') - 2440587.5) * 86400.0" if self._is_file else "extract(epoch from clock_timestamp())"
        return float(connection.execute(select(literal_column(words))).scalar_one())

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
            raise UnreachableError(
                f"the sessions at {self._where} can't be reached: {reason}", fix="see to the database, and try again"
            ) from error


def _shared(row: Row[Any], *, is_taken: bool) -> Shared:
    return Shared(row.number, row.first, row.again, row.user, row.version, row.finish, is_taken)


def _url(address: str) -> URL:
    if "://" not in address:
        return URL.create("sqlite", database=os.path.abspath(address))
    try:
        url = make_url(address)
    except ArgumentError:
        url = None
    if url is None or url.get_backend_name() != "postgresql":
        raise SettingsError(
            "sessions can't be shared at this address", fix="give the path of a file, or a postgresql:// address"
        )
    return url.set(drivername="postgresql+psycopg")


def _plain(connection: Any, record: object) -> None:
    connection.isolation_level = None  # transactions are begun below
    connection.execute("PRAGMA journal_mode=WAL")


def _at_once(connection: Connection) -> None:
    # Whoever reads a row here changes it next, so waiting for the right to write comes first.
    connection.exec_driver_sql("BEGIN IMMEDIATE")
