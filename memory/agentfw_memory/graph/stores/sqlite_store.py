"""The store of a skill graph in one SQLite file: opening it, forgetting, other vectors, moving house.

The one rule: who is forgotten is gone from the file, from its log and from what the file's free pages still hold.

    store = SqliteStore.open("skills.db", tenant="team-a")

`SqliteRows` has the reading and writing of single rows, `sqlite_file` the tables and how the file is shared.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from hashlib import blake2b
from pathlib import Path
from typing import Any

from agentfw_memory.errors import StoreBusyError
from agentfw_memory.graph.stores.interface import Clock, Float32Array
from agentfw_memory.graph.stores.sql_store import WholeTenant
from agentfw_memory.graph.stores.sqlite_file import PATIENCE, open_file, patiently, transaction
from agentfw_memory.graph.stores.sqlite_rows import SqliteRows, packed, unpacked

__all__ = ["SqliteStore"]


class SqliteStore(SqliteRows, WholeTenant):
    """One tenant of one file."""

    refusals = (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError, OverflowError)

    def __init__(self, connection: sqlite3.Connection, path: str, tenant: str, number: int, clock: Clock) -> None:
        super().__init__(connection, tenant, number, clock)
        self.path = path

    @classmethod
    def open(cls, path: str | Path, *, tenant: str, power_safe: bool = False, clock: Clock = time.time) -> SqliteStore:
        """Open or make a file, and the tenant in it; `:memory:` keeps it only as long as this process."""
        connection = open_file(path, power_safe=power_safe)
        try:
            number = _tenant_number(connection, tenant)
        except BaseException:
            connection.close()
            raise
        return cls(connection, str(path), tenant, number, clock)

    @classmethod
    def tenants(cls, path: str | Path) -> list[str]:
        """Whose graphs are in a file."""
        connection = open_file(path, power_safe=False)
        try:
            rows = patiently(lambda: connection.execute("SELECT name FROM tenant ORDER BY name").fetchall())
            return [name for (name,) in rows]
        finally:
            connection.close()

    def bytes_on_disk(self) -> int:
        """Of the whole file, other tenants included, with its log."""
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
        """Write the whole file anew, and fold the log into it, which still has what was written before.

        SQLite can overwrite deleted rows with zeros (`secure_delete`), but that isn't enough: when it moves rows
        between pages, copies of them stay behind in what is free of a page.
        """
        until = time.monotonic() + PATIENCE
        # What it is built in holds only what stays, and may be too large for memory.
        self._execute("PRAGMA temp_store = FILE")
        patiently(lambda: self._execute("VACUUM"))
        self._execute("PRAGMA temp_store = MEMORY")
        while patiently(lambda: self._execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone())[0]:
            if time.monotonic() > until:
                raise StoreBusyError(
                    "the log still holds what was forgotten, because another process has been reading it all the time",
                    fix="close the other process and call forget again",
                )
            time.sleep(0.05)

    # Within

    def _do(self, sql: str, *values: Any) -> int:
        return max(0, self._execute(sql, values).rowcount)

    def _do_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self._connection.executemany(sql, rows)

    def _ask(self, sql: str, *values: Any) -> list[Any]:
        return self._rows(sql, *values)

    def _stream(self, sql: str, *values: Any) -> Iterator[Any]:
        return self._execute(sql, values)

    def _snapshot(self) -> AbstractContextManager[None]:
        return transaction(self._connection, begin="BEGIN")

    def _vector(self, vector: Float32Array) -> bytes:
        return packed(vector)

    def _read_vector(self, value: bytes) -> Float32Array:
        return unpacked(value)

    def _ends(self, near: str, far: str, numbers: Sequence[int]) -> list[int]:
        sql = f"SELECT DISTINCT e.{far} FROM json_each(?) j CROSS JOIN edge e ON e.tenant = ? AND e.{near} = j.value"
        return [number for (number,) in self._rows(sql, json.dumps(list(numbers)), self._tenant)]

    def _delete(self, table: str, column: str, numbers: Sequence[int]) -> int:
        sql = f"DELETE FROM {table} WHERE tenant = ? AND {column} = ?"
        return self._connection.executemany(sql, [(self._tenant, number) for number in numbers]).rowcount

    def _delete_orphans(self, numbers: set[int]) -> int:
        sql = (
            "DELETE FROM node WHERE tenant = ?1 AND number = ?2 AND kind IN ('tool', 'scenario') "
            "AND NOT EXISTS (SELECT 1 FROM edge WHERE tenant = ?1 AND target = ?2) "
            "AND NOT EXISTS (SELECT 1 FROM edge WHERE tenant = ?1 AND source = ?2)"
        )
        values = [(self._tenant, number) for number in sorted(numbers)]
        return max(0, self._connection.executemany(sql, values).rowcount)


def _tenant_number(connection: sqlite3.Connection, tenant: str) -> int:
    find = "SELECT tenant FROM tenant WHERE name = ?"
    rows = patiently(lambda: connection.execute(find, (tenant,)).fetchall())
    if not rows:
        with transaction(connection):
            sql = "INSERT INTO tenant (name, identity) VALUES (?, ?) ON CONFLICT DO NOTHING"
            connection.execute(sql, (tenant, uuid.uuid4().hex))
            rows = connection.execute(find, (tenant,)).fetchall()
    return int(rows[0][0])
