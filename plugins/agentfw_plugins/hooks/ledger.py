"""The ledger: what the answers of gateways and runs took, in tokens and money, by user, key, session, model and day.

It is a SQLite file in the directory of runs, so a record that begins anew doesn't begin at nothing, or a table in the
PostgreSQL that gateways share. A row has the sums of one day for one user, key, session and model. Days are those of
UTC. Several processes may write to it. An answer that is counted survives a kill, but perhaps not a power cut. What a
server doesn't count is estimated, so that no budget leaks, and is told apart in a report.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from agentfw.boundary.gate import needing
from agentfw.episode import Usage
from agentfw.errors import StorageError, disk_fix

FILE = "usage.db"
GROUPS = ("user", "key", "session", "model", "day")
_NAMES = ("book", "day", "user", "key", "session", "model")
_FIGURES = ("requests", "estimated", "unpriced", "prompt", "cached", "written", "sampled", "cost")
_ADDED = ", ".join(f"{name} = spent.{name} + excluded.{name}" for name in _FIGURES)
_SUMS = ", ".join(  # PostgreSQL sums whole numbers as decimal fractions
    "COALESCE(SUM(cost), 0.0)" if name == "cost" else f"CAST(COALESCE(SUM({name}), 0) AS BIGINT)" for name in _FIGURES
)


class Account(NamedTuple):
    """Whose an answer is."""

    user: str = ""
    key: str = ""  # the name of the gateway's key that its request came with
    session: str = ""
    book: str = ""
    """The run whose budget it counts for. Empty for all gateways and chats of the directory together."""


class Row(NamedTuple):
    """Sums over some answers."""

    name: str
    requests: int
    estimated: int
    """How many of them no server has counted: their tokens and costs are reckoned by the length of the texts."""
    unpriced: int  # how many of them have no price that is known. Their costs are in no sum
    prompt: int
    cached: int
    """Prompt tokens that were read from a cache, and the ones that were written to it; `prompt` includes both."""
    written: int
    sampled: int
    money: float

    @property
    def tokens(self) -> int:
        return self.prompt + self.sampled


class Ledger:
    def __init__(self, place: Path | str) -> None:
        """`place` is a file, which is made with the first answer, or a postgresql:// address."""
        self.place, self._lock = str(place), Lock()
        self._is_file = "://" not in self.place
        self._connection: Any = None
        self._mark, self._failures = "?", tuple[type[Exception], ...]((sqlite3.Error, OSError))

    def add(self, account: Account, model: str, usage: Usage, *, counted: bool) -> None:
        tokens = [usage.prompt or 0, usage.cached or 0, usage.written or 0, usage.sampled or 0]
        texts = [account.book, today(), account.user, account.key, account.session, model]
        row = [text.replace("\0", "\ufffd") for text in texts]  # which PostgreSQL can't keep
        figures = [1, int(not counted), int(usage.cost is None), *tokens, usage.cost or 0.0]
        self._asked(_adding(), [*row, *figures], makes=True)

    def forget(self, user: str) -> None:
        """Leave what a user has spent in the sums, without their name, also as that of a key, and their sessions'."""
        sessions = """SELECT session FROM spent WHERE "user" = ? AND session <> ''"""  # some began as nobody's
        theirs = f"""DELETE FROM spent WHERE "user" = ? OR ("user" = '' AND session IN ({sessions})) RETURNING *"""
        self._asked("BEGIN", ())
        for book, day, _, key, _, *others in self._asked(theirs, [user, user]):
            self._asked(_adding(), [book, day, "", "" if key == user else key, "", *others])
        self._asked("COMMIT", ())

    def spent(self, whose: str, name: str, *, book: str = "", since: str = "") -> Row:
        """What a user or a key has spent since a day. `whose` is `user` or `key`; empty for all of the book."""
        where, values = "book = ? AND day >= ?", [book, since]
        if whose in GROUPS:
            where, values = f'{where} AND "{whose}" = ?', [*values, name]
        found = self._asked(f"SELECT {_SUMS} FROM spent WHERE {where}", values)
        return Row(name, *(found[0] if found else (0, 0, 0, 0, 0, 0, 0, 0.0)))

    def report(self, by: str, *, since: str = "", key: str | None = None, user: str | None = None) -> list[Row]:
        """What gateways, chats and runs have spent since a day, the most expensive first, and days in their order."""
        assert by in GROUPS
        where, values = "day >= ?", [since]
        for name, wanted in (("key", key), ("user", user)):
            if wanted is not None:
                where, values = f'{where} AND "{name}" = ?', [*values, wanted]
        order = "1" if by == "day" else f'SUM(cost) DESC, SUM(prompt + sampled) DESC, "{by}"'
        statement = f'SELECT "{by}", {_SUMS} FROM spent WHERE {where} GROUP BY "{by}" ORDER BY {order}'
        return [Row(*row) for row in self._asked(statement, values)]

    def _asked(self, statement: str, values: Sequence[object], *, makes: bool = False) -> list[Any]:
        """Execute a statement, and return its rows. There are none if there is no file and none is to be made."""
        with self._lock:
            try:
                if self._connection is None and not self._is_file:
                    self._connection = self._of_server()
                elif self._connection is None and (makes or Path(self.place).exists()):
                    self._connection = self._of_file(Path(self.place))
                if self._connection is None:
                    return []
                found = self._connection.execute(statement.replace("?", self._mark), values)
                return list(found.fetchall()) if found.description else []
            except self._failures as error:
                if self._connection is not None:  # what was begun ends with it, and the next may find the server again
                    self._connection.close()
                    self._connection = None
                where = self.place if self._is_file else f"the database at {self.place.rpartition('@')[2]}"
                fix = disk_fix(error) if isinstance(error, OSError) else "see to the database, or move the file away"
                raise StorageError(f"can't keep what was spent in {where}: {error}", fix=fix) from error

    def _of_file(self, path: Path) -> sqlite3.Connection:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        connection = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
        wanted = ("journal_mode=WAL", "synchronous=NORMAL", "secure_delete=ON")  # forgotten names are overwritten
        for statement in (*(f"PRAGMA {one}" for one in wanted), *_tables("INTEGER", "REAL")):
            connection.execute(statement)
        return connection

    def _of_server(self) -> Any:
        with needing("a ledger in PostgreSQL", "replicas"):
            import psycopg
        self._mark, self._failures = "%s", (psycopg.Error, OSError)
        connection = psycopg.connect(self.place, autocommit=True, connect_timeout=2)
        connection.execute("SET synchronous_commit TO off")
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(6074004)")  # two gateways may begin at once
            for statement in _tables("BIGINT", "DOUBLE PRECISION"):
                connection.execute(statement)
        return connection


def _adding() -> str:
    columns, marks = (*_NAMES, *_FIGURES), ", ".join("?" * len(_NAMES + _FIGURES))
    into = f"INSERT INTO spent ({_quoted(columns)}) VALUES ({marks})"
    return f"{into} ON CONFLICT ({_quoted(_NAMES)}) DO UPDATE SET {_ADDED}"


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)  # `user` means something else in PostgreSQL


def _tables(whole: str, fraction: str) -> Iterator[str]:
    texts = [f'"{name}" TEXT NOT NULL' for name in _NAMES]
    numbers = [f"{name} {fraction if name == 'cost' else whole} NOT NULL" for name in _FIGURES]
    yield f"CREATE TABLE IF NOT EXISTS spent ({', '.join((*texts, *numbers))}, PRIMARY KEY ({_quoted(_NAMES)}))"
    for whose in ("user", "key"):
        yield f'CREATE INDEX IF NOT EXISTS spent_{whose} ON spent (book, "{whose}", day)'


def today() -> str:
    return datetime.now(UTC).date().isoformat()
