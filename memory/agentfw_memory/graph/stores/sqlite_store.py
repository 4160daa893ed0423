"""The store of a skill graph in a SQLite file.

    store = SqliteStore.open("skills.db", tenant="team-a")

The statements are in sql_rows.py and sql_store.py, the tables and the locking in sqlite_file.py.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from agentfw_memory.errors import StoreBusyError
from agentfw_memory.graph.arrays import Float32Array
from agentfw_memory.graph.stores.interface import Clock
from agentfw_memory.graph.stores.sql_store import SqlStore
from agentfw_memory.graph.stores.sqlite_file import (
    LOCK_TIMEOUT,
    disk_errors,
    kept_copies,
    open_file,
    transaction,
    wait_for_lock,
)

__all__ = ["SqliteStore"]


class SqliteStore(SqlStore):
    """One tenant of a file."""

    any_of = "IN (SELECT value FROM json_each(?))"
    edges_by_row = "edge e INDEXED BY edge_row"
    refusals = (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError, OverflowError)

    def __init__(self, connection: sqlite3.Connection, path: str, tenant: str, number: int, clock: Clock) -> None:
        super().__init__(tenant, number, clock)
        self._connection, self._execute, self.path = connection, connection.execute, path

    @classmethod
    def open(cls, path: str | Path, *, tenant: str, power_safe: bool = False, clock: Clock = time.time) -> SqliteStore:
        """Open or create a file and the tenant in it. `:memory:` lives only as long as this store."""
        connection = open_file(path, power_safe=power_safe)
        try:
            with disk_errors(path):
                number = _tenant_number(connection, tenant)
        except BaseException:
            connection.close()
            raise
        return cls(connection, str(path), tenant, number, clock)

    @classmethod
    def tenants(cls, path: str | Path) -> list[str]:
        """Return the names of the tenants in a file."""
        connection = open_file(path, power_safe=False)
        try:
            with disk_errors(path):
                rows = wait_for_lock(lambda: connection.execute("SELECT name FROM tenant ORDER BY name").fetchall())
            return [name for (name,) in rows]
        finally:
            connection.close()

    def bytes_on_disk(self) -> int:
        files = (self.path, f"{self.path}-wal")
        return sum(os.path.getsize(file) for file in files if os.path.exists(file))

    @property
    def index_path(self) -> Path | None:
        if self.path == ":memory:":
            return None
        return Path(f"{self.path}-{blake2b(self.tenant.encode(), digest_size=6).hexdigest()}.index")

    def close(self) -> None:
        self._connection.close()

    def erase(self) -> None:
        """Rewrite the whole file and empty its write-ahead log, which still holds earlier pages.

        SQLite can overwrite deleted rows with zeros (`secure_delete`), but copies of moved rows stay in the free space
        of pages.
        """
        for copy in kept_copies(self.path):
            copy.unlink(missing_ok=True)  # of before a migration: it holds what was deleted now
        until = time.monotonic() + LOCK_TIMEOUT
        # The temporary copy holds no deleted rows and may be too large for memory.
        self._execute("PRAGMA temp_store = FILE")
        wait_for_lock(lambda: self._execute("VACUUM"))
        self._execute("PRAGMA temp_store = MEMORY")
        while wait_for_lock(lambda: self._execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone())[0]:
            if time.monotonic() > until:
                raise StoreBusyError(
                    "the rows are deleted, but their bytes stay while another process reads the state before",
                    fix="end that reader (an export, a backup, an open sqlite3), then repeat the call",
                )
            time.sleep(0.05)

    # The dialect

    def _run(self, sql: str, *values: Any) -> int:
        with disk_errors(self.path):
            return max(0, self._execute(sql, values).rowcount)

    def _run_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> int:
        with disk_errors(self.path):
            return max(0, self._connection.executemany(sql, rows).rowcount)

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        with disk_errors(self.path):
            return wait_for_lock(lambda: self._execute(sql, values).fetchall())

    def _stream(self, sql: str, *values: Any) -> Iterator[Any]:
        with disk_errors(self.path):
            yield from self._execute(sql, values)

    def _transaction(self) -> AbstractContextManager[None]:
        return transaction(self._connection)

    def _snapshot(self) -> AbstractContextManager[None]:
        return transaction(self._connection, begin="BEGIN")

    def _numbers(self, numbers: Iterable[int]) -> str:
        return json.dumps(list(numbers))

    def _vector(self, vector: Float32Array) -> bytes:
        return np.asarray(vector, "<f4").tobytes()

    def _read_vectors(self, values: Sequence[bytes]) -> Float32Array:
        return np.frombuffer(b"".join(values), "<f4").astype(np.float32, copy=False).reshape(len(values), -1)


def _tenant_number(connection: sqlite3.Connection, tenant: str) -> int:
    find = "SELECT tenant FROM tenant WHERE name = ?"
    rows = wait_for_lock(lambda: connection.execute(find, (tenant,)).fetchall())
    if not rows:
        with transaction(connection):
            sql = "INSERT INTO tenant (name, identity) VALUES (?, ?) ON CONFLICT DO NOTHING"
            connection.execute(sql, (tenant, uuid.uuid4().hex))
            rows = connection.execute(find, (tenant,)).fetchall()
    return int(rows[0][0])
