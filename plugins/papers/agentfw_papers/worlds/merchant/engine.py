"""Carries out a plan on the timeline: a step starts when all that it needs is there, and steps overlap.

A step that fails fails those that need it, and no others.

The same analysis of the same market is computed once in a process; a merchant waits for each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from agentfw import World
from agentfw.timeline import Work

from .market import Market
from .merchants import CAPACITIES, TIERS, Merchant
from .plan import Step
from .skills import SKILLS, Evidence, Inputs, Skill


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


@dataclass(slots=True)
class Results:
    """What came of the steps of all plans of a task."""

    evidence: dict[str, Evidence] = field(default_factory=dict)
    """By the id of the step."""
    failures: dict[str, str] = field(default_factory=dict)
    needs: dict[str, list[str]] = field(default_factory=dict)
    """The steps whose evidence each finished step has used."""

    @property
    def skills(self) -> dict[str, str]:
        """The analysis of each finished step."""
        return {id: one.skill for id, one in self.evidence.items()}

    def upstream(self, id: str) -> set[str]:
        """The analyses on which a step is built, directly or not."""
        found: set[str] = set()
        waiting = list(self.needs.get(id, ()))
        while waiting:
            each = waiting.pop()
            if each not in found:
                found.add(each)
                waiting += self.needs.get(each, ())
        return {self.evidence[each].skill for each in found if each in self.evidence}


def carry_out(
    plan: Sequence[Step],
    results: Results,
    analyses: Analyses,
    category: str,
    merchant: Merchant,
    outages: Collection[str] = (),
) -> None:
    """Add the evidence and the failures of a checked plan to the results."""
    for step in plan:
        broken = next((need for need in step.needs if need in results.failures), None)
        if broken is not None:
            results.failures[step.id] = f"it needs {broken}, which failed"
        elif step.skill in outages:
            results.failures[step.id] = f"{step.skill} gave no answer"
        else:
            before = {results.evidence[need].skill: results.evidence[need] for need in step.needs}
            results.evidence[step.id] = analyses.get(step, category, merchant, before)
            usable = {*SKILLS[step.skill].needs, *SKILLS[step.skill].uses}
            results.needs[step.id] = [need for need in step.needs if results.evidence[need].skill in usable]


class Engine:
    """The steps of one plan as works on a timeline. Steps of earlier plans are over, so nothing waits for them."""

    def __init__(self, world: World, plan: Sequence[Step], results: Results, finished: Callable[[], object]) -> None:
        self._world, self._results = world, results
        ids = {step.id for step in plan}
        self._waiting = {step.id: (step, {need for need in step.needs if need in ids}) for step in plan}
        self._running = 0
        # The agent is busy until the plan is done.
        self._all = world.work("plan", inf, lambda work: finished())
        self._start()

    def _start(self) -> None:
        """Start what waits for nothing any more."""
        ready = [step for step, needs in self._waiting.values() if not needs]
        for step in ready:
            del self._waiting[step.id]
            self._running += 1
            self._world.work(step.skill, self._takes(step), self._ended(step), holds=False)

    def _ended(self, step: Step) -> Callable[[Work], None]:
        def over(work: Work) -> None:
            self._running -= 1
            for _, needs in self._waiting.values():
                needs.discard(step.id)
            self._start()
            if not self._running and not self._waiting:
                self._all.complete()

        return over

    def _takes(self, step: Step) -> float:
        """A step that can't start takes no time."""
        broken = any(need in self._results.failures for need in step.needs)
        return 0.0 if broken else SKILLS[step.skill].takes
