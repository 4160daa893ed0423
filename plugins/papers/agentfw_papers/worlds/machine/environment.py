"""The environment `machine`: it breaks unseen, a noise may or may not mean something, and a repair costs.

What the agent knows is a belief, and the world computes it: each observation has the probability that the machine is
broken, given all that could be heard so far. So the best that an agent can do is known (`rule_policy`), and what a
learner that sees the belief reaches can be compared with it, and with one that only hears the noises.

    agentfw run machine
    agentfw run machine --interface polling:10

After appendix B of the engagement-process paper, which has formulas and no world. The world and its numbers are ours.

What can be known of the machine: the probability that it is broken, from the noises and the silence between them.

A belief changes at every tick, also when nothing is heard: a broken machine makes more noise than a sound one, so that
silence is news as well. It is Bayes' rule, with nothing left out (appendix B.2 of the engagement-process paper).

    rates = Rates(breaks=0.02, rattles=0.3, hums=0.1)
    rates.after(0.0, noise=True)            # a noise one tick after a repair
    rates.after_silence(0.5, ticks=10)
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from agentfw import Environment, Settings, Task, World, action
from agentfw.errors import InterventionRefused


@dataclass(frozen=True, slots=True)
class Rates:
    """Probabilities, each of one tick."""

    breaks: float
    """A sound machine breaks."""
    rattles: float
    """A broken one makes a noise."""
    hums: float
    """A sound one makes a noise."""

    def broken_next(self, belief: float) -> float:
        """The belief one tick later, before anything is heard."""
        return belief + (1 - belief) * self.breaks

    def noise_next(self, belief: float) -> float:
        """The probability that the next tick makes a noise."""
        broken = self.broken_next(belief)
        return broken * self.rattles + (1 - broken) * self.hums

    def after(self, belief: float, *, noise: bool) -> float:
        """The belief one tick later, with or without a noise."""
        broken, likely = self.broken_next(belief), self.noise_next(belief)
        if noise:
            return broken * self.rattles / likely if likely else broken
        return broken * (1 - self.rattles) / (1 - likely) if likely < 1 else broken

    def after_silence(self, belief: float, ticks: int) -> float:
        """The belief after so many ticks without a noise."""
        for _ in range(ticks):
            belief = self.after(belief, noise=False)
        return belief


_BINS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)

Probability = Annotated[float, Field(ge=0, le=1)]


class MachineSettings(Settings):
    horizon: int = Field(200, ge=1, description="Number of ticks per episode.")
    breaks: Probability = Field(0.02, description="Probability per tick that a sound machine breaks.")
    rattles: Probability = Field(0.3, description="Probability per tick that a broken machine makes a noise.")
    hums: Probability = Field(0.1, description="Probability per tick that a sound machine makes a noise.")
    loss: float = Field(1.0, ge=0, description="Cost of each tick in which the machine is broken.")
    price: float = Field(5.0, ge=0, description="Cost of a repair.")
    takes: int = Field(3, ge=1, description="Number of ticks that a repair takes.")
    stopped: float = Field(1.0, ge=0, description="Cost of each tick of a repair.")
    state: Literal["belief", "noise"] = Field(
        "belief", description="State that a value table distinguishes: the belief, or whether there is a noise now."
    )

    @property
    def rates(self) -> Rates:
        return Rates(self.breaks, self.rattles, self.hums)


class Machine(Environment):
    """You look after a machine. It may break, which you don't see, and a broken machine costs something at every tick.

    It makes noises, more often when it is broken. You are told how likely it is that the machine is broken by now. A
    repair costs something, takes some ticks, and leaves a machine that works. You can ask to be told again later.
    """

    def __init__(self, settings: MachineSettings | None = None) -> None:
        self.settings = settings or MachineSettings()

    def begin(self, world: World, task: Task) -> None:
        self.world, self._draw = world, world.random("machine")
        self._broken, self._belief = False, 0.0
        self._repairing = False
        self._look_at: float | None = None
        self._repairs = self._needless = self._down = 0
        self._tell("start")
        self._expect_tick()

    def _expect_tick(self) -> None:
        self.world.after(1, self._tick)

    def _tick(self) -> None:
        # Drawn at every tick, so that two keepers of one task have the same luck whenever they repair.
        broke, heard = self._draw.random(), self._draw.random()
        if self._repairing:
            self.world.utility(-self.settings.stopped, "stands still")
        else:
            self._run(broke, heard)
        if self.world.now >= self.settings.horizon:
            self.world.finish(**self.outcome())
        else:
            self._expect_tick()

    def _run(self, broke: float, heard: float) -> None:
        """One tick of a machine that runs, broken or not."""
        self._broken = self._broken or broke < self.settings.breaks
        if self._broken:
            self._down += 1
            self.world.utility(-self.settings.loss, "broken")
        noise = heard < (self.settings.rattles if self._broken else self.settings.hums)
        self._belief = self.settings.rates.after(self._belief, noise=noise)
        if noise:
            self._tell("noise")
        elif self.world.now == self._look_at:
            self._tell("look")

    @action
    def repair(self) -> None:
        """Repair the machine, whether or not it is broken."""
        self._refuse_while_repairing()
        self._repairs += 1
        self._needless += not self._broken
        self._repairing, self._look_at = True, None
        self.world.utility(-self.settings.price, "repair")
        # The end of a repair comes after that tick's cost, so that the next tick is the first of a sound machine.
        takes = self.settings.takes
        self.world.work("repair", takes, lambda work: self.world.after(0, self._repaired))

    def _repaired(self) -> None:
        self._repairing = self._broken = False
        self._belief = 0.0
        self._tell("repaired")

    @action
    def look_again(self, after: Annotated[int, Field(ge=1)]) -> None:
        """Be told again how things stand, if there is no noise before.

        after: in how many ticks
        """
        self._refuse_while_repairing()
        self._look_at = self.world.now + after

    def _refuse_while_repairing(self) -> None:
        if self._repairing:
            raise InterventionRefused("the machine is being repaired")

    def _tell(self, name: str) -> None:
        if self.settings.state == "belief":
            state = f"broken {bisect_right(_BINS, self._belief)}"
        else:
            state = "noise" if name == "noise" else "no noise"
        self.world.observe(
            name,
            {"belief": self._belief, "left": self.settings.horizon - self.world.now, "state": state},
            text=f"{name}: broken with a probability of {self._belief:.0%}",
        )

    def outcome(self) -> Mapping[str, float]:
        return {
            "repairs": float(self._repairs),
            "needless": float(self._needless),
            "down": self._down / self.settings.horizon,
        }
