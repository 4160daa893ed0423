"""Reads the figures of systems that are to be ranked: from the folders of runs, or from CSV files."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path

from agentfw.errors import UsageError
from agentfw.report.statistics import mean
from agentfw.runs import RunFolder
from agentfw_papers.timing import Figures

_COLUMNS = tuple(one.name for one in fields(Figures))


def read_systems(sources: Sequence[Path]) -> dict[str, Figures]:
    """The figures of every system in the sources, by name."""
    systems: dict[str, Figures] = {}
    for source in sources:
        for name, row in _rows(source) if source.is_file() else [_run(source)]:
            if name in systems:
                raise UsageError(f'two systems are called "{name}"', fix="rename one of them")
            systems[name] = _figures(name, row, source)
    return systems


def _rows(file: Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as handle:
            for number, row in enumerate(csv.DictReader(handle), start=1):
                yield row.get("name") or f"row {number}", row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"{file} can't be read: {error}", fix="pass a CSV file") from error


def _run(path: Path) -> tuple[str, Mapping[str, float]]:
    """The means of a run. The difference follows from those of AC and Max AC, as in equation 3."""
    folder = RunFolder.open(path)
    records = [record["outcome"] for record in folder.metrics()]
    row = {}
    for column in _COLUMNS:
        values = [float(one[column]) for one in records if one.get(column) is not None]
        if values and column != "difference":
            row[column] = mean(values)
    if row.get("ac"):
        row["difference"] = (row["max_ac"] - row["ac"]) / row["ac"]
    return folder.id, row


def _figures(name: str, row: Mapping[str, str | float], source: Path) -> Figures:
    try:
        return Figures(**{column: float(row[column]) for column in _COLUMNS})
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f'"{name}" of {source} has no usable figure: {error}', fix=f"give it the figures {', '.join(_COLUMNS)}"
        ) from None
