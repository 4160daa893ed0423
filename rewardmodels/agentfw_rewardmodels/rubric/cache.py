"""Stores judgements on disk, so that the same question to the same judge is asked only once.

    >>> with JudgementCache(":memory:") as cache:
    ...     cache.put("3f2a", "tea-judge", [Mark(0.5, "lukewarm")])
    ...     cache.get("3f2a", 1), cache.get("3f2a", 2)
    ((Mark(score=0.5, why='lukewarm'),), None)

Only scores and reasons are stored, under a digest of the question. A damaged entry counts as missing.
"""

from __future__ import annotations

import json
import sqlite3
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from agentfw_rewardmodels.errors import FileRefusedError, StorageError
from agentfw_rewardmodels.private_file import make_private
from agentfw_rewardmodels.rubric.marks import Mark

__all__ = ["JudgementCache"]

_SCHEMA = "CREATE TABLE judgement (question TEXT PRIMARY KEY, judge TEXT NOT NULL, marks TEXT NOT NULL) STRICT"
_VERSION = 1
_APPLICATION = 0x4A444730  # "JDG0": marks our files


class JudgementCache:
    """A file of judgements. `:memory:` keeps them as long as this process. Safe for threads and processes."""

    def __init__(self, path: str | Path) -> None:
        self._lock = threading.Lock()
        make_private(path)
        try:
            self._connection = sqlite3.connect(path, timeout=30, check_same_thread=False, isolation_level=None)
        except sqlite3.Error as error:
            raise StorageError(f"{path} can't be opened: {error}", fix="choose another file for the cache") from None
        try:
            self._prepare(path)
        except sqlite3.OperationalError as error:
            self._connection.close()
            raise StorageError(f"{path} can't be used: {error}", fix="choose another file for the cache") from None
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise _refused(f"{path} is not a file of judgements: {error}") from None
        except FileRefusedError:
            self._connection.close()
            raise

    def get(self, question: str, count: int) -> tuple[Mark, ...] | None:
        """Return the marks of a question, if they are stored and there are `count` of them."""
        with self._lock:
            row = self._connection.execute("SELECT marks FROM judgement WHERE question = ?", (question,)).fetchone()
        try:
            marks = tuple(Mark(float(score), str(why)) for score, why in json.loads(row[0]))
        except (TypeError, ValueError):
            return None
        return marks if len(marks) == count and all(0 <= mark.score <= 1 for mark in marks) else None

    def put(self, question: str, judge: str, marks: Sequence[Mark]) -> None:
        """Store the marks of a question. They are on disk when this returns."""
        text = json.dumps([[mark.score, mark.why] for mark in marks])
        with self._lock:
            self._connection.execute("INSERT OR REPLACE INTO judgement VALUES (?, ?, ?)", (question, judge, text))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> JudgementCache:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _prepare(self, path: str | Path) -> None:
        """Check whose file it is, and create the table in a new one. Several processes may do so at once."""
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        application, version = (run(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        if application == 0 and not run("SELECT count(*) FROM sqlite_schema").fetchone()[0]:
            run(_SCHEMA)
            run(f"PRAGMA application_id = {_APPLICATION}")
            run(f"PRAGMA user_version = {_VERSION}")
            application, version = _APPLICATION, _VERSION
        run("COMMIT")
        if application != _APPLICATION:
            raise _refused(f"{path} is a database of another program")
        if version > _VERSION:
            raise _refused(f"{path} was written by a newer agentfw (format {version}, this version reads {_VERSION})")
        self._write_ahead()
        run("PRAGMA synchronous = FULL")

    def _write_ahead(self) -> None:
        """Turn on the write-ahead log. SQLite's timeout doesn't apply here, so wait for other processes."""
        for pause in range(100):
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if pause == 99 or not ("locked" in str(error) or "busy" in str(error)):
                    raise
                time.sleep(0.01 * (pause + 1))


def _refused(message: str) -> FileRefusedError:
    return FileRefusedError(message, fix="choose another file for the cache; this one is unchanged")
