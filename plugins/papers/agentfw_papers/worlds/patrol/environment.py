"""The environment `patrol`: a round of checkpoints on a grid, while alarms elsewhere expire.

The round continues by itself until the agent responds to an alarm; saying nothing means continuing. So what an
interface costs is how late an alarm is heard of: at any tick, or only between two pieces of work.

    agentfw run patrol
    agentfw run patrol --set environment.depth=2 --policy patrol --set policy.controller=patchpro

Two levels make a patrol. The upper one, here, has the alarms, and commands the lower one (rounds.py), which walks and
handles checkpoints and reports what is done. With `modules`, the lower level has an engagement of its own, as in
section 4 of the engagement-process paper; the agent hears and does the same.

Nothing happens tick by tick: walking and handling are works that can be left in the middle, and the next alarm is drawn
as a moment. An episode costs what happens in it, however many ticks it has.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, log
from typing import Annotated, Any

from pydantic import Field

from agentfw import Environment, Intervention, Moment, Observation, Task, Turn, World, action
from agentfw.errors import InterventionRefused
from agentfw.timeline import Time, Work

from .patrol_settings import PatrolSettings, Place, distance
from .rounds import Rounds, Standing, module_of

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
        self._alarm: _Alarm | None = None
        self._alarms = self._resolved = self._expired = self._handled = 0
        self._costs = self._active = 0.0
        self._held: Work | None = None
        if self.settings.modules:
            self._rounds = Rounds(self.settings)
            self._module = module_of(self._rounds, self._heard)
            self._module.begin(world, task)
        else:
            self._rounds = Rounds(self.settings, self._heard)
            self._rounds.begin(world, task)
        world.at(self.settings.horizon, self._close)
        self._expect_alarm()
        self._command("go_on")

    # -- the lower level -----------------------------------------------------------------------------------------------

    def _command(self, do: str, **arguments: int) -> None:
        """Tell the lower level what to do."""
        if self.settings.modules:
            self._module.intervene(Intervention("command", {"do": do, **arguments}))
            self._hold()
        else:
            self._rounds.intervene(Intervention(do, arguments))

    def _hold(self) -> None:
        """While the module works, whoever commands it is as busy as if the work were its own."""
        if self._held is not None and (self._rounds.idle or not self._held.running):
            held, self._held = self._held, None
            held.complete()
        if self._held is None and not self._rounds.idle:
            self._held = self.world.work("round", inf)

    def _heard(self, report: Mapping[str, Any]) -> None:
        """The lower level has something to report."""
        if self.settings.modules:
            self._hold()
        done = report["done"]
        if done == "left":
            self._costs += report["cost"]
            self.world.utility(-report["cost"], "left in the middle")
        elif done == "resolved":
            assert self._alarm is not None
            self._resolve(self._alarm)
        else:
            if done == "checkpoint":
                self._handled += 1
                self.world.utility(self.settings.checkpoint, "checkpoint handled")
            if self._alarm is None:
                self._command("go_on")
            else:  # the agent decides before the next piece of work
                self._tell("between")

    def turned(self, turn: Turn) -> None:
        if self._rounds.idle:
            self._command("go_on")

    # -- alarms --------------------------------------------------------------------------------------------------------

    def _expect_alarm(self) -> None:
        draw = self.world.random("alarms")
        # The first tick in which an event of this probability happens, drawn at once.
        gap = 1 + int(log(1 - draw.random()) / log(1 - self.settings.rate))
        self.world.after(gap, lambda: self._raise_alarm(draw.random(), draw.randint(*self.settings.deadline)))

    def _raise_alarm(self, which: float, lasts: int) -> None:
        here = self._rounds.standing().place
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
            self._command("leave")
            self._command("go_on")

    def _resolve(self, alarm: _Alarm) -> None:
        self._resolved += 1
        self.world.utility(self.settings.resolved, "alarm resolved")
        self.world.observe("resolved", {"at": alarm.name})
        self._over(alarm)
        self._command("go_on")

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
        self._command("attend", x=alarm.place[0], y=alarm.place[1])

    @action
    def look_again(self, after: Annotated[int, Field(ge=1)]) -> None:
        """Go on, and be told again how things stand, if you haven't responded by then.

        after: in how many ticks
        """
        alarm = self._open_alarm()
        if after > self.settings.horizon:
            raise InterventionRefused(f"the patrol lasts {self.settings.horizon} ticks")

        def look() -> None:
            if self._alarm is alarm and not alarm.answered and not self._rounds.idle:
                self._tell("look")

        self.world.after(after, look)

    def _open_alarm(self) -> _Alarm:
        if self._alarm is None:
            raise InterventionRefused("there is no alarm")
        if self._alarm.answered:
            raise InterventionRefused("you are on your way already")
        return self._alarm

    # -- how things stand ----------------------------------------------------------------------------------------------

    def _tell(self, name: str) -> None:
        """Report the situation with the alarm, as text, as values and as a table's state."""
        alarm = self._alarm
        assert alarm is not None
        stands = self._rounds.standing()
        away = distance(stands.place, alarm.place)
        remaining, needed = alarm.due - self.world.now, away + self.settings.resolving
        self.world.observe(
            name,
            {
                "at": alarm.name,
                "remaining": remaining,
                "needed": needed,
                "worth": self.settings.resolved + self.settings.expired,
                "doing": stands.doing,
                "left": stands.left,
                "takes": stands.takes,
                "later": stands.later,
                "of": len(self.settings.phases),
                "cost": stands.cost,
                "state": _state(stands, remaining - needed, away),
            },
            text=f"alarm at {alarm.name}: {needed} ticks to get there and resolve it, {remaining:g} until it expires; "
            f"{stands.doing}: {stands.left:g} of {stands.takes:g} ticks to go",
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


def _state(stands: Standing, margin: Time, away: int) -> str:
    """The state that a table uses."""
    doing = stands.doing if stands.begun else f"{stands.doing} next"
    if margin < 0:
        return f"{doing}, too late"
    bins = bisect_right(_LEFT, stands.left), bisect_right(_MARGINS, margin), bisect_right(_AWAY, away)
    return f"{doing}, left {bins[0]}, margin {bins[1]}, away {bins[2]}"
