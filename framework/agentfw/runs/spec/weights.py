"""The weights of a run: how several scores are combined into one reward.

Each component of the scores has a schedule, which depends on the round (the curriculum of pearl) or on the training
progress (the stages of proactor).

    >>> weights = {"decision": constant(1.0), "ranking": by_round(0.0, 0.5), "hub": by_round(0.5, 0.0)}
    >>> [round(weights["hub"](Progress(round=t, rounds=4)), 3) for t in (1, 2, 4)]
    [0.375, 0.25, 0.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from ...errors import SettingsError

__all__ = ["Progress", "Schedule", "by_round", "constant", "parse_schedule", "ramp", "stages"]


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress within the episode (rounds) and within the training (updates)."""

    round: int = 0
    rounds: int = 0
    update: int = 0
    updates: int = 0

    @property
    def episode(self) -> float:
        """t/N. 0 if there are no rounds."""
        return self.round / self.rounds if self.rounds else 0.0

    @property
    def training(self) -> float:
        """u/U. 0 outside of a training."""
        return self.update / self.updates if self.updates else 0.0


Schedule = Callable[[Progress], float]
"""A weight that depends on the progress."""


def constant(weight: float) -> Schedule:
    """The same weight from beginning to end."""
    return lambda progress: weight


def by_round(first: float, last: float) -> Schedule:
    """Linear from `first` (t = 0) to `last` (t = N) over the rounds of an episode."""
    return lambda progress: first + (last - first) * progress.episode


def stages(*weights: float) -> Schedule:
    """Equal stages of the training. Three weights change at u = U/3 and 2U/3."""
    if not weights:
        raise SettingsError("stages need at least one weight", fix="write stages:0.8,0.6,0.6")
    return lambda progress: weights[min(int(progress.training * len(weights)), len(weights) - 1)]


def ramp(first: float, last: float, until: float = 1.0) -> Schedule:
    """Linear from `first` to `last`, reached at u/U = `until` and constant from there."""
    if not 0 < until <= 1:
        raise SettingsError(f"a ramp can't end at {until}", fix="use a share of the training above 0 and at most 1")
    return lambda progress: first + (last - first) * min(1.0, progress.training / until)


def parse_schedule(text: str | float) -> Schedule:
    """Parse a schedule: `0.5`, `round:0->0.5`, `stages:0.8,0.6,0.6`, `ramp:0.3`, `ramp:1->0.7`, `ramp:0.3@0.5`.

    A ramp without a first value starts at 0.

    >>> parse_schedule("round:0.5->0")(Progress(round=1, rounds=2))
    0.25
    >>> parse_schedule("ramp:1->0.7@0.5")(Progress(update=1, updates=4))
    0.85
    """
    if isinstance(text, (int, float)):
        return constant(_number(text, text))
    kind, _, rest = text.strip().partition(":")
    if not rest:
        return constant(_number(kind, text))
    if kind == "round":
        first, arrow, last = rest.partition("->")
        if arrow:
            return by_round(_number(first, text), _number(last, text))
    elif kind == "stages":
        return stages(*(_number(part, text) for part in rest.split(",")))
    elif kind == "ramp":
        values, _, until = rest.partition("@")
        first, arrow, last = values.partition("->")
        start, end = (first, last) if arrow else (0.0, values)
        return ramp(_number(start, text), _number(end, text), _number(until or 1.0, text))
    raise SettingsError(
        f'"{text}" is not a weight',
        fix="write a number, round:FIRST->LAST, stages:A,B,C, ramp:LAST or ramp:FIRST->LAST, with @SHARE if needed",
    )


def _number(value: str | float, whole: str | float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise SettingsError(f'"{whole}" is not a weight: "{value}" is not a number', fix="write weights such as 0.5")
    return number
