"""Scores from reward models.

A reward model reports what it measures and knows nothing about weights. Weights belong to the run
(`agentfw.runs.spec.weights`).

    class Length(RewardModel):
        async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
            return [Score(episode.id, "length", float(len(episode.turns))) for episode in group]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Literal, get_args

from .episode import Episode, Usage
from .errors import not_implemented
from .policy import Policy

__all__ = ["LARGEST", "RewardModel", "Score", "Track", "wrong_scores"]

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


def wrong_scores(scores: Sequence[Score], group: Sequence[Episode]) -> str:
    """What is wrong with the scores of a group, worded to follow the name of the reward model; empty if nothing is."""
    episodes = {episode.id: episode for episode in group}
    given = set[tuple[object, ...]]()
    for score in scores:
        if (episode := episodes.get(score.episode)) is None:
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
