"""The file of a skill graph: its tables, whose file it is, and how several processes share it without a word of it.

The one rule: a file that isn't ours, or is newer than we are, is left exactly as it is; and whoever finds the file in
use waits, so that nobody outside of here ever hears "database is locked".

    connection = open_file("skills.db", power_safe=False)
    with transaction(connection):
        ...

Write-ahead logging throughout: readers and one writer at a time don't hinder each other. With `synchronous=NORMAL` what
was committed survives `kill -9`, since the log is with the operating system by then; `power_safe` waits for the disk
too.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from agentfw_memory.errors import StorageError, StoreBusyError, StoreRefusedError

__all__ = ["open_file", "patiently", "transaction"]

Answer = TypeVar("Answer")

VERSION = 1
APPLICATION = 0x534B4730  # "SKG0": tells our files from other programs' databases
PATIENCE = 120.0
"""Seconds that one may wait for others before it is an error; a write takes milliseconds, an export seconds."""

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
    PRIMARY KEY (tenant, number, ordinal)
) STRICT, WITHOUT ROWID;
CREATE INDEX version_of ON version (tenant, owner);
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


def open_file(path: str | Path, *, power_safe: bool) -> sqlite3.Connection:
    """Open or make a file of skill graphs; `:memory:` is a file that nobody else sees."""
    try:
        connection = sqlite3.connect(path, timeout=PATIENCE, check_same_thread=False, isolation_level=None)
    except sqlite3.Error as error:
        raise StoreRefusedError(f"{path} can't be opened: {error}", fix="choose a path in a folder of yours") from None
    try:
        patiently(lambda: _prepare(connection, path))
        patiently(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchall())
        connection.execute(f"PRAGMA synchronous = {'FULL' if power_safe else 'NORMAL'}")
        connection.execute("PRAGMA temp_store = MEMORY")  # what is forgotten must not be left in a temporary file
        connection.execute("PRAGMA cache_size = -16000")
        # A log of up to 32 MB is folded in at once: folding waits for the disk, and ten small folds wait ten times.
        connection.execute("PRAGMA wal_autocheckpoint = 8000")
    except sqlite3.DatabaseError as error:
        connection.close()
        raise StoreRefusedError(f"{path} is no file of skill graphs: {error}", fix="choose another path") from None
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection, *, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """All of it or nothing. An immediate one is a writer's: it waits for the one before it."""
    patiently(lambda: connection.execute(begin))
    try:
        yield
        patiently(lambda: connection.execute("COMMIT"))
    except BaseException as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if isinstance(error, sqlite3.OperationalError):
            raise StorageError(f"the disk refused: {error}", fix="free some space, then try again") from error
        raise


def patiently(call: Callable[[], Answer]) -> Answer:
    """Call again while somebody else holds the file.

    SQLite waits by itself, but not in every case: turning the log on, taking over a log whose writer was killed, and
    reading while the last one closes the file are refused at once.
    """
    until, pause = time.monotonic() + PATIENCE, 0.001
    while True:
        try:
            return call()
        except sqlite3.OperationalError as error:
            if not any(word in str(error) for word in ("locked", "busy", "locking protocol")):
                raise
            if time.monotonic() > until:
                raise StoreBusyError(
                    f"somebody else has held the file for {PATIENCE:.0f} seconds",
                    fix="look for a process that hangs with the file open, end it and try again",
                ) from error
        time.sleep(pause)
        pause = min(2 * pause, 0.1)


def _prepare(connection: sqlite3.Connection, path: str | Path) -> None:
    """Check whose file it is, and make the tables where it is new; several processes may come at once."""
    if _pragma(connection, "application_id") != APPLICATION:
        # Looked at again once nobody else can write: another process may be making the same new file right now.
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
    if version > VERSION:
        raise StoreRefusedError(
            f"{path} was written by a newer agentfw (format {version}, this one reads {VERSION})",
            fix="pip install --upgrade agentfw",
        )


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])
