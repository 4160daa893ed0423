"""The rewards of the merchant world, from 0 to 1. They read what an operator could know, never the hidden tastes."""

from __future__ import annotations

from collections.abc import Sequence

from agentfw import Episode, RewardModel, Score

from .scoring import SCALE

_BASE = ("authenticity", "logic", "completion", "depth")


class MerchantBase(RewardModel):
    """What is right for every merchant: four of the five scores."""

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [
            Score(episode.id, name, episode.outcome.get(name, 0.0) / SCALE, "base")
            for episode in group
            for name in _BASE
        ]


class MerchantPersonal(RewardModel):
    """How well the recommendation meets what this merchant has stated."""

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [
            Score(one.id, "profile_match", one.outcome.get("visible_profile_match", 0.0) / SCALE, "personal")
            for one in group
        ]
