"""The environment `patrol`: a round of checkpoints on a grid, while alarms elsewhere expire.

The round continues by itself until the agent responds to an alarm; saying nothing means continuing. So what an
interface costs is how late an alarm is heard of: at any tick, or only between two pieces of work.

    agentfw run patrol
    agentfw run patrol --set environment.depth=2 --policy patrol --set policy.controller=patchpro

Nothing happens tick by tick: walking and handling are works that can be left in the middle, and the next alarm is drawn
as a moment. An episode costs what happens in it, however many ticks it has.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import log
from typing import Annotated

from pydantic import Field

from agentfw import Environment, Intervention, Moment, Observation, Task, Turn, World, action
from agentfw.errors import InterventionRefused
from agentfw.timeline import Time, Work

from .patrol_settings import PatrolSettings, Place, distance, walked

__all__ = ["Patrol", "PatrolSettings", "Situation", "situation"]

_NAMES = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_MARGINS, _LEFT, _AWAY = (3, 6, 9, 13), (4, 7, 10, 13), (8, 12)
"""Bounds of the bins of margins, remaining work and distances in a table's state."""


@dataclass(slots=True)
class _Alarm:
    place: Place
    name: str
    due: Time
    since: Time
    answered: bool = False


@dataclass(frozen=True, slots=True)
class Situation:
    """What a controller knows while an alarm waits for a response."""

    doing: str
    """`walk`, or the current or next phase."""
    left: Time
    """Remaining ticks of the current work."""
    takes: Time
    later: Time
    """Ticks of the phases after this one."""
    of: int
    """Number of phases."""
    cost: float
    """Cost of leaving this phase unfinished."""
    remaining: Time
    """Ticks until the alarm expires."""
    needed: Time
    """Ticks to walk to the alarm and to resolve it."""
    worth: float
    """Reward of resolving it plus cost of its expiry."""


def situation(moment: Moment) -> Situation | None:
    """The situation from the last observation, as of now; None if there is no alarm to respond to.

    The distance of the alarm is as of the observation.
    """
    for observation in reversed(moment.observations):
        data = observation.data
        if "remaining" in data:
            passed = moment.now - observation.time
            return Situation(
                doing=str(data["doing"]),
                left=max(0, data["left"] - passed),
                takes=data["takes"],
                later=data["later"],
                of=int(data["of"]),
                cost=data["cost"],
                remaining=data["remaining"] - passed,
                needed=data["needed"],
                worth=data["worth"],
            )
    return None


class Patrol(Environment):
    """You patrol four checkpoints, over and over, and handle each of them. That goes on by itself.

    Now and then there is an alarm at another checkpoint. It must be resolved before it expires: you have to walk there
    and stay for some ticks. Respond to it, and you leave what you are doing, at once; afterwards the round goes on
    where you left it. Leaving in the middle of a phase may cost something. If you do nothing, the round goes on.
    """

    def __init__(self, settings: PatrolSettings | None = None) -> None:
        self.settings = settings or PatrolSettings()

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        self._place = self.settings.checkpoints[0]
        self._target = self._phase = 0
        self._work: Work | None = None
        self._heading: Place | None = None
        """Where it is walking to; None if it isn't walking."""
        self._aside: Work | None = None
        self._alarm: _Alarm | None = None
        self._alarms = self._resolved = self._expired = self._handled = 0
        self._costs = self._active = 0.0
        world.at(self.settings.horizon, self._close)
        self._expect_alarm()
        self._go_on()

    # -- the round -----------------------------------------------------------------------------------------------------

    def _go_on(self) -> None:
        if self._place != self._goal:
            self._walk("walk", self._goal, self._between)
        elif self._aside is not None:
            self._work, self._aside = self._aside, None
            self._work.resume()
        else:
            phase = self.settings.phases[self._phase]
            self._work = self.world.work(phase.name, phase.takes, self._phase_done)

    def _walk(self, name: str, to: Place, arrived: Callable[[], object]) -> None:
        def there(work: Work) -> None:
            self._place, self._heading = to, None
            arrived()

        self._heading = to
        self._work = self.world.work(name, distance(self._place, to), there)

    def _phase_done(self, work: Work) -> None:
        self._phase += 1
        if self._phase == len(self.settings.phases):
            self._phase = 0
            self._handled += 1
            self._target = (self._target + 1) % len(self.settings.checkpoints)
            self.world.utility(self.settings.checkpoint, "checkpoint handled")
        self._between()

    def _between(self) -> None:
        """A piece of work is done. If there is an alarm, the agent decides before the next one."""
        self._work = None
        if self._alarm is None:
            self._go_on()
        else:
            self._tell("between")

    def turned(self, turn: Turn) -> None:
        if self._work is None:
            self._go_on()

    # -- alarms --------------------------------------------------------------------------------------------------------

    def _expect_alarm(self) -> None:
        draw = self.world.random("alarms")
        # The first tick in which an event of this probability happens, drawn at once.
        gap = 1 + int(log(1 - draw.random()) / log(1 - self.settings.rate))
        self.world.after(gap, lambda: self._raise_alarm(draw.random(), draw.randint(*self.settings.deadline)))

    def _raise_alarm(self, which: float, lasts: int) -> None:
        here = self._where()
        far = [
            (name, place)
            for name, place in zip(_NAMES, self.settings.checkpoints, strict=False)
            if distance(here, place) >= self.settings.distance
        ]
        if not far:
            self._expect_alarm()
            return
        name, place = far[int(which * len(far))]
        self._alarm = alarm = _Alarm(place, name, self.world.now + lasts, self.world.now)
        self._alarms += 1
        # In two steps, so that an alarm resolved at its deadline is in time.
        self.world.at(alarm.due, lambda: self.world.after(0, lambda: self._due(alarm)))
        self._tell("alarm")

    def _due(self, alarm: _Alarm) -> None:
        if self._alarm is not alarm:
            return
        self._expired += 1
        self.world.utility(-self.settings.expired, "alarm expired")
        self.world.observe("expired", {"at": alarm.name})
        self._over(alarm)
        if alarm.answered:
            self._leave()
            self._go_on()

    def _resolve(self, alarm: _Alarm) -> None:
        self._resolved += 1
        self.world.utility(self.settings.resolved, "alarm resolved")
        self.world.observe("resolved", {"at": alarm.name})
        self._over(alarm)
        self._go_on()

    def _over(self, alarm: _Alarm) -> None:
        lasted = self.world.now - alarm.since
        self._active += lasted
        self.world.utility(-self.settings.active * lasted, "alarm active")
        self._alarm = None
        self._expect_alarm()

    # -- what the agent can do -----------------------------------------------------------------------------------------

    @action
    def respond(self) -> None:
        """Leave what you are doing, walk to the alarm, and resolve it."""
        alarm = self._open_alarm()
        alarm.answered = True
        self._leave()

        def arrived() -> None:
            self._work = self.world.work("resolve", self.settings.resolving, lambda work: self._resolve(alarm))

        self._walk("to the alarm", alarm.place, arrived)

    @action
    def look_again(self, after: Annotated[int, Field(ge=1)]) -> None:
        """Go on, and be told again how things stand, if you haven't responded by then.

        after: in how many ticks
        """
        alarm = self._open_alarm()
        if after > self.settings.horizon:
            raise InterventionRefused(f"the patrol lasts {self.settings.horizon} ticks")

        def look() -> None:
            if self._alarm is alarm and not alarm.answered and self._work is not None:
                self._tell("look")

        self.world.after(after, look)

    def _open_alarm(self) -> _Alarm:
        if self._alarm is None:
            raise InterventionRefused("there is no alarm")
        if self._alarm.answered:
            raise InterventionRefused("you are on your way already")
        return self._alarm

    def _leave(self) -> None:
        """Leave the current work; leaving a phase that has begun has a cost."""
        work, self._work = self._work, None
        if work is None:
            return
        if self._heading is not None:
            self._place, self._heading = self._where(work), None
            work.cancel()
        elif self._alarm is None:  # it was resolving one that has expired
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
            self._costs += cost
            self.world.utility(-cost, "left in the middle")

    # -- how things stand ----------------------------------------------------------------------------------------------

    @property
    def _goal(self) -> Place:
        """Position of the next or current checkpoint."""
        return self.settings.checkpoints[self._target]

    def _where(self, work: Work | None = None) -> Place:
        work = work or self._work
        if self._heading is None or work is None:
            return self._place
        return walked(self._place, self._heading, int(work.spent))

    def _tell(self, name: str) -> None:
        """Report the situation with the alarm, as text, as values and as a table's state."""
        alarm = self._alarm
        assert alarm is not None
        phases, place = self.settings.phases, self._where()
        work = self._work
        cost = 0.0
        if self._heading is not None or (work is None and place != self._goal):
            doing, later = "walk", 0
            takes = work.duration if work is not None else distance(place, self._goal)
        else:
            work = work or self._aside
            phase = phases[self._phase]
            doing, takes, cost = phase.name, phase.takes, phase.cost
            later = sum(phase.takes for phase in phases[self._phase + 1 :])
        spent = work.spent if work is not None else 0
        begun = spent > 0 and self._work is not None
        away = distance(place, alarm.place)
        left, remaining, needed = takes - spent, alarm.due - self.world.now, away + self.settings.resolving
        self.world.observe(
            name,
            {
                "at": alarm.name,
                "remaining": remaining,
                "needed": needed,
                "worth": self.settings.resolved + self.settings.expired,
                "doing": doing,
                "left": left,
                "takes": takes,
                "later": later,
                "of": len(phases),
                "cost": cost,
                "state": _state(doing if begun else f"{doing} next", left, remaining - needed, away),
            },
            text=f"alarm at {alarm.name}: {needed} ticks to get there and resolve it, {remaining:g} until it expires; "
            f"{doing}: {left:g} of {takes:g} ticks to go",
        )

    def _close(self) -> None:
        if self._alarm is not None:
            self.world.utility(-self.settings.active * (self.world.now - self._alarm.since), "alarm active")
        self.world.finish(**self.outcome())

    def outcome(self) -> Mapping[str, float]:
        return {
            "alarms": float(self._alarms),
            "resolved": float(self._resolved),
            "expired": float(self._expired),
            "handled": float(self._handled),
            "cost": self._costs,
            "active": self._active,
        }

    def demonstrate(self, moment: Moment) -> Iterable[Intervention | str]:
        """Respond to whatever can still be reached."""
        now = situation(moment)
        if now is not None and now.remaining >= now.needed:
            yield Intervention("respond")

    def reflex(self, observation: Observation) -> Iterable[Intervention]:
        """Respond to an alarm as soon as it is raised, whatever it takes."""
        return [Intervention("respond")] if observation.name == "alarm" else []


def _state(doing: str, left: Time, margin: Time, away: int) -> str:
    """The state that a table uses."""
    if margin < 0:
        return f"{doing}, too late"
    bins = bisect_right(_LEFT, left), bisect_right(_MARGINS, margin), bisect_right(_AWAY, away)
    return f"{doing}, left {bins[0]}, margin {bins[1]}, away {bins[2]}"
