"""What components are given and answer, as JSON values: the form in which it crosses to other processes.

An episode crosses as it is on disk.

    >>> plain(Query("tea", Task(0, 7)))["task"]["seed"]
    7
    >>> READERS["recall"].given[0](plain(Query("tea", Task(0, 7)))) == Query("tea", Task(0, 7))
    True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ...engine import Plain
from ...episode import Episode, Task, Usage
from ...memory import Query, Recollection, Remembered, Saying
from ...request import Action
from ...scores import Score
from ...tool import Tool

__all__ = ["READERS", "AbsentTool", "Readers", "plain"]

Reader = Callable[[Any], Any]


class AbsentTool(NamedTuple):
    """What is known of a tool elsewhere."""

    action: Action
    takes: float
    timeout: float


class Readers(NamedTuple):
    """How a call is read: its arguments where it arrives, and its answer where it was made."""

    given: tuple[Reader, ...]
    answer: Reader


def plain(value: Any) -> Plain:
    """A value of a call as a JSON value."""
    if isinstance(value, (Episode, Recollection)):
        return value.to_record()
    if isinstance(value, Tool):
        return [asdict(value.action), value.takes, value.timeout]
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, Path):
        return str(value.resolve())
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    return [plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def _as_it_is(value: Plain) -> Any:
    return value


def _task(record: Plain) -> Task:
    return Task(**record)


def _query(record: Plain) -> Query:
    return Query(**{**record, "task": _task(record["task"]), "scenarios": tuple(record["scenarios"])})


def _score(record: Plain) -> Score:
    return Score(**{**record, "usage": Usage(**record["usage"])})


def _tool(record: Plain) -> AbsentTool:
    action, takes, timeout = record
    return AbsentTool(Action(**action), takes, timeout)


def _each(read: Reader) -> Reader:
    def read_all(records: Sequence[Plain]) -> list[Any]:
        return [read(record) for record in records]

    return read_all


_IT = _as_it_is
READERS: Mapping[str, Readers] = {
    "open": Readers((Path,), _IT),
    "open_tools": Readers((), _each(_tool)),
    "call_tool": Readers((_IT, _IT, lambda record: record and _task(record)), tuple),
    # Of a memory. A reward model learns from the episode alone.
    "recall": Readers((_query,), _each(lambda record: Recollection(**record))),
    "learn": Readers((Episode.from_record, _IT), _IT),
    "hear": Readers((lambda record: Saying(**record),), _IT),
    "remembered": Readers((_IT,), _each(lambda record: Remembered(**record))),
    "correct": Readers((_IT, _IT, _IT), lambda record: Remembered(**record)),
    "forget_one": Readers((_IT, _IT), _IT),
    "forget": Readers((_IT,), _IT),
    "begin": Readers((_task,), _IT),
    "introduce": Readers((_IT, _IT), _IT),
    "tools": Readers((_task,), _each(_tool)),
    # Of a reward model.
    "score": Readers((_each(Episode.from_record),), _each(_score)),
    "write_learned": Readers((Path,), _IT),
    "close": Readers((), _IT),
}
"""By the name of the call."""
