"""The database that several gateways share: its tables, how it is reached, and the keys in it.

It is PostgreSQL or, for the gateways of one machine, a SQLite file. It is the whole record: sessions with all that was
said, how far the memories have heard it, keys with their limits, and versions. So a gateway may be lost for good. No
column that changes with each turn is in an index or in the condition of one, so that PostgreSQL can update a row where
it is, without writing to the indexes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agentfw.boundary.gate import needing
from agentfw.errors import SettingsError, StorageError, storing
from agentfw.runs import make_private

with needing("shared sessions", "replicas"):
    import sqlalchemy as sa
    from sqlalchemy.engine import URL, make_url
    from sqlalchemy.exc import ArgumentError, DataError, IntegrityError, SQLAlchemyError

from ..keys import Key, Keys, key_exists, no_such_key

_CONNECTIONS = 10

_NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")  # which has 64 bits, and counts only by this name

_tables = sa.MetaData()
SESSIONS = sa.Table(
    "agentfw_session",
    _tables,
    sa.Column("number", _NUMBER, primary_key=True, autoincrement=True),
    sa.Column("first", sa.String(300), nullable=False),
    sa.Column("again", sa.Integer, nullable=False),
    sa.Column("user", sa.Text, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("holder", sa.String(100), nullable=False),
    sa.Column("hearer", sa.String(100), nullable=False, server_default=""),
    sa.Column("used", sa.Float, nullable=False),
    sa.Column("finish", sa.String(50), nullable=False),
    sa.Column("said", sa.Integer, nullable=False, server_default="0"),
    sa.Column("heard", sa.Integer, nullable=False, server_default="0"),
    sa.Column("rated", sa.Integer, nullable=False, server_default="0"),
    sa.Column("copied", sa.Integer, nullable=False, server_default="0"),
    sa.Column("ended", sa.Float),
    sa.Column("reward", sa.Float),
    sa.UniqueConstraint("first", "again"),
    sqlite_autoincrement=True,
    postgresql_with={"fillfactor": 60},
)
"""`said` is the last version in which a user said something, `heard` that up to which the memories have heard it,
`rated` the last one with feedback, and `copied` that up to which a training has a copy. `hearer` is the gateway whose
memories hear what was said last. `ended` is when a session was scored after its end."""
for _name, _columns, _condition in (
    ("going", ["number"], SESSIONS.c.ended.is_(None)),
    ("ended", ["ended"], SESSIONS.c.ended.is_not(None)),
    ("rated", ["number"], SESSIONS.c.rated > 0),
    ("user", ["user", "number"], None),
):
    sa.Index(
        f"agentfw_session_{_name}",
        *(SESSIONS.c[column] for column in _columns),
        postgresql_where=_condition,
        sqlite_where=_condition,
    )
NEWS = sa.Table(
    "agentfw_session_news",
    _tables,
    sa.Column("session", _NUMBER, primary_key=True, autoincrement=False),
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("record", sa.JSON, nullable=False),
)
GATEWAYS = sa.Table(
    "agentfw_gateway",
    _tables,
    sa.Column("name", sa.String(100), primary_key=True),
    sa.Column("alive_until", sa.Float, nullable=False),
    sa.Column("settings", sa.JSON, nullable=False),
)
"""The gateways. What a dead one has belongs to the others. `settings` are those that all must have."""
ANSWERS = sa.Table(
    "agentfw_session_answer",
    _tables,
    sa.Column("digest", sa.String(200), primary_key=True),
    sa.Column("first", sa.String(300), nullable=False),
)
ANSWERED = sa.text(
    "INSERT INTO agentfw_session_answer (digest, first) VALUES (:digest, :first) "
    "ON CONFLICT (digest) DO UPDATE SET first = excluded.first"
)
"""Two sessions may have the same conversation, even at one moment. The newest goes on with it."""
KEYS = sa.Table(
    "agentfw_key",
    _tables,
    sa.Column("name", sa.String(100), primary_key=True),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.Column("created", sa.String(40), nullable=False),
    sa.Column("user", sa.Text),
    sa.Column("per_minute", sa.Integer),
    sa.Column("left", sa.Float),
    sa.Column("asked", sa.Float),
)
"""`left` is how many answers a key could ask for at the time `asked`, as far as it may ask for so many a minute."""
LEARNING = sa.Table(
    "agentfw_learning",
    _tables,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("content", sa.Text, nullable=False),
    sa.Column("changed", sa.Integer, nullable=False),
    sa.Column("policy", sa.Text, nullable=False),
    sa.Column("heard", sa.Integer, nullable=False),
    sa.Column("holder", sa.String(100), nullable=False),
    sa.Column("held_until", sa.Float, nullable=False),
)
"""The versions that the gateways serve and the lease of the one that trains: one row, once one of them learns."""
ADAPTERS = sa.Table(
    "agentfw_learning_adapter",
    _tables,
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("path", sa.String(300), primary_key=True),
    sa.Column("part", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("content", sa.LargeBinary, nullable=False),
)
"""The files of the versions, cut into parts. A version that is a single file has the empty path."""


class UnreachableError(StorageError):
    """The database doesn't answer. Whatever was asked may be asked again."""


class SessionDatabase:
    """A database of sessions. Every method of it waits, so an event loop calls it in threads."""

    def __init__(self, address: str, *, asks_first: bool = True) -> None:
        """With `asks_first`, a connection is tried before each use. Without, whoever uses it must try again."""
        url = _url(address)
        self.where = url.render_as_string(hide_password=True)
        self.is_file = url.get_backend_name() == "sqlite"
        if self.is_file:
            with storing(f"make {url.database}"):
                make_private(Path(str(url.database)))
        words = "(julianday('now') - 2440587.5) * 86400.0" if self.is_file else "extract(epoch from clock_timestamp())"
        self.clock: sa.ColumnElement[float] = sa.literal_column(words, sa.Float)
        options: dict[str, Any] = {"connect_args": {"timeout": 60}} if self.is_file else {"max_overflow": 0}
        # A connection that the server has closed meanwhile is replaced, so a failover ends no gateway.
        self.breaks = 0
        """How often it couldn't be reached. What was committed without waiting shortly before may be lost then."""
        self._engine = sa.create_engine(url, pool_size=_CONNECTIONS, pool_pre_ping=asks_first, **options)
        if self.is_file:
            sa.event.listen(self._engine, "connect", _plain)
            # Whoever reads a row here changes it next, so waiting for the right to write comes first.
            sa.event.listen(self._engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
        with self.transaction() as connection:
            self.alone(connection, 6074001)  # two that begin at once must not both make the tables
            there = sa.inspect(connection).get_multi_columns(filter_names=list(_tables.tables))
            known = {table: {column["name"] for column in columns} for (_, table), columns in there.items()}
            for name, columns in known.items():
                if others := columns ^ set(_tables.tables[name].columns.keys()):
                    raise SettingsError(
                        f"the sessions at {self.where} are of another version of agentfw: the table {name} has other "
                        f"columns ({', '.join(sorted(others))})",
                        fix="use that version for them, or name another database",
                    )
            _tables.create_all(connection)

    def close(self) -> None:
        self._engine.dispose()

    def alone(self, connection: sa.Connection, number: int) -> None:
        """Wait until no other transaction has this lock, and keep it to the end of this one."""
        if not self.is_file:  # there is one transaction at a time in a file
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})

    def now(self, connection: sa.Connection) -> float:
        return float(connection.execute(sa.select(self.clock)).scalar_one())

    @contextmanager
    def transaction(self, *, waits: bool = True) -> Iterator[sa.Connection]:
        """Commit what the block does, or nothing of it.

        Without `waits`, PostgreSQL flushes it a moment later. If the server crashes until then, it is as if it had not
        been done.
        """
        try:
            with self._engine.begin() as connection:
                if not (waits or self.is_file):
                    connection.exec_driver_sql("SET LOCAL synchronous_commit TO off")
                yield connection
        except IntegrityError:
            raise
        except SQLAlchemyError as error:
            reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
            if isinstance(error, DataError):  # it would be refused again
                raise StorageError(f"the sessions at {self.where} can't store this: {reason}") from error
            self.breaks += 1
            words = f"the sessions at {self.where} can't be reached: {reason}"
            raise UnreachableError(words, fix="see to the database, and try again") from error

    def rows(self, statement: sa.Executable, *, waits: bool = True) -> Sequence[sa.Row[Any]]:
        """Execute one statement in a transaction of its own. Returns its rows, if it has any."""
        with self.transaction(waits=waits) as connection:
            found = connection.execute(statement)
            return found.all() if found.returns_rows else ()


def _url(address: str) -> URL:
    if "://" not in address:
        return URL.create("sqlite", database=os.path.abspath(address))
    try:
        url = make_url(address)
    except ArgumentError:
        url = None
    if url is None or url.drivername.partition("+")[0] not in ("postgresql", "postgres"):
        words = "sessions can't be shared at this address"
        raise SettingsError(words, fix="give the path of a file, or a postgresql:// address")
    return url.set(drivername="postgresql+psycopg")


def _plain(connection: Any, record: object) -> None:
    connection.isolation_level = None  # transactions are begun below
    connection.execute("PRAGMA journal_mode=WAL")


_OF_KEYS = [KEYS.c[name] for name in Key.__dataclass_fields__]


class SharedKeys(Keys):
    """The keys in a database: one that is added or revoked holds at all gateways within a second.

    Each has a copy of them, since every request asks for one. They count what a key may still ask for together.
    """

    def __init__(self, database: SessionDatabase) -> None:
        super().__init__()
        self.database, self._known = database, dict[str, Key]()
        self.place = database.where
        self.refresh()

    @property
    def exists(self) -> bool:
        return bool(self._known)

    def keys(self) -> Sequence[Key]:
        self.refresh()
        return super().keys()

    def known(self) -> dict[str, Key]:
        return self._known

    def refresh(self) -> None:
        rows = self.database.rows(sa.select(*_OF_KEYS).order_by(KEYS.c.created, KEYS.c.name))
        self._known = {row.digest: Key(*tuple(row)) for row in rows}

    def insert(self, key: Key) -> None:
        try:
            self.database.rows(sa.insert(KEYS).values(**asdict(key)))
        except IntegrityError:  # somebody else was quicker
            raise key_exists(key.name) from None

    def revoke(self, name: str) -> None:
        if not self.database.rows(sa.delete(KEYS).where(KEYS.c.name == name).returning(KEYS.c.name)):
            raise no_such_key(name, self.place)

    async def count(self, key: Key) -> None:
        def counted() -> None:
            with self.database.transaction(waits=False) as connection:
                now = self.database.now(connection)
                row = connection.execute(sa.select(KEYS).where(KEYS.c.name == key.name).with_for_update()).first()
                if row is not None:  # otherwise revoked at this moment: its next request is refused
                    left = self.left_after(key, row.left, now - (row.asked or now))
                    connection.execute(sa.update(KEYS).where(KEYS.c.name == key.name).values(left=left, asked=now))

        if key.per_minute is not None:
            await asyncio.to_thread(counted)
