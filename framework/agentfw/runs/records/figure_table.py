"""The figures of episodes and of updates. Each is declared here, and nowhere else.

All tables, reports, DataFrames and JSON are made from these declarations, so a new figure is one more declaration, and
a test. What an environment measures itself, the outcome of its episodes, comes beside them.

    >>> figures_of({"reward": 0.5, "utility": 1, "outcome": {"error": 0.25}})
    {'reward': 0.5, 'utility': 1.0, 'error': 0.25}
    >>> figure_text("error", 0.25), figure_text("tokens", 1234), figure_text("cost", 0.000123)
    ('0.250', '1,234', '0.000123')
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from ...report.axis import rounded
from .folder import RunFolder

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that every episode has, or those of some policies."""

    name: str
    """Its key in JSON and DataFrames, and what `agentfw compare --figure` calls it."""
    title: str
    of: Callable[[Record], float | None]
    """Computes it from the record of an episode, a line of metrics.jsonl. None where it was not measured."""
    unit: str = ""
    digits: str = ""
    """How a value is written, as in a format string. Default: three decimals."""
    better: Literal["higher", "lower", ""] = ""
    averaged: bool = True
    """Whether its mean over the episodes is a result of the run, with an interval, and compared with other runs."""
    listed: bool = True
    """Whether lists of episodes have it as a column, where any episode has it."""
    meaning: str = ""
    """What it is, in a few words, where its title doesn't say."""

    @property
    def heading(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title


_counted = partial(Figure, digits=",.0f", averaged=False)


def _utility(record: Record) -> float | None:
    """None in a session that nobody has rated, where nothing is measured."""
    return record["utility"] or (None if record.get("unrated") and not record["outcome"] else 0.0)


def _answer_tokens(record: Record) -> float | None:
    """None where either is none, as the tokens of a program are."""
    return record["tokens"] / record["turns"] if record.get("tokens") and record.get("turns") else None


_EPISODE = (
    Figure(
        "reward",
        "reward",
        lambda record: None if record.get("unrated") else float(record["reward"]),
        better="higher",
        meaning="sum of the weighted scores",
    ),
    Figure("utility", "utility", _utility, better="higher", listed=False, meaning="what the episode was worth"),
    _counted("turns", "turns", lambda record: record.get("turns")),
    _counted("calls", "calls", lambda record: record.get("tool_calls")),
    _counted("prompt_tokens", "tokens in", lambda record: record.get("usage", {}).get("prompt"), listed=False),
    _counted("tokens", "tokens", lambda record: record.get("tokens")),
    Figure(
        "answer_tokens",
        "answer length",
        _answer_tokens,
        unit="tokens",
        digits=",.1f",
        meaning="tokens that the policy sampled for an answer, on average",
    ),
    Figure("cost", "cost", lambda record: record.get("usage", {}).get("cost") or None, digits=".4g", averaged=False),
    _counted("failures", "not understood", lambda record: record.get("failures"), listed=False),
    _counted("failed_calls", "failed calls", lambda record: record.get("tool_failures"), listed=False),
    _counted("failed_requests", "failed requests", lambda record: record.get("failed_requests") or None),
)
EPISODE_FIGURES: Mapping[str, Figure] = {figure.name: figure for figure in _EPISODE}


@dataclass(frozen=True, slots=True)
class UpdateFigure:
    name: str  # its key in a line of updates.jsonl that was made flat, and what trackers call it
    title: str
    chart: str = ""  # the chart that it is drawn in, and how its line there is called
    line: str = ""
    listed: bool = True  # whether the table of updates has it as a column
    live: bool = False  # whether it is shown while the training goes on


_LENGTHS, _GROUPS, _SHARES = "Length of answers by update", "Groups by update", "Share by update"
_RATIOS, _MISMATCH = "Importance ratio by update", "Sampler against trainer by update"
CHARTS = {
    "Reward of the rollouts by update": "reward",
    "KL divergence from the untrained policy": "KL",
    "Entropy by update": "entropy",
    _MISMATCH: "mean difference of logprobs",
    _GROUPS: "groups",
    _LENGTHS: "tokens",
    _SHARES: "share",
    "Gradient norm by update": "norm",
    _RATIOS: "ratio",
}
"""The charts of a training in their order, with what their y axis shows."""

_UPDATE = (
    UpdateFigure("reward", "reward", "Reward of the rollouts by update", "reward", live=True),
    UpdateFigure("turns", "turns"),
    UpdateFigure("tokens", "tokens"),
    UpdateFigure("learner/kl", "KL", "KL divergence from the untrained policy", "KL", live=True),
    UpdateFigure("learner/entropy", "entropy", "Entropy by update", "entropy", live=True),
    UpdateFigure("answer_tokens", "answer tokens", _LENGTHS, "mean", live=True),
    UpdateFigure("answer_tokens_most", "longest answer", _LENGTHS, "longest", listed=False),
    UpdateFigure("cut_off", "cut off", _SHARES, "answers cut off", live=True),
    UpdateFigure("without_signal", "without signal", _SHARES, "groups without signal", listed=False, live=True),
    UpdateFigure("groups", "groups", _GROUPS, "played"),
    UpdateFigure("groups_alike", "groups alike"),
    UpdateFigure("groups_learned", "groups learned", _GROUPS, "learned from"),
    UpdateFigure("learner/gradient_norm", "gradient", "Gradient norm by update", "before clipping"),
    UpdateFigure("learner/ratio", "ratio", _RATIOS, "mean"),
    UpdateFigure("learner/ratio_largest", "largest ratio", _RATIOS, "largest", listed=False),
    UpdateFigure("learner/clipped", "clipped"),
    UpdateFigure("learner/mismatch", "mismatch of rollouts", _MISMATCH, "rollouts", listed=False),
    UpdateFigure("served/probe_mismatch", "mismatch", _MISMATCH, "probe", live=True),
    UpdateFigure("learner/importance_corrected", "corrected", live=True),
    UpdateFigure("speed/tokens_per_second", "tokens/s", live=True),
    UpdateFigure("learner/peak_memory_mb", "peak MB", live=True),
    UpdateFigure("seconds/play", "s playing"),
    UpdateFigure("seconds/learn", "s learning"),
)
UPDATE_FIGURES: Mapping[str, UpdateFigure] = {figure.name: figure for figure in _UPDATE}


def figures_of(record: Record, *, averaged: bool = True) -> dict[str, float]:
    """The figures of one episode: those that are averaged, or all, and what the environment measured."""
    declared = {one.name: one.of(record) for one in _EPISODE if one.averaged or not averaged}
    found = {**declared, **record["outcome"]}
    return {name: float(value) for name, value in found.items() if value is not None}


def in_order(names: Iterable[str], headline: str) -> list[str]:
    """Figures in the order of a table: the headline (and `error@5`), reward and utility, the environment's, others."""
    return sorted(
        names,
        key=lambda name: (
            name.replace(" after ", "@").partition("@")[0] != headline,
            name not in ("reward", "utility"),
            name in EPISODE_FIGURES,
        ),
    )


def figure_title(name: str, folder: RunFolder) -> str:
    """The heading of a figure: that of the environment, that of its declaration, or its name."""
    declared = EPISODE_FIGURES.get(name)
    return folder.names.get(name, declared.heading if declared else name)


def figure_text(name: str, value: float) -> str:
    """A value as every table has it."""
    if math.isnan(value):
        return "–"
    digits = EPISODE_FIGURES[name].digits if name in EPISODE_FIGURES else ""
    return format(value, digits) if digits else rounded(value)


def better(name: str, folder: RunFolder) -> Literal["higher", "lower", ""]:
    """Whether higher or lower values are better. Empty where nothing says so."""
    if name.partition(" after ")[0] == folder.headline:
        return "lower" if folder.lower_is_better else "higher"
    declared = EPISODE_FIGURES.get(name)
    return declared.better if declared else ""
