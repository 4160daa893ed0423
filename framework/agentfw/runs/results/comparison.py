"""Compares runs: each metric with its interval, and the paired difference to the first run.

Where two runs played the same tasks, differences are taken task by task, because most of the variance is between tasks.
Tasks are the same if their environment, user, seed, index and sample are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...errors import UnknownNameError
from ...report.statistics import Interval, PairedDifference, bootstrap, paired_difference
from ..records.figure_table import better, in_order
from ..records.folder import RunFolder
from ..records.summary import columns, leading


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """One metric of several runs."""

    figure: str
    runs: tuple[str, ...]
    intervals: tuple[Interval, ...]
    differences: tuple[PairedDifference | None, ...]
    """Difference of each run to the first. None for the first itself, and for runs that share no task with it."""
    better: str
    """Whether `higher` or `lower` values are better. Empty where that isn't known."""

    def to_record(self) -> dict[str, Any]:
        rows = []
        for run, interval, difference in zip(self.runs, self.intervals, self.differences, strict=True):
            row = {"run": run, **_bounds(interval)}
            if difference is not None:
                gap = difference.difference
                row["difference"] = {**_bounds(gap), "p": difference.p_value, "tasks": gap.count}
            rows.append(row)
        return {"figure": self.figure, "better": self.better or None, "runs": rows}


def compare_runs(
    folders: Sequence[RunFolder], figures: Sequence[str] = (), evaluations: Sequence[int | None] = ()
) -> list[ComparedFigure]:
    """The metrics that all of the runs have, the headline first.

    `evaluations` has, for each run, the evaluation to take, by the updates before it. None takes the whole run.
    """
    of_each = evaluations or [None] * len(folders)
    tables = []
    for folder, update in zip(folders, of_each, strict=True):
        table = _tables(folder, (folder.result() if update is None else folder.evaluation(update)).metrics())
        # Of a whole run, the headline also after each stage, as `error after 5`.
        stages = folder.stages() if update is None else {}
        for updates, records in stages.items() if len(stages) > 1 else ():
            stage = _tables(folder, records)
            if folder.headline in stage:
                table[f"{folder.headline} after {updates}"] = stage[folder.headline]
        if not table:
            raise folder.without_episodes()
        tables.append(table)
    common = [name for name in tables[0] if all(name in table for table in tables)]
    for name in figures:
        if name not in common:
            raise UnknownNameError("figure", name, common)
    chosen = list(figures) or in_order(common, folders[0].headline)
    names = tuple(
        folder.id if update is None else f"{folder.id}, evaluation {update}"
        for folder, update in zip(folders, of_each, strict=True)
    )
    compared = []
    for name in chosen:
        first, *others = [table[name] for table in tables]
        differences = [paired_difference(other, first) if first.keys() & other.keys() else None for other in others]
        intervals = tuple(bootstrap(list(some.values())) for some in (first, *others))
        compared.append(ComparedFigure(name, names, intervals, (None, *differences), better(name, folders[0])))
    return compared


def change(folder: RunFolder) -> PairedDifference | None:
    """The change of the headline from the first to the last evaluation, task by task. None with fewer than two."""
    stages = folder.stages()
    if len(stages) < 2:
        return None
    first, last = (_tables(folder, stages[number]) for number in (min(stages), max(stages)))
    name = leading(first.keys() & last.keys(), folder.headline)
    return paired_difference(last[name], first[name])


def _tables(folder: RunFolder, records: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Each metric by task. Tasks where it was not measured are omitted."""
    # Tasks with the same seed in two environments are different tasks.
    tasks = [f"{folder.about['spec']['environment']['name']}/{record['task']}" for record in records]
    return {
        name: {task: value for task, value in zip(tasks, values, strict=True) if not math.isnan(value)}
        for name, values in columns(records).items()
    }


def _bounds(interval: Interval) -> dict[str, Any]:
    """Plain JSON values. An unknown bound is null."""
    low, high = (value if math.isfinite(value) else None for value in (interval.low, interval.high))
    return {"mean": interval.estimate, "low": low, "high": high}
