"""Scores, what a reward model says, and how several of them become one reward.

The one rule: a component says what it sees and nothing of weights. Weights belong to the run: each component has a
schedule, and a schedule depends on the round (pearl's curriculum), or on how far training has come (proactor's
stages).

    >>> mix = {"decision": constant(1.0), "ranking": by_round(0.0, 0.5), "hub": by_round(0.5, 0.0)}
    >>> [round(mix["hub"](Progress(round=t, rounds=4)), 3) for t in (1, 2, 4)]
    [0.375, 0.25, 0.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from .errors import SettingsError

if TYPE_CHECKING:
    from .episode import Episode

__all__ = [
    "Progress",
    "RewardModel",
    "Schedule",
    "Score",
    "Track",
    "by_round",
    "constant",
    "mix",
    "parse_schedule",
    "ramp",
    "stages",
]

Track = Literal["base", "personal"]
"""Whether a score would be the same for everybody (base) or is this user's (personal)."""


@dataclass(frozen=True, slots=True)
class Score:
    """What one component says of an episode, or of one round or turn of it."""

    episode: str
    component: str
    value: float
    track: Track = "base"
    round: int | None = None
    turn: int | None = None
    counts: bool = True
    """False for a figure that is only to be seen, such as how often a judge failed: it stands beside the outcome of its
    episode, and no reward is made of it."""


class RewardModel:
    """Something that scores. `score` is the one method that it must have."""

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        """Score episodes of one task. A group comes together because some models compare its members."""
        raise NotImplementedError

    def open(self, folder: Path) -> None:
        """A run begins or goes on. `folder` is its own, to keep things in."""

    async def close(self) -> None:
        """Let go of connections and processes."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far things are: the round within the episode, and the update within the training."""

    round: int = 0
    rounds: int = 0
    update: int = 0
    updates: int = 0

    @property
    def episode(self) -> float:
        """t/N: 0 where there are no rounds."""
        return self.round / self.rounds if self.rounds else 0.0

    @property
    def training(self) -> float:
        """u/U: 0 outside of training."""
        return self.update / self.updates if self.updates else 0.0


Schedule = Callable[[Progress], float]
"""A weight that may change on the way."""


def constant(weight: float) -> Schedule:
    return lambda progress: weight


def by_round(first: float, last: float) -> Schedule:
    """From `first` (t = 0) to `last` (t = N) in a straight line over the rounds of an episode."""
    return lambda progress: first + (last - first) * progress.episode


def stages(*weights: float) -> Schedule:
    """Equal stages of training: three weights change at u = U/3 and 2U/3."""
    if not weights:
        raise SettingsError("stages need at least one weight", fix="write stages:0.8,0.6,0.6")
    return lambda progress: weights[min(int(progress.training * len(weights)), len(weights) - 1)]


def ramp(cap: float, until: float = 1.0) -> Schedule:
    """From zero, in a straight line over training, to `cap`, which it reaches at u/U = `until` and keeps."""
    if not 0 < until <= 1:
        raise SettingsError(f"a ramp can't end at {until}", fix="it ends after a share of training: above 0, at most 1")
    return lambda progress: cap * min(1.0, progress.training / until)


def parse_schedule(text: str | float) -> Schedule:
    """A schedule from the words of a spec: `0.5`, `round:0->0.5`, `stages:0.8,0.6,0.6`, `ramp:0.3`, `ramp:0.3@0.5`.

    >>> parse_schedule("round:0.5->0")(Progress(round=1, rounds=2))
    0.25
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
        cap, _, until = rest.partition("@")
        return ramp(_number(cap, text), _number(until or 1.0, text))
    raise SettingsError(
        f'"{text}" is no weight', fix="write a number, round:FIRST->LAST, stages:A,B,C, ramp:CAP or ramp:CAP@SHARE"
    )


def mix(scores: Sequence[Score], weights: Mapping[str, Schedule], progress: Progress) -> float:
    """One reward out of the scores of one episode, round or turn: the weighted sum of the components.

    Scores must be finite: NaN makes the sum NaN. A run checks every score before it mixes them.
    """
    return math.fsum(weights[score.component](progress) * score.value for score in scores if score.component in weights)


def _number(value: str | float, whole: str | float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise SettingsError(f'"{whole}" is no weight: "{value}" is not a number', fix="write weights such as 0.5")
    return number
