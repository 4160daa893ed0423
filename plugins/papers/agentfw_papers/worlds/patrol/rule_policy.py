"""Hand-written controllers for the patrol: `greedy`, `patch` and `patchpro`.

They decide by fixed rules and look again when one of their thresholds is crossed. The paper's Loop is `greedy` under
the step loop: it responds to whatever can be reached, but only between two pieces of work.

    agentfw run patrol --set environment.depth=3 --policy patrol --set policy.controller=patchpro

Patch knows the phase and the time that the alarm has left; PatchPro also distance, progress, and what leaving costs
(tables 10 and 11 of the engagement-process paper). Their thresholds are lost and are ours; they belong to the patrol's
default numbers, as the paper's did to its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Literal, TypeVar

from pydantic import Field

from agentfw import Generation, Intervention, Policy, Request, Settings
from agentfw.errors import SettingsError

from .environment import Situation, situation

Rule = TypeVar("Rule")

_PATCH: dict[int, dict[str, float]] = {2: {"observe": inf, "commit": 8}, 3: {"observe": inf, "verify": 10, "commit": 0}}
"""By depth and phase: respond when the alarm has at most this many ticks left."""
_PATCHPRO: dict[int, dict[str, tuple[float, float, float]]] = {
    2: {"observe": (15, 0.8, 1.5), "commit": (8, 0.5, 2.5)},
    3: {"observe": (15, 0.8, 1.5), "verify": (10, 0.6, 2.0), "commit": (6, 0.4, 3.0)},
}
"""By depth and phase: maximum ticks left, maximum progress, and minimum ratio of the alarm's worth to the cost."""
_VERY_URGENT = 3
"""PatchPro responds at once when at most this many spare ticks remain."""


class ControllerSettings(Settings):
    controller: Literal["loop", "greedy", "patch", "patchpro"] = Field(
        "greedy",
        description="Respond to every alarm, to every alarm in reach, or by the rules of a patch. "
        "The patches need a patrol of depth 2 or 3.",
    )


class PatrolController(Policy):
    """Responds to alarms by a rule."""

    is_program = True

    def __init__(self, settings: ControllerSettings | None = None) -> None:
        self.settings = settings or ControllerSettings()

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        now = situation(request.moment)
        calls: tuple[Intervention, ...] = ()
        if now is not None:
            rule = {"loop": self._loop, "greedy": self._greedy, "patch": self._patch, "patchpro": self._patchpro}[
                self.settings.controller
            ]
            calls = tuple(rule(now))
        return Generation(calls=calls, version=self.settings.controller)

    def _loop(self, now: Situation) -> Iterable[Intervention]:
        yield Intervention("respond")

    def _greedy(self, now: Situation) -> Iterable[Intervention]:
        if now.needed <= now.remaining:
            yield Intervention("respond")

    def _patch(self, now: Situation) -> Iterable[Intervention]:
        limit = inf if now.doing == "walk" else _rules(_PATCH, now)
        if now.remaining <= limit:
            yield Intervention("respond")
        elif limit > 0:
            yield from _look_when(now, [limit])

    def _patchpro(self, now: Situation) -> Iterable[Intervention]:
        if now.needed > now.remaining:
            return
        very_urgent = now.needed + _VERY_URGENT
        if now.remaining <= very_urgent or now.doing == "walk":
            yield Intervention("respond")
        elif now.left + now.later + now.needed > now.remaining:  # otherwise finish the checkpoint first
            urgent, progress, ratio = _rules(_PATCHPRO, now)
            done = 1 - now.left / now.takes
            if now.remaining <= urgent and done < progress and now.worth > ratio * now.cost:
                yield Intervention("respond")
            else:
                yield from _look_when(now, [urgent, very_urgent])


def _rules(rules: Mapping[int, Mapping[str, Rule]], now: Situation) -> Rule:
    try:
        return rules[now.of][now.doing]
    except KeyError:
        raise SettingsError(
            f'the patches have no rule for the phase "{now.doing}" of {now.of}',
            fix="pass --set environment.depth=2 (or 3), or --set policy.controller=greedy",
        ) from None


def _look_when(now: Situation, limits: Sequence[float]) -> Iterable[Intervention]:
    """Ask to be told again when the alarm reaches the next of these limits."""
    waits = [int(now.remaining - limit) for limit in limits if limit < now.remaining]
    if waits:
        yield Intervention("look_again", {"after": min(waits)})
