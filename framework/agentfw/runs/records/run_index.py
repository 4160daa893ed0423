"""The names of the runs below a folder, the newest first.

When a run began is in its run.json. So that a folder of thousands of runs needn't be read each time, the answer is kept
beside them in a small SQLite file, which can be deleted at any time.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from datetime import datetime
from pathlib import Path

__all__ = ["INDEX", "newest_first"]

INDEX = ".index.sqlite"
_WORTH_IT = 500
"""Number of runs that are read faster than anybody notices."""

_Known = tuple[int, float | None]
"""When the folder changed, in nanoseconds, and when its run began. None if it isn't a run."""


def newest_first(root: Path) -> list[str]:
    """The names of all folders that have a run.json. Those that can't be read come last."""
    try:
        folders = {entry.name for entry in os.scandir(root) if entry.is_dir()}
    except OSError:
        return []
    known = _load(root / INDEX)
    began: dict[str, float] = {}
    changed: dict[str, _Known] = {}
    for name in folders:
        modified, moment = known.get(name, (-1, None))
        # A run begins only once. What was no run, or couldn't be read, is tried again when its folder has changed.
        if not moment and (now := _modified(root / name)) != modified:
            modified, moment = changed[name] = (now, _began(root / name / "run.json"))
        if moment is not None:
            began[name] = moment
    gone = known.keys() - folders
    if len(folders) >= _WORTH_IT and (changed or gone):
        _save(root / INDEX, changed, gone)
    return [name for _, name in sorted(zip(began.values(), began, strict=True), reverse=True)]


def _modified(folder: Path) -> int:
    """When a folder changed, or 0 if it is gone meanwhile."""
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0


def _began(file: Path) -> float | None:
    """When a run began, 0 if that can't be read, or None if there is no run."""
    try:
        return datetime.fromisoformat(json.loads(file.read_bytes())["created"]).timestamp()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return 0.0


def _load(file: Path) -> dict[str, _Known]:
    """What is kept. Nothing, if there is no index or it is damaged."""
    if not file.exists():
        return {}
    try:
        with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)) as index:
            return {name: (modified, began) for name, modified, began in index.execute("SELECT * FROM runs")}
    except sqlite3.OperationalError:  # another process writes it
        return {}
    except sqlite3.DatabaseError:
        with suppress(OSError):
            file.unlink()
        return {}


def _save(file: Path, changed: Mapping[str, _Known], gone: Iterable[str]) -> None:
    """Keep it where that is possible: the folder may be read-only, or another process may write."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(file)) as index, index:
        index.execute("CREATE TABLE IF NOT EXISTS runs (name TEXT PRIMARY KEY, modified INTEGER, began REAL)")
        index.executemany("DELETE FROM runs WHERE name = ?", [(name,) for name in gone])
        rows = [(name, modified, began) for name, (modified, began) in changed.items()]
        index.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?)", rows)
