"""Charts and a table of a training's updates, for its report.

These metrics come from rollouts, while the policy changes. Evaluations show how good the policy is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...report import Canvas, Series, line_chart, short
from ...report.html import Cell, Number
from ..records.figures import flat

__all__ = ["clipping_note", "phases_table", "update_charts", "updates_table"]

_CHARTS = (
    ("Reward of the rollouts by update", "reward", {"reward": "reward"}),
    ("KL divergence from the untrained policy", "KL", {"learner/kl": "KL"}),
    ("Entropy by update", "entropy", {"learner/entropy": "entropy"}),
    (
        "Sampler against trainer by update",
        "mean difference of logprobs",
        {"learner/mismatch": "rollouts", "served/probe_mismatch": "probe"},
    ),
    ("Groups by update", "groups", {"groups": "played", "groups_learned": "learned from"}),
    ("Length of answers by update", "tokens", {"answer_tokens": "mean", "answer_tokens_most": "longest"}),
    ("Share by update", "share", {"cut_off": "answers cut off", "without_signal": "groups without signal"}),
    ("Gradient norm by update", "norm", {"learner/gradient_norm": "before clipping"}),
    ("Importance ratio by update", "ratio", {"learner/ratio": "mean", "learner/ratio_largest": "largest"}),
)
"""Title, y label and names of the metrics of each chart. A chart without any of its metrics is omitted."""
_PHASES = {
    "play": "playing",
    "learn": "learning",
    "publish": "publishing",
    "evaluate": "evaluating",
    "wait": "waiting for rollouts",
}
_COLUMNS = {
    "reward": "reward",
    "turns": "turns",
    "tokens": "tokens",
    "answer_tokens": "answer tokens",
    "cut_off": "cut off",
    "groups": "groups",
    "groups_alike": "groups alike",
    "groups_learned": "groups learned",
    "learner/gradient_norm": "gradient",
    "learner/ratio": "ratio",
    "learner/clipped": "clipped",
    "learner/kl": "KL",
    "learner/entropy": "entropy",
    "served/probe_mismatch": "mismatch",
    "learner/importance_corrected": "corrected",
    "speed/tokens_per_second": "tokens/s",
    "learner/peak_memory_mb": "peak MB",
    "seconds/play": "s playing",
    "seconds/learn": "s learning",
}


def update_charts(lines: Sequence[Mapping[str, Any]], widths: tuple[float, float]) -> Iterator[tuple[Canvas, Canvas]]:
    """Each chart in two widths."""
    rows = [flat(line) for line in lines]
    updates = [float(line["update"]) for line in lines]
    for title, label, names in _CHARTS:
        series = [
            Series(words, [row.get(name, math.nan) for row in rows], x=updates)
            for name, words in names.items()
            if any(name in row for row in rows)
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
    known = {name: words for name, words in _COLUMNS.items() if any(name in row for row in rows)}
    return ["update", "version", *known.values()], [
        [int(line["update"]), str(line["version"]), *(short(row.get(name, math.nan)) for name in known)]
        for line, row in zip(lines, rows, strict=True)
    ]
