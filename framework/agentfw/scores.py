"""Scores from reward models, and how several of them are combined into one reward.

A reward model reports what it measures and knows nothing about weights. Weights belong to the run. Each component has a
schedule, which depends on the round (the curriculum of pearl) or on the training progress (the stages of proactor).

    >>> mix = {"decision": constant(1.0), "ranking": by_round(0.0, 0.5), "hub": by_round(0.5, 0.0)}
    >>> [round(mix["hub"](Progress(round=t, rounds=4)), 3) for t in (1, 2, 4)]
    [0.375, 0.25, 0.0]
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Literal, get_args

from .episode import Episode, Usage
from .errors import SettingsError, not_implemented
from .policy import Policy

__all__ = [
    "LARGEST",
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
    "wrong_scores",
]

LARGEST = 1e100
"""Largest absolute value of a score or a utility. The squares of larger ones overflow."""

_NO_USAGE = Usage(0, 0, 0)

Track = Literal["base", "personal"]
"""Whether a score would be the same for every user (base) or is specific to this user (personal)."""


@dataclass(frozen=True, slots=True)
class Score:
    """What one component measured of an episode, or of one of its rounds or turns."""

    episode: str
    component: str
    value: float
    track: Track = "base"
    round: int | None = None
    turn: int | None = None
    counts: bool = True
    """False for metrics that are reported but not rewarded, such as how often a judge failed. They are stored with the
    measures of the episode."""
    usage: Usage = field(default=_NO_USAGE, compare=False)
    """Tokens that a judging model spent on this score. If one question covers several scores, one of them carries its
    tokens."""


class RewardModel:
    """Base class of reward models. Only `score` must be implemented."""

    policy: Policy | None = None
    """The policy that it asks, if it asks one. A limit on money needs its price."""
    components: Sequence[str] = ()
    """The names of its scores' components, if they are known beforehand. Two reward models of a run can't share one."""

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        """Score the episodes of one task. They come as a group because some models compare its members."""
        raise not_implemented(self, "score")

    async def learn(self, episode: Episode) -> None:
        """Learn from what came of a finished episode. Called where memories learn, possibly twice for one episode.

        Scores stay as they are until the run is over: what was learned takes effect in what `write_learned` writes.
        """

    async def write_learned(self, folder: Path) -> bool:
        """Write a newer version of the model into this new folder. Return False if nothing was learned.

        Called when a run in which it learned is complete. The result depends on the episodes and not on their order.
        """
        return False

    async def forget(self, user: str) -> bool:
        """Delete what the files of this model know of a user. Return whether they knew anything."""
        raise not_implemented(self, "forget")

    def open(self, folder: Path) -> None:
        """Called when a run begins or resumes. `folder` belongs to the reward model."""

    async def close(self) -> None:
        """Close connections and processes."""


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


def wrong_scores(scores: Sequence[Score], group: Sequence[Episode]) -> str:
    """What is wrong with the scores of a group, worded to follow the name of the reward model; empty if nothing is."""
    episodes = {episode.id: episode for episode in group}
    given = set[tuple[object, ...]]()
    for score in scores:
        episode = episodes.get(score.episode)
        if episode is None:
            return f'scored the unknown episode "{score.episode}"'
        name, turns = score.component, len(episode.turns)
        what = f'for episode {score.episode} as "{name}"'
        if not isinstance(name, str) or not name:
            return f"gave a score of episode {score.episode} the component {name!r}, which must be a name"
        if not isinstance(score.value, Real) or not abs(score.value) <= LARGEST:  # nor is NaN
            return f"gave {score.value} {what}, which must be a finite number up to {LARGEST:g}"
        if score.track not in get_args(Track):
            return f"gave the track {score.track!r} {what}, which must be base or personal"
        if score.turn is not None and not (isinstance(score.turn, int) and 0 <= score.turn < turns):
            return f"gave a score to turn {score.turn!r} {what}, which has {turns} turns, from 0"
        if score.round is not None and not isinstance(score.round, int):
            return f"gave a score to round {score.round!r} {what}, which must be a number"
        place = (score.episode, name, score.track, score.round, score.turn)
        if place in given:
            return f"gave two scores {what}, for the same round and turn: one would count twice"
        given.add(place)
    return ""


def constant(weight: float) -> Schedule:
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


def mix(scores: Sequence[Score], weights: Mapping[str, Schedule], progress: Progress) -> float:
    """Combine the scores of one episode, round or turn into one reward: the weighted sum of the components.

    Scores must be finite: NaN makes the sum NaN. A run checks every score before it mixes them.
    """
    return math.fsum(weights[score.component](progress) * score.value for score in scores if score.component in weights)


def _number(value: str | float, whole: str | float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise SettingsError(f'"{whole}" is not a weight: "{value}" is not a number', fix="write weights such as 0.5")
    return number
