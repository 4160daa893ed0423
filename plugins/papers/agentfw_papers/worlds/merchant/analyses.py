"""Does analyses, and keeps them: the same analysis of the same market is done once.

What is kept is found by the analysis and its version, its arguments, the evidence that it is built on, and the market.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

from agentfw_plugins.tools.tape import TapeFile, same_call

from .market import Market
from .merchants import CAPACITIES, TIERS, Merchant
from .plan import Step
from .skill import Evidence, Inputs, Skill
from .skills import SKILLS


class Analyses:
    """The analyses of one market."""

    def __init__(self, market: Market, cache: str = "") -> None:
        self.market, self._cache = market, cache
        self.done = 0
        """Number of analyses that were done and not kept from before."""
        self._known: dict[bytes, Evidence] = {}
        """Saves work in this process. It is no cache for the merchant: such an analysis takes its time."""

    @contextmanager
    def tape(self) -> Iterator[TapeFile | None]:
        """The tape, open for the analyses of one plan."""
        if not self._cache:
            yield None
            return
        file = TapeFile(self._cache, where="environment.cache")
        try:
            yield file
        finally:
            file.close()

    def get(
        self, step: Step, category: str, merchant: Merchant, before: Mapping[str, Evidence], tape: TapeFile | None
    ) -> tuple[Evidence, bool]:
        """The evidence of one step, and whether it was kept from before. `before` is what the step is built on."""
        skill = SKILLS[step.skill]
        used = {name: one for name, one in before.items() if name in skill.needs or name in skill.uses}
        arguments = self._arguments(skill, step, category, merchant)
        key = self._key(skill, arguments, used)
        kept = tape.answer(key) if tape else None
        if kept is not None:
            return Evidence(**json.loads(kept)), True
        evidence = self._known.get(key)
        if evidence is None:
            evidence = self._known[key] = skill.run(self._inputs(step, category, merchant, used))
        self.done += 1
        if tape:
            tape.keep(key, skill.name, same_call(arguments), json.dumps(evidence.record()))
        return evidence, False

    # Helpers

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

    def _key(self, skill: Skill, arguments: Mapping[str, Any], used: Mapping[str, Evidence]) -> bytes:
        built_on = [same_call(used[name].record()) for name in sorted(used)]
        parts = [skill.name, str(skill.version), same_call(arguments), self.market.version, *built_on]
        hashed = blake2b(digest_size=16)
        for part in parts:
            data = part.encode("utf-8", "surrogatepass")
            hashed.update(f"{len(data)}:".encode() + data)
        return hashed.digest()
