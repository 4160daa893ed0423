"""Does analyses. The same analysis of the same market is computed once in a process; a merchant waits for each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .market import Market
from .merchants import CAPACITIES, TIERS, Merchant
from .plan import Step
from .skill import Evidence, Inputs, Skill
from .skills import SKILLS


class Analyses:
    """The analyses of one market."""

    def __init__(self, market: Market) -> None:
        self.market = market
        self._known: dict[str, Evidence] = {}

    def get(self, step: Step, category: str, merchant: Merchant, before: Mapping[str, Evidence]) -> Evidence:
        """The evidence of one step. `before` is what the step is built on."""
        skill = SKILLS[step.skill]
        used = {name: one for name, one in before.items() if name in skill.needs or name in skill.uses}
        key = repr((skill.name, self._arguments(skill, step, category, merchant), sorted(used.items())))
        if key not in self._known:
            self._known[key] = skill.run(self._inputs(step, category, merchant, used))
        return self._known[key]

    def _arguments(self, skill: Skill, step: Step, category: str, merchant: Merchant) -> dict[str, Any]:
        found = {"category": category, **{name: step.arguments.get(name) for name in skill.arguments}}
        return found | {"tier": merchant.tier, "capacity": merchant.capacity} if skill.of_merchant else found

    def _inputs(self, step: Step, category: str, merchant: Merchant, used: Mapping[str, Evidence]) -> Inputs:
        return Inputs(
            self.market.categories[category],
            int(step.arguments.get("months", self.market.months)),
            TIERS[merchant.tier],
            CAPACITIES[merchant.capacity],
            used,
        )
