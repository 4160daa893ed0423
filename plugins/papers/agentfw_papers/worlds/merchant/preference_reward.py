"""The reward `merchant_preference`: a preference model that is fitted on the log of the world when it is first needed.

    agentfw train merchant --reward merchant_base --reward merchant_preference \
        --set reward.merchant_preference.model=preferences

It knows what merchants took on before, which tells more of their tastes than what they have stated. What they accept
and reject in a run becomes a newer model in the run's folder, as with the reward `preference`.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from agentfw_papers.rewards.log_preference import LogPreference

from .logs import write_logs
from .merchant_settings import MerchantSettings
from .merchants import Merchants


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
