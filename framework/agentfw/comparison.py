"""Runs side by side: each figure with its interval, and the paired difference to the first run.

The one rule: a difference is taken task by task where two runs played the same tasks, because most of what varies is the
task. Tasks are the same when their seed, user and sample are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import UnknownNameError, UsageError
from .run_folder import RunFolder
from .statistics import Interval, PairedDifference, bootstrap, paired_difference
from .summary import figures_of

__all__ = ["Row", "compare_runs"]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of several runs."""

    figure: str
    runs: tuple[str, ...]
    intervals: tuple[Interval, ...]
    differences: tuple[PairedDifference | None, ...]
    """Each run's difference to the first; None for the first itself, and where two runs share no task."""

    def to_record(self) -> dict[str, Any]:
        rows = []
        for run, interval, difference in zip(self.runs, self.intervals, self.differences, strict=True):
            row: dict[str, Any] = {"run": run, "mean": interval.estimate, "low": interval.low, "high": interval.high}
            if difference is not None:
                gap = difference.difference
                row["difference"] = {"mean": gap.estimate, "low": gap.low, "high": gap.high, "p": difference.p_value}
            rows.append(row)
        return {"figure": self.figure, "runs": rows}


def compare_runs(folders: Sequence[RunFolder], figures: Sequence[str] = ()) -> list[Row]:
    """The figures that all of the runs have, the headline first."""
    tables = [_by_task(folder) for folder in folders]
    for folder, table in zip(folders, tables, strict=True):
        if not table:
            raise UsageError(f"{folder.id} has no finished episode yet", mend=f"agentfw runs resume {folder.id}")
    common = [name for name in tables[0] if all(name in table for table in tables)]
    for name in figures:
        if name not in common:
            raise UnknownNameError("figure", name, common)
    headline = str(folders[0].about.get("headline", "utility"))
    chosen = list(figures) or sorted(common, key=lambda name: (name != headline, name not in ("reward", "utility")))
    return [_row(name, folders, [table[name] for table in tables]) for name in chosen]


def _row(name: str, folders: Sequence[RunFolder], values: Sequence[Mapping[str, float]]) -> Row:
    differences: list[PairedDifference | None] = [None]
    for other in values[1:]:
        shared = values[0].keys() & other.keys()
        differences.append(paired_difference(other, values[0]) if shared else None)
    return Row(
        name,
        tuple(folder.id for folder in folders),
        tuple(bootstrap(list(some.values())) for some in values),
        tuple(differences),
    )


def _by_task(folder: RunFolder) -> dict[str, dict[str, float]]:
    """Each figure by task."""
    found: dict[str, dict[str, float]] = {}
    for record in folder.metrics():
        for name, value in figures_of(record).items():
            found.setdefault(name, {})[str(record["task"])] = value
    return found
