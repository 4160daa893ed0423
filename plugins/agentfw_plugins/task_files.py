"""Tasks in a file, one JSON object per line, which several worlds have.

    rows = read_tasks("tasks-{split}.jsonl", "train")
    tasks = tasks_of(rows, 8, seed=7, split="train")

Keys with a meaning for all of them are `user` (whose task it is) and `query` (what is asked, where several users have
the same task).
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

TASKS_SETTING = (
    "File of tasks, one JSON object per line. {split} in its name stands for the split: a training learns from train "
    "and is evaluated on validation, and a run plays test."
)
"""How the setting is described, wherever it is one."""
SHARES = ("train",) * 8 + ("validation", "test")  # the splits of ten tasks in a row, where one file has all of them

Row = dict[str, Any]


def tasks_of(rows: Sequence[Row], count: int, seed: int, split: str) -> list[Task]:
    """The tasks of the first `count` rows of a split."""
    seeds = Seeds(seed).child(split)
    told = ({key: value for key, value in row.items() if value is not None} for row in rows[:count])
    whose = [(str(row.get("user", "user")), str(row.get("query", ""))) for row in told]
    return [
        Task(index, seeds.integer("task", index), user=user, split=split, query=query)
        for index, (user, query) in enumerate(whose)
    ]


def read_tasks(file: str, split: str, *, held_out: bool = False) -> Sequence[Row]:
    """The tasks of a split.

    A file without {split} is for all splits. With `held_out`, two of ten are kept from the training if there are ten.
    """
    path = Path(file.replace("{split}", split))
    try:
        rows = _parsed(path, path.stat().st_mtime_ns)
        if not held_out or "{split}" in file or len(rows) < len(SHARES):
            return rows
        return [row for number, row in enumerate(rows) if SHARES[number % len(SHARES)] == split]
    except UnicodeDecodeError:
        raise SettingsError(f"environment.tasks: {path} is not UTF-8 text", fix="save the file as UTF-8") from None
    except OSError as error:
        fix = "set it to a file with one task per line"
        there = [other for other in ("validation", "test", "train") if Path(file.replace("{split}", other)).is_file()]
        if there:
            fix = f"write that file, or use another split that has one: in a run --set split={there[0]}"
            fix += "" if there[0] == "train" else f", in a training --set evaluation.split={there[0]}"
        raise SettingsError(
            f"environment.tasks: can't read {path}, the tasks of the split {split}: {error.strerror}", fix=fix
        ) from None


@lru_cache(maxsize=8)
def _parsed(path: Path, changed: int) -> Sequence[Row]:
    rows: list[Row] = []
    # `splitlines` would also end a line at the separators of Unicode, which JSON leaves in a text.
    for number, line in enumerate(path.read_text("utf-8-sig").split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise SettingsError(f"{path}, line {number}, is no JSON object", fix="write one task per line")
        rows.append(row)
    if not rows:
        raise SettingsError(f"environment.tasks: {path} has no tasks", fix="write one JSON object per line")
    return tuple(rows)
