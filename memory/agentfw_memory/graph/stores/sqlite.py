"""The store of a skill graph in a SQLite file.

With `synchronous=NORMAL`, commits survive `kill -9`, because the log is in the hands of the operating system.
`power_safe` waits for the disk too.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, ClassVar

from ...errors import StoreBusyError
from ...files import LOCK_TIMEOUT, disk_error, is_locked, open_sqlite, transaction, waited_for
from ..graph_settings import PATIENCE
from .sql import Store, create_statements
from .store import Answer

VERSION = 4
APPLICATION = 0x534B4730  # "SKG0": marks our files
TYPES = {"integer": "INTEGER", "number": "REAL", "text": "TEXT", "vector": "BLOB", "bytes": "BLOB"}
ENDS = ("STRICT", "STRICT, WITHOUT ROWID")
STATEMENTS = tuple(create_statements(TYPES, numbered="INTEGER PRIMARY KEY AUTOINCREMENT", ends=ENDS))


class SqliteStore(Store):
    """One tenant of a file."""

    in_order: ClassVar[Mapping[str, str]] = {"edge": "INDEXED BY edge_row"}
    refusals = (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError, OverflowError)

    def __init__(self, where: str | Path, *, patience: float = PATIENCE, power_safe: bool = False) -> None:
        """Open or create a file. `:memory:` lives only as long as this store."""
        super().__init__(where)
        self.path = str(where).removeprefix("sqlite://")
        self._connection = open_sqlite(
            self.path, what="skill graphs", application=APPLICATION, version=VERSION, tables=STATEMENTS
        )
        self._execute = self._connection.execute
        self._execute(f"PRAGMA synchronous = {'FULL' if power_safe else 'NORMAL'}")
        self._execute("PRAGMA temp_store = MEMORY")  # forgotten data must not stay in a temporary file
        self._execute("PRAGMA cache_size = -16000")
        # Checkpoint the log at 32 MB. Each checkpoint waits for the disk, so a few large ones are faster.
        self._execute("PRAGMA wal_autocheckpoint = 8000")

    def close(self) -> None:
        self._connection.close()

    def bytes_on_disk(self) -> int:
        files = (self.path, f"{self.path}-wal")
        return sum(os.path.getsize(file) for file in files if os.path.exists(file))

    def erase(self) -> None:
        """Rewrite the whole file and empty its write-ahead log, which still holds earlier pages. SQLite can overwrite
        deleted rows with zeros (`secure_delete`), but copies of moved rows stay in the free space of pages."""
        until = time.monotonic() + LOCK_TIMEOUT
        # The temporary copy holds no deleted rows and may be too large for memory.
        self._execute("PRAGMA temp_store = FILE")
        try:
            self._called(lambda: self._execute("VACUUM"), waits=True)
        finally:
            self._execute("PRAGMA temp_store = MEMORY")
        while self._called(lambda: self._execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone(), waits=True)[0]:
            if time.monotonic() > until:
                raise StoreBusyError(
                    "the rows are deleted, but their bytes stay while another process reads the state before",
                    fix="end that reader (an export, a backup, an open sqlite3), then repeat the call",
                )
            time.sleep(0.05)

    def snapshot(self) -> AbstractContextManager[None]:
        return transaction(self._connection, begin="BEGIN")

    # The dialect

    def _among(self, column: str, values: list[Any]) -> tuple[str, list[Any]]:
        return f"{column} IN (SELECT value FROM json_each(?))", [json.dumps(values)]

    def _run(self, sql: str, values: Sequence[Any]) -> int:
        return self._called(lambda: max(0, self._execute(sql, values).rowcount))

    def _run_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> int:
        return self._called(lambda: max(0, self._connection.executemany(sql, rows).rowcount))

    def _rows(self, sql: str, values: Sequence[Any]) -> list[Any]:
        return self._called(lambda: self._execute(sql, values).fetchall(), waits=True)

    def _called(self, call: Callable[[], Answer], *, waits: bool = False) -> Answer:
        """Return what a call returns, and raise what the disk or a damaged file causes as ours."""
        try:
            return call()
        except sqlite3.DatabaseError as error:
            if waits and is_locked(error):
                return self._called(lambda: waited_for(call))
            if (ours := disk_error(self.path, error)) is None:
                raise
            raise ours from error

    def _transaction(self, *, waits: bool = True) -> AbstractContextManager[None]:
        return transaction(self._connection)
