"""Uses a measure that the environment recorded in a round as a score of that round.

It only reads the record of the episode.

    class Correct(Measured):
        component = measure = "correct"
"""

from __future__ import annotations

from collections.abc import Sequence

from agentfw.episode import Episode
from agentfw.scores import RewardModel, Score, Track

__all__ = ["Measured"]


class Measured(RewardModel):
    """A score for each round with that measure."""

    component = ""
    measure = ""
    track: Track = "base"

    def value(self, measured: float) -> float:
        return measured

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [
            Score(episode.id, self.component, self.value(measure.value), self.track, measure.round)
            for episode in group
            for measure in episode.measures
            if measure.name == self.measure and measure.round
        ]
