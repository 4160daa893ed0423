"""The policy `machine`: looks after the machine by a plan, or by a simple rule.

    plan     repair when the plan says so, and ask to be told when that would be if nothing is heard
    noise    repair at each noise
    never    let it run

    agentfw run machine --policy machine --set policy.rule=noise

A plan is made for the machine that `policy.machine` describes, which need not be the one that is there.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from agentfw import Generation, Intervention, Moment, Policy, Request, Settings

from .environment import MachineSettings
from .planner import Plan


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
