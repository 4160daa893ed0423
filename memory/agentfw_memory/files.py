"""Files of ours: private to their owner, and SQLite files that several processes may read and write at once.

A SQLite file of another program or version is left untouched. Locked files are waited for.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from .errors import StorageError, StoreBusyError, StoreRefusedError

Answer = TypeVar("Answer")

LOCK_TIMEOUT = 120.0
"""Seconds to wait for other processes before raising StoreBusyError. A write takes milliseconds, an export seconds."""
_LOCKED = ("locked", "busy", "locking protocol")  # words in the messages of SQLite while another process holds a file


def make_private(path: str | Path) -> None:
    """Create an empty file that only its owner can read, if there is none. SQLite's other files get its mode. If it
    can't be created, whoever opens it next says why. A file that exists isn't opened: closing one that SQLite has open
    in this process would drop its locks."""
    if str(path) != ":memory:":
        with suppress(OSError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o600))


def open_sqlite(
    path: str | Path, *, what: str, application: int, version: int, tables: Iterable[str]
) -> sqlite3.Connection:
    """Open a file of ours, or create it with these tables. `:memory:` is a private one in memory. It has a write-ahead
    log, so that readers and one writer don't block each other."""
    if not str(path):  # which SQLite takes for a file that goes when it is closed
        raise StoreRefusedError("the path of the store is empty", fix="pass a path")
    make_private(path)
    try:
        connection = sqlite3.connect(path, timeout=LOCK_TIMEOUT, check_same_thread=False, isolation_level=None)
    except sqlite3.Error as error:
        raise StoreRefusedError(f"{path} can't be opened: {error}", fix="choose a path in a writable folder") from None

    def pragma(name: str) -> int:
        return int(connection.execute(f"PRAGMA {name}").fetchone()[0])

    def prepare() -> None:
        """Check whose file it is, and create the tables in a new one. Several processes may do so at once."""
        if pragma("application_id") != application:
            # Check again under the write lock: another process may be creating the same file.
            connection.execute("BEGIN IMMEDIATE")
            try:
                known = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
                if pragma("application_id") == 0 and known == 0:
                    for sql in tables:
                        connection.execute(sql)
                    connection.execute(f"PRAGMA application_id = {application}")
                    connection.execute(f"PRAGMA user_version = {version}")
            finally:
                connection.execute("COMMIT")
            if pragma("application_id") != application:
                raise StoreRefusedError(f"{path} is a database of another program", fix="choose another path")
        own = "SELECT type || ' ' || name FROM sqlite_schema WHERE type IN ('trigger', 'view')"
        if foreign := connection.execute(own).fetchone():
            problem = f"{path} has the {foreign[0]}, which isn't ours and would change what is stored"
            raise StoreRefusedError(problem, fix="use a copy that nobody has changed, or choose another path")
        if (present := pragma("user_version")) != version:
            raise StoreRefusedError(
                f"{path} was written by another version of agentfw (format {present}, this version reads {version})",
                fix="pip install --upgrade agentfw, or import an export of that version into a new file",
            )

    try:
        connection.execute("PRAGMA trusted_schema = OFF")  # no function of ours in a default, an index or a check
        waited_for(prepare)
        waited_for(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchall())
    except sqlite3.DatabaseError as error:
        connection.close()
        of_disk = _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR)
        if of_disk and (failed := disk_error(path, error)):
            raise failed from error
        raise StoreRefusedError(f"{path} is not a file of {what}: {error}", fix="choose another path") from None
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: sqlite3.Connection, *, begin: str = "BEGIN IMMEDIATE") -> Iterator[None]:
    """Commit at the end of the block, or roll back on an exception. BEGIN IMMEDIATE waits for other writers."""
    waited_for(lambda: connection.execute(begin))
    try:
        yield
        waited_for(lambda: connection.execute("COMMIT"))
    except BaseException as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        if isinstance(error, sqlite3.OperationalError):
            raise StorageError(f"the disk refused a write: {error}", fix="free some space, then try again") from error
        raise


def waited_for(call: Callable[[], Answer]) -> Answer:
    """Call a function, and repeat it while another process holds the file. SQLite's own timeout doesn't cover every
    case: it gives up at once when turning on the log, when recovering the log of a killed writer, and when reading
    while the last connection closes."""
    until, pause = 0.0, 0.001
    while True:
        try:
            return call()
        except sqlite3.OperationalError as error:
            if not is_locked(error):
                raise
            until = until or time.monotonic() + LOCK_TIMEOUT
            if time.monotonic() > until:
                raise StoreBusyError(
                    f"another process has held the file for {LOCK_TIMEOUT:.0f} seconds",
                    fix="end the process that hangs with the file open, then try again",
                ) from error
        time.sleep(pause)
        pause = min(2 * pause, 0.1)


def is_locked(error: sqlite3.DatabaseError) -> bool:
    return isinstance(error, sqlite3.OperationalError) and any(word in str(error) for word in _LOCKED)


def disk_error(path: str | Path, error: sqlite3.DatabaseError) -> StorageError | None:
    """Return what the disk or a damaged file caused as an error of ours, or None for any other error."""
    if _code(error) in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return _damaged(path, error)
    if _code(error) in (sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN):
        return StorageError(f"the disk failed: {error}", fix="mend it or free some space, then try again")
    return None


def _damaged(path: str | Path, error: sqlite3.Error) -> StorageError:
    return StorageError(
        f"{path} is damaged: {error}",
        fix=f"restore a backup or import an export; `sqlite3 {path} .dump` prints the rows that can still be read",
    )


def _code(error: sqlite3.Error) -> int:
    """The error code without the part that says where."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
