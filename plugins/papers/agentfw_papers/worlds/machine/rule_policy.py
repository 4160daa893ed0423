"""The policy `machine`: looks after the machine by a plan, or by a simple rule.

    plan     repair when the plan says so, and ask to be told when that would be if nothing is heard
    noise    repair at each noise
    never    let it run

    agentfw run machine --policy machine --set policy.rule=noise

A plan is made for the machine that `policy.machine` describes, which need not be the one that is there.

The plan is the best that can be done: a value for each belief and number of ticks that are left. It is made by
Bellman's recursion over beliefs (appendix B.3), from the last tick to the first:

    wait      V(b, n) = -loss b' + P(noise) V(b' after a noise, n - 1) + P(silence) V(b' after silence, n - 1)
    repair    V(b, n) = -price - stopped takes + V(0, n - takes)

A repair is an option in the sense of appendix B.5: nothing is decided until it ends. With `every`, decisions are only
possible at every so many ticks, as under an interface that polls: the same world, and never a greater value.

    Plan(MachineSettings()).worth(belief=0.0, left=200)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from pydantic import Field

from agentfw import Generation, Intervention, Moment, Policy, Request, Settings

from .environment import MachineSettings

_BELIEFS = np.linspace(0.0, 1.0, 401)

Array = np.ndarray[Any, np.dtype[np.float64]]


class Plan:
    """What waiting and repairing are worth."""

    def __init__(self, settings: MachineSettings, every: int = 1) -> None:
        self.settings, self.every = settings, every
        rates = settings.rates
        self._broken = np.array([rates.broken_next(belief) for belief in _BELIEFS])
        self._noise = np.array([rates.noise_next(belief) for belief in _BELIEFS])
        self._heard, self._silent = (
            np.array([rates.after(belief, noise=noise) for belief in _BELIEFS]) for noise in (True, False)
        )
        # By the number of ticks that are left. What a repair is worth doesn't depend on the belief.
        self._values, self._waiting, self._repairing = [np.zeros_like(_BELIEFS)], [np.zeros_like(_BELIEFS)], [0.0]
        for left in range(1, settings.horizon + 1):
            takes = min(settings.takes, left)
            repairing = -settings.price - settings.stopped * takes + float(self._values[left - takes][0])
            waiting = self._wait(self._values[-1])
            self._waiting.append(waiting)
            self._repairing.append(repairing)
            self._values.append(np.maximum(waiting, repairing) if self._decides(left) else waiting)

    def _decides(self, left: int) -> bool:
        return (self.settings.horizon - left) % self.every == 0

    def _wait(self, later: Array) -> Array:
        after_noise, after_silence = (np.interp(belief, _BELIEFS, later) for belief in (self._heard, self._silent))
        following: Array = self._noise * after_noise + (1 - self._noise) * after_silence
        return following - self.settings.loss * self._broken

    def worth(self, belief: float, left: int) -> float:
        """The expected utility from here on, by the best decisions."""
        return float(np.interp(belief, _BELIEFS, self._values[left]))

    def repairs(self, belief: float, left: int) -> bool:
        """Whether it is time for a repair."""
        waiting = float(np.interp(belief, _BELIEFS, self._waiting[left]))
        return self._decides(left) and self._repairing[left] > waiting

    def patience(self, belief: float, left: int) -> int | None:
        """In how many ticks to repair if nothing is heard until then; None if never."""
        for ticks in range(1, left):
            belief = self.settings.rates.after(belief, noise=False)
            if self.repairs(belief, left - ticks):
                return ticks
        return None


class MachineKeeperSettings(Settings):
    rule: Literal["plan", "noise", "never"] = Field("plan", description="How to decide on repairs.")
    every: int = Field(
        1, ge=1, description="Ticks between two decisions that a plan counts on, such as those of polling."
    )
    machine: MachineSettings = Field(
        default_factory=MachineSettings, description="The machine that a plan is made for: the environment's settings."
    )


class MachineKeeper(Policy):
    """Decides by the belief that the last observation tells of."""

    is_program = True

    def __init__(self, settings: MachineKeeperSettings | None = None) -> None:
        self.settings = settings or MachineKeeperSettings()
        self._plan = Plan(self.settings.machine, self.settings.every) if self.settings.rule == "plan" else None

    async def generate(self, request: Request) -> Generation:
        assert request.moment is not None
        return Generation(calls=tuple(self._decided(request.moment)), version=self.settings.rule)

    def _decided(self, moment: Moment) -> Iterable[Intervention]:
        told = [observation for observation in moment.observations if "belief" in observation.data]
        if not told:
            return
        last = told[-1]
        if self._plan is None:
            if self.settings.rule == "noise" and last.name == "noise":
                yield Intervention("repair")
            return
        # An interface may tell of it late; there was no noise since then, or it would have told of that.
        passed = int(moment.now - last.time)
        belief = self._plan.settings.rates.after_silence(last.data["belief"], passed)
        left = int(last.data["left"]) - passed
        if self._plan.repairs(belief, left):
            yield Intervention("repair")
        elif (ticks := self._plan.patience(belief, left)) is not None:
            yield Intervention("look_again", {"after": ticks})
