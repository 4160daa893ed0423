"""The reward `utility`: what the environment itself paid over the episode."""

from __future__ import annotations

from collections.abc import Sequence

from agentfw import Episode, RewardModel, Score

__all__ = ["Utility"]


class Utility(RewardModel):
    """One score per episode: the sum of its utilities."""

    components = ("utility",)

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [Score(episode.id, "utility", episode.utility) for episode in group]
