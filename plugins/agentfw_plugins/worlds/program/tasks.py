"""The tasks of a program: a file with one JSON object per line.

Keys with a meaning are `user` (whose task it is), `query` (what is asked, where several users have the same task) and
`answer` (what the program's answer is compared with). The program is shown everything but the answer.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentfw import Task
from agentfw.errors import SettingsError
from agentfw.seeds import Seeds

__all__ = ["read_tasks", "shown", "tasks_of"]

Row = dict[str, Any]


def tasks_of(file: str, count: int, seed: int, split: str) -> list[Task]:
    """The first `count` tasks of a split, or fewer."""
    seeds = Seeds(seed).child(split)
    return [
        Task(
            index,
            seeds.integer("task", index),
            user=str(row.get("user", "user")),
            split=split,
            query=str(row.get("query", "")),
        )
        for index, row in enumerate(read_tasks(file, split)[:count])
    ]


def read_tasks(file: str, split: str) -> Sequence[Row]:
    """The tasks of a split."""
    path = Path(file.replace("{split}", split))
    try:
        return _read(path, path.stat().st_mtime_ns)
    except OSError as error:
        raise SettingsError(
            f"environment.tasks: can't read {path}, the tasks of the split {split}: {error.strerror}",
            fix=_other_splits(file) or "set it to a file with one task per line",
        ) from None


def _other_splits(file: str) -> str:
    """How to use a split that has a file."""
    there = [split for split in ("validation", "test", "train") if Path(file.replace("{split}", split)).is_file()]
    if not there:
        return ""
    keys = f"in a run --set split={there[0]}"
    if there[0] != "train":
        keys += f", in a training --set evaluation.split={there[0]}"
    return f"write that file, or use another split that has one: {keys}"


def shown(row: Row) -> Row:
    """What the program is told of its task."""
    return {key: value for key, value in row.items() if key != "answer"}


@lru_cache(maxsize=8)
def _read(path: Path, changed: int) -> Sequence[Row]:
    rows: list[Row] = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise SettingsError(f"{path}, line {number}, is no JSON object", fix="write one task per line")
        rows.append(row)
    return tuple(rows)
