"""The figures of updates and evaluations: as they are written down, and as trackers are told them.

The one rule: a figure has one name wherever it is shown.

    >>> flat({"update": 3, "rollouts": {"reward": 0.5}, "learner": {"kl": 0.1}, "seconds": {"play": 2.0}})
    {'reward': 0.5, 'learner/kl': 0.1, 'seconds/play': 2.0}
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import PluginError, StorageError
from ..runs.summary import columns

__all__ = ["finite", "flat", "means", "size_of", "sync"]


def means(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The mean of every figure, without an interval: rollouts of a policy in the making are no result."""
    known = {name: [value for value in values if not math.isnan(value)] for name, values in columns(records).items()}
    return {name: math.fsum(values) / len(values) for name, values in known.items()}


def flat(line: Mapping[str, Any]) -> dict[str, float]:
    """A line of updates.jsonl as names with numbers; those of the rollouts have no prefix."""
    return {
        name if part == "rollouts" else f"{part}/{name}": value
        for part, some in line.items()
        if isinstance(some, Mapping)
        for name, value in some.items()
    }


def finite(metrics: Mapping[str, float], who: str) -> dict[str, float]:
    """What a plugin has measured; an error where that is no number, because then its weights are none any more."""
    for name, value in metrics.items():
        if not math.isfinite(value):
            raise PluginError(
                f"{who} has measured {name} as {value}",
                fix="a step that was too long does that: lower the learning rate, and go on from the update before",
            )
    return dict(metrics)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files in a folder."""
    return sum(file.stat().st_size for file in _files(path))


def sync(path: Path) -> None:
    """Have a version on disk before anything says that it is there."""
    for file in _files(path):
        try:
            with file.open("r+b") as handle:
                os.fsync(handle.fileno())
        except OSError as error:
            raise StorageError(
                f"can't be sure that {file} is on disk: {error.strerror or error}", fix="make room on the disk"
            ) from error


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
