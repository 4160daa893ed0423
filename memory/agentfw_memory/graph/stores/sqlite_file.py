"""The SQLite file of skill graphs: its tables, checks on opening, and waiting for locks.

A file of another program or of a newer version is left untouched. Locked files are waited for, so that no caller sees
"database is locked".

    connection = open_file("skills.db", power_safe=False)
    with transaction(connection):
        ...

A file of an earlier version is migrated when it is opened. A copy of it as it was stays beside it.

The file uses write-ahead logging, so readers and one writer don't block each other. With `synchronous=NORMAL`, commits
survive `kill -9`, because the log is in the hands of the operating system. `power_safe` waits for the disk too.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TypeVar

from agentfw_memory.errors import StorageError, StoreBusyError, StoreRefusedError
from agentfw_memory.private_file import make_private

__all__ = ["LOCK_TIMEOUT", "disk_errors", "kept_copies", "open_file", "transaction", "wait_for_lock"]

logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")

VERSION = 2
APPLICATION = 0x534B4730  # "SKG0": marks our files
LOCK_TIMEOUT = 120.0
"""Seconds to wait for other processes before raising StoreBusyError. A write takes milliseconds, an export seconds."""

SCHEMA = """
CREATE TABLE tenant (
    tenant INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    identity TEXT NOT NULL,
    counter INTEGER NOT NULL DEFAULT 0,
    forgotten INTEGER NOT NULL DEFAULT 0,
    next_number INTEGER NOT NULL DEFAULT 1,
    embedder TEXT,
    embedder_version TEXT,
    dimensions INTEGER
) STRICT;
CREATE TABLE node (
    tenant INTEGER NOT NULL,
    number INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    recorded_at REAL NOT NULL,
    PRIMARY KEY (tenant, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX node_name ON node (tenant, kind, name);
CREATE TABLE trajectory (
    tenant INTEGER NOT NULL,
    number INTEGER NOT NULL,
    user INTEGER NOT NULL,
    query TEXT NOT NULL,
    outcome TEXT NOT NULL,
    reward REAL NOT NULL,
    PRIMARY KEY (tenant, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX trajectory_of ON trajectory (tenant, user);
CREATE TABLE version (
    tenant INTEGER NOT NULL,
    number INTEGER NOT NULL,
    ordinal INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    text TEXT NOT NULL,
    visibility TEXT NOT NULL,
    valid_from REAL NOT NULL,
    valid_to REAL,
    recorded_at REAL NOT NULL,
    metadata TEXT NOT NULL DEFAULT '',
    expires_at REAL,
    PRIMARY KEY (tenant, number, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX version_of ON version (tenant, owner);
CREATE INDEX version_expires ON version (tenant, expires_at) WHERE valid_to IS NULL AND expires_at IS NOT NULL;
CREATE TABLE live (
    tenant INTEGER NOT NULL,
    number INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    owner INTEGER NOT NULL,
    shared INTEGER NOT NULL,
    digest BLOB NOT NULL,
    uses INTEGER NOT NULL DEFAULT 0,
    rewards REAL NOT NULL DEFAULT 0,
    vector BLOB NOT NULL,
    PRIMARY KEY (tenant, number)
) STRICT;
CREATE INDEX live_changed ON live (tenant, changed);
CREATE UNIQUE INDEX live_text ON live (tenant, owner, digest);
CREATE TABLE ended (
    tenant INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (tenant, changed, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE edge (
    row INTEGER PRIMARY KEY AUTOINCREMENT,
    tenant INTEGER NOT NULL,
    kind TEXT NOT NULL,
    source INTEGER NOT NULL,
    target INTEGER NOT NULL,
    weight REAL NOT NULL,
    valid_from REAL NOT NULL,
    valid_to REAL,
    recorded_at REAL NOT NULL
) STRICT;
CREATE UNIQUE INDEX edge_now ON edge (tenant, source, kind, target) WHERE valid_to IS NULL;
CREATE INDEX edge_from ON edge (tenant, source);
CREATE INDEX edge_to ON edge (tenant, target, kind);
CREATE INDEX edge_row ON edge (tenant);
CREATE TABLE profile (
    tenant INTEGER NOT NULL,
    user INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    text TEXT NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (tenant, user)
) STRICT;
CREATE INDEX profile_changed ON profile (tenant, changed);
CREATE TABLE staged (
    tenant INTEGER NOT NULL,
    number INTEGER NOT NULL,
    embedder TEXT NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (tenant, number)
) STRICT;
CREATE TABLE state (
    tenant INTEGER NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT;
"""

MIGRATIONS = {
    1: """
    ALTER TABLE version ADD COLUMN metadata TEXT NOT NULL DEFAULT '';
    ALTER TABLE version ADD COLUMN expires_at REAL;
    CREATE INDEX version_expires ON version (tenant, expires_at) WHERE valid_to IS NULL AND expires_at IS NOT NULL;
    """,
}
"""The statements that lead from each format to the next. They rewrite no rows."""


@contextmanager
def disk_errors(path: str | Path) -> Iterator[None]:
    """Raise what the disk or a damaged file causes as ours."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        if _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            raise _damaged(path, error) from error
        if _code(error) in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN):
            raise StorageError(f"the disk failed: {error}", fix="mend it or free some space, then try again") from error
        raise


def kept_copies(path: str | Path) -> list[Path]:
    """Return the copies that migrations have left beside a file."""
    return [one for version in MIGRATIONS if (one := _copy_of(path, version)).exists()]


def open_file(path: str | Path, *, power_safe: bool) -> sqlite3.Connection:
    """Open or create a file of skill graphs. `:memory:` is a private one in memory."""
    make_private(path)
    try:
        connection = sqlite3.connect(path, timeout=LOCK_TIMEOUT, check_same_thread=False, isolation_level=None)
    except sqlite3.Error as error:
        raise StoreRefusedError(f"{path} can't be opened: {error}", fix="choose a path in a writable folder") from None
    try:
        wait_for_lock(lambda: _prepare(connection, path))
        wait_for_lock(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchall())
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
def transaction(connection: sqlite3.Connection, *, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """Commit at the end of the block, or roll back on an exception. BEGIN IMMEDIATE waits for other writers."""
    wait_for_lock(lambda: connection.execute(begin))
    try:
        yield
        wait_for_lock(lambda: connection.execute("COMMIT"))
    except BaseException as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if isinstance(error, sqlite3.OperationalError):
            raise StorageError(f"the disk refused a write: {error}", fix="free some space, then try again") from error
        raise


def wait_for_lock(call: Callable[[], Answer]) -> Answer:
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


def _prepare(connection: sqlite3.Connection, path: str | Path) -> None:
    """Check whose file it is, and create the tables in a new one. Several processes may do so at once."""
    if _pragma(connection, "application_id") != APPLICATION:
        # Check again under the write lock: another process may be creating the same file.
        connection.execute("BEGIN IMMEDIATE")
        try:
            tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
            if _pragma(connection, "application_id") == 0 and tables == 0:
                for statement in SCHEMA.split(";"):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
        finally:
            connection.execute("COMMIT")
        if _pragma(connection, "application_id") != APPLICATION:
            raise StoreRefusedError(f"{path} is a database of another program", fix="choose another path")
    version = _pragma(connection, "user_version")
    if version < VERSION:
        with transaction(connection):
            _migrate(connection, path)
    if version > VERSION:
        raise StoreRefusedError(
            f"{path} was written by a newer agentfw (format {version}, this version reads {VERSION})",
            fix="pip install --upgrade agentfw",
        )


def _damaged(path: str | Path, error: sqlite3.Error) -> StorageError:
    return StorageError(
        f"{path} is damaged: {error}",
        fix=f"restore a backup or import an export; `sqlite3 {path} .dump` prints the rows that can still be read",
    )


def _code(error: sqlite3.Error) -> int:
    """The error code without the part that says where."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _migrate(connection: sqlite3.Connection, path: str | Path) -> None:
    """Bring a file to this version's format, inside a write transaction. Another process may just have done so."""
    version = _pragma(connection, "user_version")
    if version >= VERSION:
        return
    copy = _copy_of(path, version)
    partial = copy.with_name(f"{copy.name}.{os.getpid()}.partial")
    make_private(partial)
    try:
        # Over a connection of its own, because one in a write transaction would wait for itself.
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(partial)) as target:
            source.backup(target)
        partial.replace(copy)
    finally:
        partial.unlink(missing_ok=True)
    for one in range(version, VERSION):
        for statement in MIGRATIONS[one].split(";"):
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {VERSION}")
    logger.warning("%s: migrated from format %d to %d; the file as it was is kept as %s", path, version, VERSION, copy)


def _copy_of(path: str | Path, version: int) -> Path:
    return Path(f"{path}.format-{version}")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
