"""The store of a skill graph in a SQLite file.

    store = SqliteStore.open("skills.db", tenant="team-a", clock=time.time)

A file of another program or of another version is left untouched. Locked files are waited for, so that no caller sees
"database is locked".

The file uses write-ahead logging, so readers and one writer don't block each other. With `synchronous=NORMAL`, commits
survive `kill -9`, because the log is in the hands of the operating system. `power_safe` waits for the disk too.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from agentfw_memory.errors import StorageError, StoreBusyError, StoreRefusedError
from agentfw_memory.graph.stores.sql import SqlStore, create_statements
from agentfw_memory.graph.stores.store import PATIENCE, Clock
from agentfw_memory.private_file import make_private

__all__ = ["SqliteStore"]

Answer = TypeVar("Answer")

VERSION = 3
APPLICATION = 0x534B4730  # "SKG0": marks our files
LOCK_TIMEOUT = 120.0
"""Seconds to wait for other processes before raising StoreBusyError. A write takes milliseconds, an export seconds."""
TYPES = {"integer": "INTEGER", "number": "REAL", "text": "TEXT", "vector": "BLOB", "bytes": "BLOB"}


class SqliteStore(SqlStore):
    """One tenant of a file."""

    in_order: ClassVar[Mapping[str, str]] = {"edge": "INDEXED BY edge_row"}
    refusals = (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError, OverflowError)

    def __init__(self, connection: sqlite3.Connection, path: str, tenant: str, number: int, clock: Clock) -> None:
        super().__init__(tenant, number, clock)
        self._connection, self._execute, self.path = connection, connection.execute, path

    @classmethod
    def open(
        cls,
        where: str | Path,
        *,
        tenant: str,
        clock: Clock = time.time,
        patience: float = PATIENCE,
        power_safe: bool = False,
    ) -> SqliteStore:
        """Open or create a file and the tenant in it. `:memory:` lives only as long as this store."""
        path = _path(where)
        connection = _open_file(path, power_safe=power_safe)
        try:
            with _disk_errors(path):
                find = "SELECT tenant FROM tenant WHERE name = ?"
                rows = _wait_for_lock(lambda: connection.execute(find, (tenant,)).fetchall())
                if not rows:
                    with _transaction(connection):
                        sql = "INSERT INTO tenant (name, identity) VALUES (?, ?) ON CONFLICT DO NOTHING"
                        connection.execute(sql, (tenant, uuid.uuid4().hex))
                        rows = connection.execute(find, (tenant,)).fetchall()
        except BaseException:
            connection.close()
            raise
        return cls(connection, path, tenant, int(rows[0][0]), clock)

    @classmethod
    def tenants(cls, where: str | Path) -> list[str]:
        connection = _open_file(_path(where), power_safe=False)
        try:
            with _disk_errors(where):
                rows = _wait_for_lock(lambda: connection.execute("SELECT name FROM tenant ORDER BY name").fetchall())
            return [name for (name,) in rows]
        finally:
            connection.close()

    def close(self) -> None:
        self._connection.close()

    def bytes_on_disk(self) -> int:
        files = (self.path, f"{self.path}-wal")
        return sum(os.path.getsize(file) for file in files if os.path.exists(file))

    @property
    def index_path(self) -> Path | None:
        if self.path == ":memory:":
            return None
        return Path(f"{self.path}-{blake2b(self.tenant.encode(), digest_size=6).hexdigest()}.index")

    def erase(self) -> None:
        """Rewrite the whole file and empty its write-ahead log, which still holds earlier pages.

        SQLite can overwrite deleted rows with zeros (`secure_delete`), but copies of moved rows stay in the free space
        of pages.
        """
        until = time.monotonic() + LOCK_TIMEOUT
        # The temporary copy holds no deleted rows and may be too large for memory.
        self._execute("PRAGMA temp_store = FILE")
        _wait_for_lock(lambda: self._execute("VACUUM"))
        self._execute("PRAGMA temp_store = MEMORY")
        while _wait_for_lock(lambda: self._execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone())[0]:
            if time.monotonic() > until:
                raise StoreBusyError(
                    "the rows are deleted, but their bytes stay while another process reads the state before",
                    fix="end that reader (an export, a backup, an open sqlite3), then repeat the call",
                )
            time.sleep(0.05)

    def snapshot(self) -> AbstractContextManager[None]:
        return _transaction(self._connection, begin="BEGIN")

    # The dialect

    def _run(self, sql: str, values: Sequence[Any]) -> int:
        with _disk_errors(self.path):
            return max(0, self._execute(sql, values).rowcount)

    def _run_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> int:
        with _disk_errors(self.path):
            return max(0, self._connection.executemany(sql, rows).rowcount)

    def _rows(self, sql: str, values: Sequence[Any]) -> list[Any]:
        with _disk_errors(self.path):
            return _wait_for_lock(lambda: self._execute(sql, values).fetchall())

    def _transaction(self) -> AbstractContextManager[None]:
        return _transaction(self._connection)

    def _among(self, column: str, values: list[Any]) -> tuple[str, list[Any]]:
        return f"{column} IN (SELECT value FROM json_each(?))", [json.dumps(values)]


def _path(where: str | Path) -> str:
    return str(where).removeprefix("sqlite://")


@contextmanager
def _disk_errors(path: str | Path) -> Iterator[None]:
    """Raise what the disk or a damaged file causes as ours."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise _damaged(path, error) from error
        if _code(error) in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN):
            raise StorageError(f"the disk failed: {error}", fix="mend it or free some space, then try again") from error
        raise


def _open_file(path: str, *, power_safe: bool) -> sqlite3.Connection:
    """Open or create a file of skill graphs. `:memory:` is a private one in memory."""
    make_private(path)
    try:
        connection = sqlite3.connect(path, timeout=LOCK_TIMEOUT, check_same_thread=False, isolation_level=None)
    except sqlite3.Error as error:
        raise StoreRefusedError(f"{path} can't be opened: {error}", fix="choose a path in a writable folder") from None
    try:
        _wait_for_lock(lambda: _prepare(connection, path))
        _wait_for_lock(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchall())
        connection.execute(f"PRAGMA synchronous = {'FULL' if power_safe else 'NORMAL'}")
        connection.execute("PRAGMA temp_store = MEMORY")  # forgotten data must not stay in a temporary file
        connection.execute("PRAGMA cache_size = -16000")
        # Checkpoint the log at 32 MB. Each checkpoint waits for the disk, so a few large ones are faster.
        connection.execute("PRAGMA wal_autocheckpoint = 8000")
    except sqlite3.DatabaseError as error:
        connection.close()
        if _code(error) == sqlite3.SQLITE_CORRUPT:
            raise _damaged(path, error) from error
        raise StoreRefusedError(f"{path} is not a file of skill graphs: {error}", fix="choose another path") from None
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def _transaction(connection: sqlite3.Connection, *, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """Commit at the end of the block, or roll back on an exception. BEGIN IMMEDIATE waits for other writers."""
    _wait_for_lock(lambda: connection.execute(begin))
    try:
        yield
        _wait_for_lock(lambda: connection.execute("COMMIT"))
    except BaseException as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if isinstance(error, sqlite3.OperationalError):
            raise StorageError(f"the disk refused a write: {error}", fix="free some space, then try again") from error
        raise


def _wait_for_lock(call: Callable[[], Answer]) -> Answer:
    """Call a function, and repeat it while another process holds the file.

    SQLite's own timeout doesn't cover every case: it gives up at once when turning on the log, when recovering the log
    of a killed writer, and when reading while the last connection closes.
    """
    until, pause = time.monotonic() + LOCK_TIMEOUT, 0.001
    while True:
        try:
            return call()
        except sqlite3.OperationalError as error:
            if not any(word in str(error) for word in ("locked", "busy", "locking protocol")):
                raise
            if time.monotonic() > until:
                raise StoreBusyError(
                    f"another process has held the file for {LOCK_TIMEOUT:.0f} seconds",
                    fix="end the process that hangs with the file open, then try again",
                ) from error
        time.sleep(pause)
        pause = min(2 * pause, 0.1)


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    """Check whose file it is, and create the tables in a new one. Several processes may do so at once."""

    def pragma(name: str) -> int:
        return int(connection.execute(f"PRAGMA {name}").fetchone()[0])

    if pragma("application_id") != APPLICATION:
        # Check again under the write lock: another process may be creating the same file.
        connection.execute("BEGIN IMMEDIATE")
        try:
            tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
            if pragma("application_id") == 0 and tables == 0:
                numbered = "INTEGER PRIMARY KEY AUTOINCREMENT"
                for sql in create_statements(TYPES, numbered=numbered, ends=("STRICT", "STRICT, WITHOUT ROWID")):
                    connection.execute(sql)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
        finally:
            connection.execute("COMMIT")
        if pragma("application_id") != APPLICATION:
            raise StoreRefusedError(f"{path} is a database of another program", fix="choose another path")
    if (version := pragma("user_version")) != VERSION:
        raise StoreRefusedError(
            f"{path} was written by another version of agentfw (format {version}, this version reads {VERSION})",
            fix="pip install --upgrade agentfw, or import an export of that version into a new file",
        )


def _damaged(path: str | Path, error: sqlite3.Error) -> StorageError:
    return StorageError(
        f"{path} is damaged: {error}",
        fix=f"restore a backup or import an export; `sqlite3 {path} .dump` prints the rows that can still be read",
    )


def _code(error: sqlite3.Error) -> int:
    """The error code without the part that says where."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
