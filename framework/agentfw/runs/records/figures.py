"""The metrics of updates and evaluations, as they are stored and as trackers log them.

A metric has the same name everywhere.

    >>> flat({"update": 3, "rollouts": {"reward": 0.5}, "learner": {"kl": 0.1}, "seconds": {"play": 2.0}})
    {'reward': 0.5, 'learner/kl': 0.1, 'seconds/play': 2.0}
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import PluginError, StorageError
from .summary import columns

__all__ = ["finite", "flat", "means", "size_of", "sync"]


def means(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean of each metric, without an interval, because the policy changes during a training."""
    known = {name: [value for value in values if not math.isnan(value)] for name, values in columns(records).items()}
    return {name: math.fsum(values) / len(values) for name, values in known.items()}


def flat(line: Mapping[str, Any]) -> dict[str, float]:
    """A line of updates.jsonl as names and numbers. Metrics of rollouts have no prefix."""
    return {
        name if part == "rollouts" else f"{part}/{name}": value
        for part, some in line.items()
        if isinstance(some, Mapping)
        for name, value in some.items()
    }


def finite(metrics: Mapping[str, float], who: str) -> dict[str, float]:
    """Check the metrics of a plugin. Raises if one isn't finite, because then the weights aren't finite either."""
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise PluginError(
                f"{who} reported {name} = {value}",
                fix="lower the learning rate and resume: the step was probably too large",
            )
    return dict(metrics)


def size_of(path: Path) -> int:
    """Size in bytes of a file, or of all files in a folder."""
    return sum(file.stat().st_size for file in _files(path))


def sync(path: Path) -> None:
    """Flush a version to disk before it is recorded."""
    for file in _files(path):
        try:
            with file.open("r+b") as handle:
                os.fsync(handle.fileno())
        except OSError as error:
            raise StorageError(
                f"can't flush {file} to disk: {error.strerror or error}", fix="free disk space"
            ) from error


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
