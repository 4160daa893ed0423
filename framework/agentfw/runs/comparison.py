"""Compares runs: each figure with its interval, and the paired difference to the first run.

A difference is taken task by task where two runs played the same tasks, because most of the variance is that of the
tasks. Tasks are the same when their environment, user, seed, index and sample are.

    compare_runs([find_run(root, "7f3a"), find_run(root, "last")])
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import UnknownNameError, UsageError
from ..statistics import Interval, PairedDifference, bootstrap, paired_difference
from .folder import RunFolder
from .summary import columns, in_order, leading

__all__ = ["Row", "change", "compare_runs", "side_by_side"]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure of several runs."""

    figure: str
    runs: tuple[str, ...]
    intervals: tuple[Interval, ...]
    differences: tuple[PairedDifference | None, ...]
    """Each run's difference to the first; None for the first itself, and where two runs share no task."""

    def to_record(self) -> dict[str, Any]:
        return {"figure": self.figure, "runs": self.records("run")}

    def records(self, what: str) -> list[dict[str, Any]]:
        """Plain JSON values of each; `what` says under which key each is named."""
        rows = []
        for run, interval, difference in zip(self.runs, self.intervals, self.differences, strict=True):
            row = {what: run, **_bounds(interval)}
            if difference is not None:
                gap = difference.difference
                row["difference"] = {**_bounds(gap), "p": difference.p_value}
            rows.append(row)
        return rows


def compare_runs(folders: Sequence[RunFolder], figures: Sequence[str] = ()) -> list[Row]:
    """The figures that all of the runs have, the headline first."""
    tables = [_by_task(folder) for folder in folders]
    for folder, table in zip(folders, tables, strict=True):
        if not table:
            raise UsageError(f"{folder.id} has no finished episode yet", fix=f"agentfw runs resume {folder.id}")
    common = [name for name in tables[0] if all(name in table for table in tables)]
    for name in figures:
        if name not in common:
            raise UnknownNameError("figure", name, common)
    chosen = list(figures) or in_order(common, folders[0].headline)
    names = tuple(folder.id for folder in folders)
    return [side_by_side(name, names, [table[name] for table in tables]) for name in chosen]


def change(folder: RunFolder) -> PairedDifference | None:
    """The change of the headline from the first evaluation to the last, task by task; None with less than two."""
    stages = folder.stages()
    if len(stages) < 2:
        return None
    first, last = (_tables(folder, stages[number]) for number in (min(stages), max(stages)))
    name = leading(first.keys() & last.keys(), folder.headline)
    return paired_difference(last[name], first[name])


def side_by_side(figure: str, names: tuple[str, ...], values: Sequence[Mapping[str, float]]) -> Row:
    """One figure of several runs, each with its values by task."""
    differences: list[PairedDifference | None] = [None]
    for other in values[1:]:
        shared = values[0].keys() & other.keys()
        differences.append(paired_difference(other, values[0]) if shared else None)
    return Row(
        figure,
        names,
        tuple(bootstrap(list(some.values())) for some in values),
        tuple(differences),
    )


def _by_task(folder: RunFolder) -> dict[str, dict[str, float]]:
    """Each figure by task, and the headline also after each stage, as `error@5`."""
    tables, stages = _tables(folder, folder.metrics()), folder.stages()
    for updates, records in stages.items() if len(stages) > 1 else ():
        stage = _tables(folder, records)
        if folder.headline in stage:
            tables[f"{folder.headline}@{updates}"] = stage[folder.headline]
    return tables


def _tables(folder: RunFolder, records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Each figure by task; where it was not measured, the task isn't there."""
    # Two environments draw the same seeds, and aren't the same tasks for it.
    tasks = [f"{folder.about['spec']['environment']['name']}/{record['task']}" for record in records]
    return {
        name: {task: value for task, value in zip(tasks, values, strict=True) if not math.isnan(value)}
        for name, values in columns(records).items()
    }


def _bounds(interval: Interval) -> dict[str, Any]:
    """Plain JSON values; a bound that isn't known is null."""
    low, high = (value if math.isfinite(value) else None for value in (interval.low, interval.high))
    return {"mean": interval.estimate, "low": low, "high": high}
