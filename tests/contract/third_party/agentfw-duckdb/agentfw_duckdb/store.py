"""The store of a skill graph in a DuckDB file, for who analyses what was learned with the same file.

    store = DuckdbStore.open("duckdb://skills.duckdb", tenant="team-a", clock=time.time)

DuckDB lets one process write a file, or several read it. So a file belongs to the process that opened it first, and
another process is refused. In that process all graphs share one connection, over which one after the other reads or
writes. Acknowledged writes survive `kill -9`, because a commit is in DuckDB's log on disk.

The database enforces no keys: its indexes refuse a row that replaces one in the same transaction. As there is one
writer, an existing key is looked for instead.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
from agentfw_memory import SkillGraphError, StorageError, StoreRefusedError
from agentfw_memory.graph.stores import TABLES, Insert, Store, create_statements

TYPES = {"integer": "BIGINT", "number": "DOUBLE", "text": "VARCHAR", "vector": "BLOB", "bytes": "BLOB"}
VERSION = 2
_files: dict[str, _File] = {}
_opening = threading.Lock()


class DuckdbStore(Store):
    """One tenant of a file."""

    def __init__(self, where: str | Path, *, patience: float = 0.0, power_safe: bool = False) -> None:
        """Open or create a file. Each commit waits for the disk."""
        super().__init__(where)
        self._file = _open_file(where)

    def close(self) -> None:
        self._file.release()

    def bytes_on_disk(self) -> int:
        return sum(os.path.getsize(path) for path in self._file.paths() if os.path.exists(path))

    def erase(self) -> None:
        """Copy all rows to a new file, because the free space of this one still holds deleted rows."""
        self._file.rewrite()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        with self._file.transaction():
            yield

    # The dialect

    def _insert_rows(self, one: Insert, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> int:
        kinds, table = TABLES[one.table].columns, TABLES[one.table]
        kept = ["tenant", *names]
        types = [TYPES["integer"], *(TYPES[kinds[name].removeprefix("optional ")] for name in names)]
        columns = [list(column) for column in zip(*rows, strict=True)]
        made = ", ".join(f'unnest(?::{kind}[]) AS "{name}"' for name, kind in zip(kept, types, strict=True))
        quoted = ", ".join(f'"{name}"' for name in kept)
        unique = next((index for index in table.indexes if index.unique), None) if one.existing == "keep" else None
        key = ["tenant", *(table.key if unique is None else unique.columns)]
        same = " AND ".join(f'old."{name}" = new."{name}"' for name in key)
        new = f"SELECT {quoted} FROM (SELECT {made}) new"
        if one.existing != "refuse":
            # Of what is given twice, the first row is kept, or replaced by the last one.
            keys = list(zip(*(columns[kept.index(name)] for name in key), strict=True))
            places = range(len(keys))
            last = {keys[place]: place for place in (places if one.existing == "replace" else reversed(places))}
            chosen = sorted(last.values())
            columns = [[column[place] for place in chosen] for column in columns]
        if one.existing == "replace":
            self._run(f"DELETE FROM {one.table} old USING (SELECT {made}) new WHERE {same}", columns)
        if one.existing == "keep":
            valid = "AND old.valid_to IS NULL" if unique is not None and unique.valid else ""
            new = f"SELECT {quoted} FROM (SELECT {made}, unnest(?::BIGINT[]) AS place) new"
            new += f" WHERE NOT EXISTS (SELECT 1 FROM {one.table} old WHERE {same} {valid}) ORDER BY place"
            columns = [*columns, list(range(len(columns[0])))]
        return self._run(f"INSERT INTO {one.table} ({quoted}) {new}", columns)

    def _among(self, column: str, values: list[Any]) -> tuple[str, list[Any]]:
        return f"{column} IN (SELECT unnest(?))", [values]

    def _run(self, sql: str, values: Sequence[Any]) -> int:
        rows = self._rows(sql, values)
        return int(rows[0][0]) if rows else 0

    def _run_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> int:
        return sum(self._run(sql, row) for row in rows)

    def _rows(self, sql: str, values: Sequence[Any]) -> list[Any]:
        with self._file.lent() as connection:
            return connection.execute(sql, list(values)).fetchall()

    @contextmanager
    def _transaction(self, *, waits: bool = True) -> Iterator[None]:
        with self._file.transaction():
            yield


class _File:
    """The connection of this process to one file. Who has the lock reads or writes."""

    def __init__(self, path: str) -> None:
        self.path, self.graphs, self._lock = path, 0, threading.RLock()
        self._connection = self._connect()

    @contextmanager
    def lent(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Lend the connection, and raise errors of the database as ours."""
        with self._lock:
            try:
                yield self._connection
            except duckdb.IOException as error:
                fix = "free some space, then try again"
                raise StorageError(f"the disk failed: {error}", fix=fix) from error
            except duckdb.Error as error:
                fix = "change the input; nothing of it was stored"
                raise SkillGraphError(f"the database refused: {error}", fix=fix) from error

    @contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Commit at the end of the block, or roll back on an exception. Others wait meanwhile."""
        with self.lent() as connection:
            connection.execute("BEGIN")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                connection.execute("ROLLBACK")
                raise

    def rewrite(self) -> None:
        """Copy all rows to a new file, which takes the place of this one."""
        if self.path == ":memory:":
            return
        fresh = f"{self.path}.{os.getpid()}.partial"
        with self.lent() as connection:
            connection.execute("CHECKPOINT")
            Path(fresh).unlink(missing_ok=True)  # of a process that was killed meanwhile
            name = connection.execute("SELECT current_database()").fetchall()[0][0]
            connection.execute(f"ATTACH '{_escaped(fresh)}' AS fresh")
            connection.execute(f'COPY FROM DATABASE "{name}" TO fresh')
            connection.execute("DETACH fresh")
            connection.close()
            os.chmod(fresh, 0o600)
            os.replace(fresh, self.path)
            Path(f"{self.path}.wal").unlink(missing_ok=True)
            self._connection = self._connect()

    def release(self) -> None:
        """Close the connection when the last graph releases it."""
        with _opening:
            self.graphs -= 1
            if not self.graphs:
                _files.pop(self.path, None)
                self._connection.close()

    def paths(self) -> tuple[str, str]:
        return self.path, f"{self.path}.wal"

    def _connect(self) -> duckdb.DuckDBPyConnection:
        new = not os.path.exists(self.path)
        try:
            connection = duckdb.connect(self.path)
            if new and self.path != ":memory:":
                os.chmod(self.path, 0o600)
            tables = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
            if not tables:
                _create_tables(connection)
            elif "skillgraph_format" not in tables:
                raise StoreRefusedError(f"{self.path} is a database of another program", fix="choose another path")
            ((version,),) = connection.execute("SELECT version FROM skillgraph_format").fetchall()
        except duckdb.Error as error:
            fix = "close it where else it is open, or choose another path"
            raise StoreRefusedError(f"{self.path} can't be opened: {error}", fix=fix) from error
        if version != VERSION:
            raise StoreRefusedError(
                f"{self.path} was written by another version of agentfw (format {version}, this one reads {VERSION})",
                fix="pip install --upgrade agentfw, or import an export of that version into a new file",
            )
        return connection


def _create_tables(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("BEGIN")
    for table in ("tenant", "edge"):
        connection.execute(f"CREATE SEQUENCE {table}_numbers")
    for sql in create_statements(TYPES, numbered="BIGINT DEFAULT nextval('{0}_numbers')", keys=False):
        connection.execute(sql)
    connection.execute("CREATE TABLE skillgraph_format (version INTEGER)")
    connection.execute("INSERT INTO skillgraph_format VALUES (?)", [VERSION])
    connection.execute("COMMIT")


def _open_file(where: str | Path) -> _File:
    path = str(where).removeprefix("duckdb://")
    path = path if path == ":memory:" else os.path.realpath(path)
    with _opening:
        file = _files.get(path)
        if file is None or path == ":memory:":
            file = _File(path)
            if path != ":memory:":
                _files[path] = file
        file.graphs += 1
        return file


def _escaped(path: str) -> str:
    return path.replace("'", "''")
