"""The runs of a folder, and an index of them: an SQLite file beside them, which can be deleted at any time.

A class derived from `RunIndex` says what is kept, as `agentfw view` does for episodes.

    newest_first(Path("runs"))     # ["2026-11-22-inbox-7f3a19c4", "2026-11-21-calendar-9e17a03b"]
"""

from __future__ import annotations

import json
import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from .journal import make_private

_RUNS = """
CREATE TABLE IF NOT EXISTS runs (
    id INTEGER PRIMARY KEY, folder TEXT UNIQUE, name TEXT, began TEXT,
    changed INTEGER DEFAULT 0, about TEXT DEFAULT '{}'
);
"""
"""`changed` and `about` are what a derived index has read of run.json, and when."""


class RunIndex:
    """The index of one folder."""

    file: ClassVar[str] = ".index.sqlite"
    tables: ClassVar[str] = ""
    """SQL that makes the tables of a derived index."""
    version: ClassVar[int] = 0
    """Version of these tables. An index with another version is made again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._path: Path | None = None
        self._making = threading.Lock()

    @property
    def path(self) -> Path:
        """The file, made when it is first needed: beside the runs, or temporary if that folder can't be written."""
        with self._making:
            if self._path is None:
                try:
                    self._path = self.make(self.root / self.file)
                except (OSError, sqlite3.OperationalError):
                    self._temporary = tempfile.TemporaryDirectory(prefix="agentfw-index-")
                    self._path = self.make(Path(self._temporary.name) / self.file)
            return self._path

    def connect(self) -> sqlite3.Connection:
        """A connection that commits only what is done in `writing`."""
        rows = sqlite3.connect(self.path, timeout=10, isolation_level=None)
        rows.row_factory = sqlite3.Row
        return rows

    def make(self, path: Path) -> Path:
        """Make the index, also in place of one of another version or a damaged one."""
        for attempt in (1, 2):
            make_private(path)
            try:
                with closing(sqlite3.connect(path, timeout=10)) as rows:
                    [version] = rows.execute("PRAGMA user_version").fetchone()
                    names = {name for (name,) in rows.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
                    if "runs" in names and self.version in (0, version):
                        rows.execute("SELECT count(*) FROM runs").fetchone()
                        return path
                    if not version and names <= {"runs"}:
                        rows.execute("PRAGMA journal_mode = WAL")
                        rows.executescript(
                            f"BEGIN IMMEDIATE; {_RUNS} {self.tables} PRAGMA user_version = {self.version}; COMMIT;"
                        )
                        return path
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:
                if attempt == 2:
                    raise
            for suffix in ("", "-wal", "-shm"):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
        return path


@contextmanager
def writing(rows: sqlite3.Connection) -> Iterator[None]:
    """One transaction."""
    rows.execute("BEGIN IMMEDIATE")
    try:
        yield
    except BaseException:
        rows.execute("ROLLBACK")
        raise
    rows.execute("COMMIT")


def newest_first(root: Path) -> list[str]:
    """The names of all folders that have a run.json. Those that can't be read come last."""
    began: dict[str, float] = {}
    try:
        folders = [entry.name for entry in os.scandir(root) if entry.is_dir()]
    except OSError:
        return []
    for name in folders:
        try:
            about = json.loads((root / name / "run.json").read_bytes())
            began[name] = datetime.fromisoformat(about["created"]).timestamp()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            began[name] = 0.0
    return [name for _, name in sorted(zip(began.values(), began, strict=True), reverse=True)]
