"""The rewards of the merchant world, from 0 to 1. They read what an operator could know, never the hidden tastes.

The reward `merchant_preference`: a preference model that is fitted on the log of the world when it is first needed.

    agentfw train merchant --reward merchant_base --reward merchant_preference \
        --set reward.merchant_preference.model=preferences

It knows what merchants took on before, which tells more of their tastes than what they have stated. What they accept
and reject in a run becomes a newer model in the run's folder, as with the reward `preference`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from agentfw import Episode, RewardModel, Score
from agentfw_papers.rewards.log_preference import LogPreference

from .logs import write_logs
from .merchant_settings import MerchantSettings
from .merchants import Merchants
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


class MerchantPreference(LogPreference):
    """Scores what took hold by a model of the log of the merchant world."""

    name = "merchant_preference"

    @classmethod
    def write_log(cls, folder: Path, world: int) -> None:
        write_logs(folder, MerchantSettings(world=world))

    @classmethod
    def texts(cls, world: int) -> dict[str, str]:
        return _texts(world)


@lru_cache(maxsize=4)
def _texts(world: int) -> dict[str, str]:
    merchants = Merchants(MerchantSettings(world=world))
    return {
        product: merchants.in_words(name, product)
        for name, category in merchants.market.categories.items()
        for product in category.products
    }
