"""A base class for rewards that are figures which the environment recorded in a round.

class Correct(Measured):
    component = measure = "correct"
"""

from __future__ import annotations

from collections.abc import Sequence

from agentfw import Episode, RewardModel, Score
from agentfw.scores import Track

__all__ = ["Measured"]


class Measured(RewardModel):
    """A score per round for which the environment recorded the measure."""

    component = ""
    measure = ""
    track: Track = "base"

    def value(self, measured: float) -> float:
        return measured

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [
            Score(name, self.component, self.value(measure.value), self.track, measure.round)
            for episode, name in ((episode, episode.id) for episode in group)
            for measure in episode.measures
            if measure.name == self.measure and measure.round
        ]
