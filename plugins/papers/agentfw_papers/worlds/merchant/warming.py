"""Does every analysis with default arguments, for each category and each kind of merchant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from .analyses import Analyses
from .engine import Results, carry_out
from .merchant_settings import MerchantSettings
from .merchants import CAPACITIES, TIERS, Merchants
from .plan import Step
from .plans import plan_of
from .skills import SKILLS


def warm(cache: str, world: int) -> dict[str, int]:
    """Keep all analyses of a market in a file. What is there already isn't done again."""
    merchants = Merchants(MerchantSettings(world=world))
    analyses = Analyses(merchants.market, cache)
    some = merchants.merchant("train 0")
    for category in merchants.market.categories:
        for plan in _plans():
            kinds = product(TIERS, CAPACITIES) if _of_merchant(plan) else [(some.tier, some.capacity)]
            for tier, capacity in kinds:
                merchant = replace(some, tier=tier, capacity=capacity)
                carry_out(plan, Results(), analyses, category, merchant)
    with analyses.tape() as tape:
        assert tape is not None
        ((kept,),) = tape.execute("SELECT COUNT(*) FROM answer")
    return {"done": analyses.done, "kept": kept}


def _plans() -> Iterator[list[Step]]:
    """Each analysis built on everything that it can use, on each part of that, and on no more than it needs."""
    yield plan_of(SKILLS)
    for name, skill in SKILLS.items():
        if skill.uses:
            yield plan_of([name])
            yield plan_of([name, *skill.uses])
            yield plan_of([name, *skill.uses], unlinked=skill.uses)


def _of_merchant(plan: list[Step]) -> bool:
    return any(SKILLS[step.skill].of_merchant for step in plan)
