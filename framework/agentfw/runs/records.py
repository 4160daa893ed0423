"""Episodes and their figures on disk: what a run has one of, and a training one for each update and each evaluation.

The one rule: an episode has at most one line in each of the two journals, and the second only when the first is there.

    records = Records(folder)
    [episode.utility for episode in records.episodes()]
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..episode import Episode
from ..errors import RunFolderError, StorageError
from .journal import Journal, read_journal

__all__ = ["Records"]

_METRICS = (
    *("episode", "task", "user", "reward", "utility", "outcome", "course"),
    *("turns", "tokens", "failures", "finish", "scores"),
)
"""What every line of metrics.jsonl has."""


class Records:
    """The two journals of one folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def journal(self, name: str) -> Journal:
        return Journal.open(self.path / f"{name}.jsonl")

    def episodes(self) -> Iterator[Episode]:
        """What is on disk, in the order in which it was written."""
        path = self.path / "episodes.jsonl"
        for number, record in enumerate(read_journal(path), start=1):
            try:
                yield Episode.from_record(record)
            except StorageError as error:
                raise RunFolderError(f"{path}, line {number}: {error.message}", fix=error.fix) from error

    def metrics(self) -> list[dict[str, Any]]:
        """The figures of each episode, in the order of the tasks."""
        return sorted(self.concluded(), key=lambda record: [int(part) for part in record["episode"].split("-")])

    def concluded(self) -> Iterator[dict[str, Any]]:
        """The figures of each episode, in the order in which the episodes were scored and learned from."""
        path = self.path / "metrics.jsonl"
        for number, record in enumerate(read_journal(path), start=1):
            lacking = [key for key in _METRICS if key not in record]
            if lacking or not re.fullmatch(r"\d+-\d+", str(record["episode"])):
                what = f"has no {', '.join(lacking)}" if lacking else "names no episode"
                raise RunFolderError(f"{path}, line {number}, {what}", fix="restore the file from a copy")
            yield record
