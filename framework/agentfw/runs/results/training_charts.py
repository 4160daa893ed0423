"""Charts and a table of a training's updates, for its report.

These metrics come from rollouts, while the policy changes. Evaluations show how good the policy is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...report import Canvas, Series, line_chart, short
from ...report.html import Cell, Number
from ..records.figure_table import CHARTS, UPDATE_FIGURES
from ..records.figures import flat

__all__ = ["clipping_note", "phases_table", "update_charts", "updates_table"]

_PHASES = {
    "play": "playing",
    "learn": "learning",
    "publish": "publishing",
    "evaluate": "evaluating",
    "wait": "waiting for rollouts",
}


def update_charts(lines: Sequence[Mapping[str, Any]], widths: tuple[float, float]) -> Iterator[tuple[Canvas, Canvas]]:
    """Each chart in two widths."""
    rows = [flat(line) for line in lines]
    updates = [float(line["update"]) for line in lines]
    for title, label in CHARTS.items():
        series = [
            Series(figure.line, [row.get(name, math.nan) for row in rows], x=updates)
            for name, figure in UPDATE_FIGURES.items()
            if figure.chart == title and any(name in row for row in rows)
        ]
        if series and len(lines) > 1:
            wide, narrow = (
                line_chart(series, title=title, x_label="update", y_label=label, width=width, height=260)
                for width in widths
            )
            yield wide, narrow


def phases_table(lines: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Cell]]]:
    """Where the time went: the headings and rows of a table of all updates' seconds by phase."""
    rows = [flat(line) for line in lines]
    phases = [name for name in _PHASES if name != "wait" or any("seconds/wait" in row for row in rows)]
    seconds = {name: sum(row.get(f"seconds/{name}", 0.0) for row in rows) for name in phases}
    whole = sum(seconds.values()) or 1.0
    return ["phase", "seconds", "share"], [
        [_PHASES[name], short(value), Number(value, f"{value / whole:.0%}")] for name, value in seconds.items()
    ]


def clipping_note(lines: Sequence[Mapping[str, Any]]) -> str:
    """A sentence where every update had a single step, in which no clipping setting has an effect."""
    known = [line["learner"]["on_policy"] for line in lines if "on_policy" in line["learner"]]
    return "On policy: no clipping took part." if known and all(known) else ""


def updates_table(lines: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[Cell]]]:
    """The headings and rows of the table of updates."""
    rows = [flat(line) for line in lines]
    known = [one for name, one in UPDATE_FIGURES.items() if one.listed and any(name in row for row in rows)]
    return ["update", "version", *(one.title for one in known)], [
        [int(line["update"]), str(line["version"]), *(short(row.get(one.name, math.nan)) for one in known)]
        for line, row in zip(lines, rows, strict=True)
    ]
