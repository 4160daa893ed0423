"""The ledger: what the answers of gateways and runs took, in tokens and money, by user, key, session, model and day.

It is a SQLite file in the directory of runs, so a record that begins anew doesn't begin at nothing. A row has the sums
of one day for one user, key, session and model. Days are those of UTC. Several processes may write to it.

    ledger = Ledger(Path("runs/usage.db"))
    ledger.add(Account(user="ada"), "gpt-5", Usage(prompt=100, cached=0, sampled=20, cost=0.0004), counted=True)
    ledger.spent("user", "ada", since="2026-11-01").money
    ledger.report("model")

What a server doesn't count is estimated, so that no budget leaks, and is told apart in a report.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from agentfw.episode import Usage
from agentfw.errors import StorageError, disk_fix

FILE = "usage.db"
GROUPS = ("user", "key", "session", "model", "day")
_NAMES = ("book", "day", "user", "key", "session", "model")
_FIGURES = ("requests", "estimated", "unpriced", "prompt", "cached", "written", "sampled", "cost")
_ADDED = ", ".join(f"{name} = {name} + excluded.{name}" for name in _FIGURES)
_SUMS = ", ".join(f"COALESCE(SUM({name}), 0)" for name in _FIGURES)


class Account(NamedTuple):
    """Whose an answer is."""

    user: str = ""
    key: str = ""
    """The name of the gateway's key that its request came with."""
    session: str = ""
    book: str = ""
    """The run whose budget it counts for. Empty for all gateways and chats of the directory together."""


class Row(NamedTuple):
    """Sums over some answers."""

    name: str
    requests: int
    estimated: int
    """How many of them no server has counted: their tokens and costs are reckoned by the length of the texts."""
    unpriced: int
    """How many of them have no price that is known. Their costs are in no sum."""
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
    """One file. It is made with the first answer."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, Lock()
        self._connection: sqlite3.Connection | None = None

    def add(self, account: Account, model: str, usage: Usage, *, counted: bool) -> None:
        """Add one answer."""
        tokens = [usage.prompt or 0, usage.cached or 0, usage.written or 0, usage.sampled or 0]
        row = [account.book, today(), account.user, account.key, account.session, model]
        figures = [1, int(not counted), int(usage.cost is None), *tokens, usage.cost or 0.0]
        marks = ", ".join("?" * (len(row) + len(figures)))
        statement = (
            f"INSERT INTO spent ({', '.join((*_NAMES, *_FIGURES))}) VALUES ({marks}) "
            f"ON CONFLICT ({', '.join(_NAMES)}) DO UPDATE SET {_ADDED}"
        )
        with self._open(makes=True) as connection:
            assert connection is not None
            connection.execute(statement, [*row, *figures])

    def spent(self, whose: str, name: str, *, book: str = "", since: str = "") -> Row:
        """What a user or a key has spent since a day. `whose` is `user` or `key`; empty for all of the book."""
        with self._open() as connection:
            if connection is None:
                return Row(name, 0, 0, 0, 0, 0, 0, 0, 0.0)
            where, values = "book = ? AND day >= ?", [book, since]
            if whose in GROUPS:
                where, values = f"{where} AND {whose} = ?", [*values, name]
            return Row(name, *connection.execute(f"SELECT {_SUMS} FROM spent WHERE {where}", values).fetchone())

    def report(self, by: str, *, since: str = "", key: str | None = None, user: str | None = None) -> list[Row]:
        """What gateways, chats and runs have spent since a day, the most expensive first, and days in their order."""
        assert by in GROUPS
        where, values = "day >= ?", [since]
        for name, wanted in (("key", key), ("user", user)):
            if wanted is not None:
                where, values = f"{where} AND {name} = ?", [*values, wanted]
        order = "1" if by == "day" else f"SUM(cost) DESC, SUM(prompt + sampled) DESC, {by}"
        with self._open() as connection:
            if connection is None:
                return []
            found = connection.execute(
                f"SELECT {by}, {_SUMS} FROM spent WHERE {where} GROUP BY {by} ORDER BY {order}", values
            )
            return [Row(*row) for row in found]

    @contextmanager
    def _open(self, *, makes: bool = False) -> Iterator[sqlite3.Connection | None]:
        """The connection, and None if there is no file and none is to be made."""
        with self._lock:
            try:
                if self._connection is None and (makes or self.path.exists()):
                    self._connection = self._made()
                yield self._connection
            except (sqlite3.Error, OSError) as error:
                fix = disk_fix(error) if isinstance(error, OSError) else "see to the file, or move it away"
                raise StorageError(f"can't keep what was spent in {self.path}: {error}", fix=fix) from error

    def _made(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = sqlite3.connect(self.path, timeout=10, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")  # survives a kill; a power cut may take the last answers
        texts = ", ".join(f"{name} TEXT NOT NULL" for name in _NAMES)
        numbers = ", ".join(f"{name} {'REAL' if name == 'cost' else 'INTEGER'} NOT NULL" for name in _FIGURES)
        connection.execute(
            f"CREATE TABLE IF NOT EXISTS spent ({texts}, {numbers}, PRIMARY KEY ({', '.join(_NAMES)})) WITHOUT ROWID"
        )
        for whose in ("user", "key"):
            connection.execute(f"CREATE INDEX IF NOT EXISTS spent_{whose} ON spent (book, {whose}, day)")
        return connection


def today() -> str:
    return datetime.now(UTC).date().isoformat()
