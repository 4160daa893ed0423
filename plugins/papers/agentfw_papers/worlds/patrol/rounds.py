"""The lower level of the patrol: walking, handling checkpoints, and resolving an alarm, as it is told.

It knows where it is and how far its work has come. What is worth doing is the upper level's business (environment.py),
which hears of each piece of work that is done, and then commands what comes next.

As a module (`environment.modules`), all of this is an engagement of its own: commands are observations, and they and
the news of its world are answered at once, by reflex, as a navigation controller does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentfw import Agent, Decision, Environment, Intervention, Moment, Observation, Task, World, action
from agentfw.interfaces import Reflex
from agentfw.timeline import Time, Work
from agentfw.turns.nested import Nested

from .patrol_settings import PatrolSettings, Place, distance, walked


@dataclass(frozen=True, slots=True)
class Standing:
    """What the lower level does, or would do next."""

    place: Place
    doing: str
    """`walk`, or the name of the phase."""
    takes: Time
    left: Time
    later: Time
    """Ticks of the phases after this one."""
    cost: float
    begun: bool


class Rounds(Environment):
    """You walk from checkpoint to checkpoint and handle them, and go where you are sent."""

    def __init__(self, settings: PatrolSettings, heard: Callable[[Mapping[str, Any]], object] | None = None) -> None:
        """`heard` is called with each report. Without it, reports are news to the agent of a module."""
        self.settings, self._heard = settings, heard

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        self._place = self.settings.checkpoints[0]
        self._target = self._phase = 0
        self._work: Work | None = None
        self._heading: Place | None = None
        """Where it is walking to; None if it isn't walking."""
        self._aside: Work | None = None
        self._sent = False

    @action
    def go_on(self) -> None:
        """Go on with the round."""
        if self._place != self._goal:
            self._walk("walk", self._goal, lambda: self._done("walked"))
        elif self._aside is not None:
            self._work, self._aside = self._aside, None
            self._work.resume()
        else:
            phase = self.settings.phases[self._phase]
            self._work = self.world.work(phase.name, phase.takes, self._phase_done)

    @action
    def attend(self, x: int, y: int) -> None:
        """Leave what you are doing, go there, and resolve the alarm."""
        self.leave()
        self._sent = True
        self._walk("to the alarm", (x, y), self._resolve)

    @action
    def leave(self) -> None:
        """Leave what you are doing."""
        work, self._work = self._work, None
        sent, self._sent = self._sent, False
        if work is None:
            return
        if self._heading is not None:
            self._place, self._heading = self._where(work), None
            work.cancel()
        elif sent:
            work.cancel()
        else:
            self._leave_phase(work)

    def _leave_phase(self, work: Work) -> None:
        cost = self.settings.phases[self._phase].cost if work.spent > 0 else 0.0
        if self.settings.keeps:
            work.interrupt()
            self._aside = work
        else:
            work.cancel()
        if cost:
            self._report(done="left", cost=cost)

    def _walk(self, name: str, to: Place, arrived: Callable[[], object]) -> None:
        def there(work: Work) -> None:
            self._place, self._heading = to, None
            arrived()

        self._heading = to
        self._work = self.world.work(name, distance(self._place, to), there)

    def _resolve(self) -> None:
        def resolved(work: Work) -> None:
            self._sent = False
            self._done("resolved")

        self._work = self.world.work("resolve", self.settings.resolving, resolved)

    def _phase_done(self, work: Work) -> None:
        self._phase += 1
        if self._phase < len(self.settings.phases):
            self._done("phase")
            return
        self._phase = 0
        self._target = (self._target + 1) % len(self.settings.checkpoints)
        self._done("checkpoint")

    def _done(self, what: str) -> None:
        self._work = None
        self._report(done=what)

    def _report(self, **report: Any) -> None:
        if self._heard is None:
            self.world.observe("news", report)
        else:
            self._heard(report)

    def reflex(self, observation: Observation) -> Iterable[Intervention]:
        """Carry out a command, and report what happens."""
        data = dict(observation.data)
        return [Intervention(data.pop("do"), data) if observation.name == "command" else Intervention("report", data)]

    # -- how things stand ----------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        return self._work is None

    @property
    def _goal(self) -> Place:
        """Position of the next or current checkpoint."""
        return self.settings.checkpoints[self._target]

    def _where(self, work: Work | None) -> Place:
        if self._heading is None or work is None:
            return self._place
        return walked(self._place, self._heading, int(work.spent))

    def standing(self) -> Standing:
        phases, work, place = self.settings.phases, self._work, self._where(self._work)
        later: Time = 0
        cost = 0.0
        if self._heading is not None or (work is None and place != self._goal):
            doing = "walk"
            takes = work.duration if work is not None else distance(place, self._goal)
        else:
            work = work or self._aside
            phase = phases[self._phase]
            doing, takes, cost = phase.name, phase.takes, phase.cost
            later = sum(phase.takes for phase in phases[self._phase + 1 :])
        spent = work.spent if work is not None else 0
        begun = spent > 0 and self._work is not None
        return Standing(place, doing, takes, takes - spent, later, cost, begun)


class _Reflexive(Agent):
    """Leaves everything to reflexes."""

    async def act(self, moment: Moment) -> Decision:
        return Decision()


def module_of(rounds: Rounds, heard: Callable[[Mapping[str, Any]], object]) -> Nested:
    """The lower level with an engagement of its own."""
    return Nested(rounds, _Reflexive(), Reflex(), seat="rounds", heard=heard)
