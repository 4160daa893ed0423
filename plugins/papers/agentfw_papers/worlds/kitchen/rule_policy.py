"""The policy `kitchen`: a simple rule that writes its actions as a model does.

Its decisions are XML text that is parsed like a model's answer, and each token takes time. So it pays for everything
that a model pays for.

    agentfw run kitchen --policy kitchen
    agentfw run kitchen --interface step_loop --set policy.bounded=true

The rule decides from the last observation and the clock alone. So it is the same rule under every interface, and it is
wrong when it hears of something late.

What can't be put down again is weighed first. It doesn't begin to prepare or plate anything that would still be in
hand when a critical dish has to be finished. A soft dish that keeps warm waits for the next way to the stove, if there
is one in time and nobody needs the burner.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from pydantic import Field

from agentfw import Generation, Intervention, Moment, Policy, Request, Settings
from agentfw.timeline import Time

_WORK = ("prepare ", "stage ", "finish ")
"""Names of the works of the kitchen, each with its dish."""
_ANSWER = 10
"""Ticks that its own answer takes, with a margin."""
_ABOUT = 10
"""Ticks by which a whistle may be early or late."""
_SHORT = 20
"""Ticks to wait when tutoring isn't worth starting."""


def decide(moment: Moment, *, bounded: bool = False) -> Sequence[Intervention]:
    """The next action; empty to continue. `bounded` tutors only up to the next expected signal."""
    seen = next((one.data for one in reversed(moment.observations) if "dishes" in one.data), None)
    if seen is None:
        return []
    # What is in hand now: a reflex may have begun something since the observation.
    at_work = (work.name for work in moment.in_flight if work.running and work.name.startswith(_WORK))
    return _Kitchen(seen, moment.now, next(at_work, str(seen["hand"]))).decide(bounded=bounded)


@dataclass(frozen=True, slots=True)
class _Dish:
    """What was observed of a dish."""

    name: str
    critical: bool
    state: str
    prepare: int
    finish: int
    lasts: int
    about: Time = inf
    """Expected time of its signal."""
    due: Time = inf

    @property
    def latest(self) -> Time:
        """Latest time to begin finishing it."""
        return self.due - self.finish


class _Kitchen:
    def __init__(self, seen: Any, now: Time, hand: str) -> None:
        self.now, self.hand, self.free = now, hand, int(seen["free"])
        self.dishes = [_Dish(**dish) for dish in seen["dishes"]]
        self.left = [int(problem["left"]) for problem in seen["problems"] if not problem["done"]]
        self.begin = now + _ANSWER
        """When the action decided now begins."""

    def decide(self, *, bounded: bool) -> Sequence[Intervention]:
        waiting = [dish for dish in self._in_state("ready") if self.hand != f"finish {dish.name}"]
        ready = sorted(waiting, key=lambda dish: dish.due)
        urgent = [dish for dish in ready if dish.critical and self.begin <= dish.latest]
        if urgent:
            return [Intervention("finish", {"dish": urgent[0].name})]
        if self.hand not in ("", "tutor", "wait"):
            return []  # hands are full; it will be asked again
        warm = [dish for dish in ready if not dish.critical and self.begin <= dish.latest]
        for dish in warm:
            if not self._too_long(dish.finish) and not self._can_wait(dish):
                return [Intervention("finish", {"dish": dish.name})]
        if self.hand:
            return []
        return self._at_the_stove(ready) or self._tutor(warm, bounded=bounded) or self._at_last(ready)

    def _at_the_stove(self, ready: Sequence[_Dish]) -> Sequence[Intervention]:
        """Start the next dish, after clearing a spoilt one."""
        prepared, raw = self._in_state("prepared"), self._in_state("raw")
        if prepared and self.free > 0:
            return [Intervention("stage", {"dish": prepared[0].name})]
        spoilt = [dish for dish in ready if self.begin > dish.latest]
        if (prepared or raw) and self.free == 0 and spoilt and not self._too_long(spoilt[0].finish):
            return [Intervention("finish", {"dish": spoilt[0].name})]
        if raw and not prepared and not self._too_long(raw[0].prepare):
            return [Intervention("prepare", {"dish": raw[0].name})]
        return []

    def _tutor(self, warm: Sequence[_Dish], *, bounded: bool) -> Sequence[Intervention]:
        if not self.left:
            return []
        limits = [dish.latest - _ANSWER for dish in warm]
        if bounded:
            limits += [dish.about + _ABOUT for dish in self._in_state("cooking")]
        tokens = int(min(limits) - self.begin) if limits else self.left[0]
        if tokens <= 0:
            return [Intervention("wait", {"ticks": _SHORT})]
        return [Intervention("tutor", {"tokens": tokens} if tokens < self.left[0] else {})]

    def _at_last(self, ready: Sequence[_Dish]) -> Sequence[Intervention]:
        """Whether all problems are explained."""
        worth = [dish for dish in ready if not dish.critical and self.begin <= dish.latest]
        cooking = self._in_state("cooking")
        if worth and not cooking:
            return [Intervention("finish", {"dish": worth[0].name})]
        if cooking:
            return [Intervention("wait")]
        raw = self._in_state("raw")
        return [Intervention("prepare", {"dish": raw[0].name})] if raw else [Intervention("end")]

    def _too_long(self, takes: int) -> bool:
        """Whether a critical dish could be lost during work of this duration."""
        done = self.begin + takes
        return any(
            dish.critical
            and dish.about - _ABOUT < done
            and done + _ANSWER + dish.finish > dish.about - _ABOUT + dish.lasts
            for dish in self._in_state("cooking")
        )

    def _can_wait(self, dish: _Dish) -> bool:
        """Whether a soft dish stays warm until the next necessary visit to the stove."""
        if self._in_state("prepared") or self._in_state("raw"):
            return False  # its burner is needed
        signals = [other.about + _ABOUT + _ANSWER + other.finish for other in self._in_state("cooking")]
        ways = [*signals, *([self.now + sum(self.left)] if self.left else [])]
        return any(way + _ANSWER <= dish.latest for way in ways)

    def _in_state(self, state: str) -> list[_Dish]:
        return [dish for dish in self.dishes if dish.state == state]


class KitchenControllerSettings(Settings):
    bounded: bool = Field(
        False,
        description="Let the tutor explain only until the next expected signal, not to the end of a problem.",
    )


class KitchenController(Policy):
    """Runs the kitchen by a rule."""

    is_program = True

    def __init__(self, settings: KitchenControllerSettings | None = None) -> None:
        self.settings = settings or KitchenControllerSettings()

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        text = "".join(map(written, decide(request.moment, bounded=self.settings.bounded)))
        # Words and punctuation, roughly as a tokenizer splits them.
        pieces = tuple(re.findall(r"\s*(?:\w+|[^\w\s])", text))
        return Generation(text, count=len(pieces), pieces=pieces, version="rule")


def written(intervention: Intervention) -> str:
    """An action in XML.

    >>> written(Intervention("tutor", {"tokens": 40}))
    '<tutor tokens="40"/>'
    """
    arguments = "".join(f' {name}="{value}"' for name, value in intervention.arguments.items())
    return f"<{intervention.name}{arguments}/>"
