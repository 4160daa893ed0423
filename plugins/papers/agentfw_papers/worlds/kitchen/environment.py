"""The environment `kitchen`: dishes give signals while a pupil is tutored, with one pair of hands.

Only one thing is in hand at a time. Kitchen work is always finished; tutoring and waiting can be interrupted at once.
So what an interface costs is how long a signal goes unnoticed while the tutor explains.

    agentfw run kitchen
    agentfw run kitchen --interface step_loop --set environment.case=staggered_criticals

After the embodied scheduling task of the engagement-process paper (section 5.2.2, appendix E): its families of dishes,
problems and cases, its actions and its utility, sum of the dishes' quality + problems explained - c_t T - c_sw switches
- c_chk checks. Two things are ours by choice: while the agent decides, the tutor goes on, for they are two policies
(in the paper the one that was interrupted waits), and a poll of the interface costs nothing, only a `check` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import Annotated

from pydantic import Field

from agentfw import Environment, Intervention, Moment, Observation, Policy, Task, Turn, World, action
from agentfw.errors import InterventionRefused
from agentfw.timeline import Scheduled, Time

from .dishes import Dish, Hands, draw_case, draw_dishes
from .kitchen_settings import KitchenSettings
from .observations import SIGNALS, goal_of, opening, shown, status
from .rule_policy import decide
from .tutoring import Lessons, load_tutor
from .tutoring_problems import draw_problems

_REFLEX = "reflex of the kitchen"
"""Id of reflex calls, which go before the agent's requests."""
_NUDGE = 20
"""Ticks after which an agent with idle hands is reminded."""


class Kitchen(Environment):
    """You cook, and you tutor a pupil meanwhile."""

    columns: Mapping[str, str] = {
        "utility": "utility",
        "critical": "critical dishes",
        "soft": "soft dishes",
        "problems": "problems",
        "elapsed": "ticks",
        "switches": "switches",
        "delay": "delay",
    }

    def __init__(self, settings: KitchenSettings | None = None, *, tutor: Policy | None = None) -> None:
        self.settings = settings or KitchenSettings()
        self._tutor = tutor
        if tutor is None and self.settings.tutor:
            self._tutor = load_tutor(self.settings.tutor, self.settings.tutor_settings)

    def goal(self) -> str:
        return goal_of(self.settings)

    def time_per_token(self) -> float:
        return self.settings.time_per_token

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        case = draw_case(self.settings, world.random("case"))
        self._burners = 1 if self.settings.variant == "one" else self.settings.burners
        self._dishes = draw_dishes(self.settings, case, world.random("dishes"))
        problems = draw_problems(self.settings, case, world.random("problems"))
        self._lessons = Lessons(world, problems, self._tutor, self._go_on)
        self._hands = Hands()
        self._by_reflex = False
        self._waiting: Scheduled | None = None
        self._nudge: Scheduled | None = None
        self._news: list[str] = []
        self._at_stove: bool | None = None
        self._paid_until: Time = 0
        self._switches = self._checks = 0
        world.at(self.settings.budget, self._close)
        self._tell("kitchen", opening(self._dishes, problems, self._burners))

    # -- what the agent can do -----------------------------------------------------------------------------------------

    @action
    def prepare(self, dish: str) -> None:
        """Get a dish ready for the stove."""
        one = self._dish(dish)

        def begin() -> None:
            self._must_be(one, "raw", "is prepared already")
            self._at_the_stove(f"prepare {one.name}", one.prepare, lambda: self._prepared(one))

        self._ask(begin)

    @action
    def stage(self, dish: str) -> None:
        """Put a prepared dish on a free burner."""
        one = self._dish(dish)

        def begin() -> None:
            self._must_be(one, "prepared", "isn't prepared" if one.state == "raw" else "was on the stove already")
            if sum(other.on_the_stove for other in self._dishes) >= self._burners:
                raise InterventionRefused("no burner is free")
            self._at_the_stove(f"stage {one.name}", self.settings.staging, lambda: self._staged(one))

        self._ask(begin)

    @action
    def finish(self, dish: str) -> None:
        """Take a dish off the stove and serve it."""
        one = self._dish(dish)

        def begin() -> None:
            if not one.on_the_stove:
                raise InterventionRefused(f"{one.name} isn't on the stove")
            self._at_the_stove(f"finish {one.name}", one.finish, lambda: self._finished(one))

        self._ask(begin)

    @action
    def tutor(self, tokens: Annotated[int, Field(ge=1)] | None = None) -> None:
        """Let the tutor explain the current problem.

        tokens: stop after so many; at the end of the problem where not given
        """
        self._ask(lambda: self._teach(tokens))

    @action
    def wait(self, ticks: Annotated[int, Field(ge=1)] | None = None) -> None:
        """Do nothing until something happens.

        ticks: and not for longer than this
        """
        self._ask(lambda: self._wait(ticks))

    @action
    def check(self) -> None:
        """Look at the stove."""

        def begin() -> None:
            self._checks += 1
            self.world.utility(-self.settings.check_cost, "check")
            self._take("check", self.settings.checking, lambda: "looked at the stove")

        self._ask(begin)

    @action
    def end(self) -> None:
        """Call it a day."""
        self._ask(self._close)

    # -- one thing at a time -------------------------------------------------------------------------------------------

    def intervene(self, intervention: Intervention) -> None:
        self._by_reflex = intervention.id == _REFLEX
        super().intervene(intervention)

    def _ask(self, begin: Callable[[], object]) -> None:
        if self._by_reflex:
            self._hands.ask_first(begin)
        else:
            self._hands.ask(begin)

    def turned(self, turn: Turn) -> None:
        self._hands.turned()
        if self._hands.idle and not (turn.calls or turn.failures or self._nudge):
            self._nudge = self.world.after(_NUDGE, self._remind)

    def _remind(self) -> None:
        self._nudge = None
        if self._hands.idle:
            self._tell("idle", "nothing is in hand")

    def _take(self, name: str, takes: Time, done: Callable[[], str]) -> None:
        """Work that needs the hands and is done to its end."""
        self._put_aside()
        self._hands.take(name)
        self.world.work(name, takes, lambda work: self._go_on(done()))

    def _go_on(self, words: str) -> None:
        """Work is done: continue with what was requested, or report that the hands are free."""
        self._news.append(words)
        if all(dish.state == "done" for dish in self._dishes) and self._lessons.current is None:
            self._close()
            return
        self._news += [f"but {refusal}" for refusal in self._hands.next()]
        if self._hands.name in ("", "wait"):  # the agent will be asked in both cases
            news, self._news = self._news, []
            self._tell("free", ", ".join(news))

    def _put_aside(self) -> None:
        """Interrupt tutoring or waiting for something else."""
        self._lessons.put_aside()
        if self._waiting is not None:
            self.world.cancel(self._waiting)
            self._waiting = None
        self._hands.take("")

    def _turn_to(self, *, stove: bool) -> None:
        if self._at_stove is not None and stove != self._at_stove:
            self._switches += 1
            self.world.utility(-self.settings.switch_cost, "switch")
        self._at_stove = stove

    # -- cooking -------------------------------------------------------------------------------------------------------

    def _at_the_stove(self, name: str, takes: Time, done: Callable[[], str]) -> None:
        self._take(name, takes, done)
        self._turn_to(stove=True)

    def _prepared(self, dish: Dish) -> str:
        dish.state = "prepared"
        return f"{dish.name} is prepared"

    def _staged(self, dish: Dish) -> str:
        dish.state, dish.staged = "cooking", self.world.now
        dish.work = self.world.work(dish.name, inf, holds=False)
        self.world.after(max(1, dish.cook + dish.jitter), lambda: self._signal(dish))
        return f"{dish.name} is on the stove"

    def _signal(self, dish: Dish) -> None:
        if dish.state != "cooking" or self._hands.name == f"finish {dish.name}":
            return  # it was already taken off
        dish.state, dish.signal = "ready", self.world.now
        assert dish.work is not None
        dish.work.complete()
        dish.work = self.world.work(dish.name, dish.lasts, holds=False)
        waited = self._hands.name == "wait"
        if waited:
            self._put_aside()
        self._tell("whistle" if dish.critical else "timer", f"{dish.name} is ready", dish=dish.name)
        if waited and self._hands.waiting:
            self._go_on(f"waited for {dish.name}")

    def _finished(self, dish: Dish) -> str:
        now = self.world.now
        ready = dish.state == "ready"
        dish.quality = 0.0 if not ready else 1.0 if now <= dish.due else 0.0 if dish.critical else self.settings.late
        dish.state, dish.finished = "done", now
        assert dish.work is not None
        dish.work.complete()
        self.world.utility(dish.quality, "dish")
        if not ready:
            return f"{dish.name} is served, raw"
        self.world.measure("delay", now - dish.signal)
        return f"{dish.name} is served, {'in time' if now <= dish.due else 'too late'}"

    def _dish(self, name: str) -> Dish:
        for dish in self._dishes:
            if dish.name == name:
                return dish
        raise InterventionRefused(
            f"there is no dish {name[:50]}; there is: {', '.join(one.name for one in self._dishes)}"
        )

    @staticmethod
    def _must_be(dish: Dish, state: str, otherwise: str) -> None:
        if dish.state != state:
            raise InterventionRefused(f"{dish.name} {otherwise}")

    # -- tutoring and waiting ------------------------------------------------------------------------------------------

    def _teach(self, tokens: int | None) -> None:
        if self._lessons.current is None:
            raise InterventionRefused("all problems are explained")
        if not self._lessons.running:
            self._put_aside()
            self._turn_to(stove=False)
            self._hands.take("tutor")
        self._lessons.go_on(tokens)

    def _wait(self, ticks: int | None) -> None:
        if ticks is None and not any(dish.state == "cooking" for dish in self._dishes):
            raise InterventionRefused("there is no signal to wait for")
        self._put_aside()
        self._hands.take("wait")
        if ticks is not None:
            self._waiting = self.world.after(min(ticks, self.settings.budget), lambda: self._go_on("waited"))

    # -- what is told, and how it went ---------------------------------------------------------------------------------

    def _tell(self, name: str, words: str, **data: str) -> None:
        self._pay_time()
        if self._nudge is not None:
            self.world.cancel(self._nudge)
            self._nudge = None
        view = shown(self._dishes, self._lessons.problems, self._burners, self._hands.name)
        self.world.observe(name, {**data, **view}, text=f"{words}. {status(view)}")

    def _pay_time(self) -> None:
        passed, self._paid_until = self.world.now - self._paid_until, self.world.now
        if passed:
            self.world.utility(-self.settings.time_cost * passed, "time")

    def _close(self) -> None:
        self._hands.forget()
        self._put_aside()
        self._pay_time()
        self.world.finish(**self.outcome())

    def outcome(self) -> Mapping[str, float]:
        found: dict[str, float] = {"dishes": _mean([dish.quality for dish in self._dishes])}
        for name, critical in (("critical", True), ("soft", False)):
            some = [dish.quality for dish in self._dishes if dish.critical is critical]
            if some:
                found[name] = _mean(some)
        # A dish that was never finished was late until the end.
        delays = [
            (dish.finished if dish.state == "done" else self.world.now) - dish.signal
            for dish in self._dishes
            if dish.signal
        ]
        return {
            **found,
            "elapsed": float(self.world.now),
            "delay": _mean(delays),
            "switches": float(self._switches),
            "checks": float(self._checks),
            **self._lessons.figures(),
        }

    # -- what acts by rule ---------------------------------------------------------------------------------------------

    def reflex(self, observation: Observation) -> Iterable[Intervention]:
        """On a signal, finish what is ready: critical dishes first, then by deadline."""
        if observation.name not in SIGNALS:
            return []
        ready = [dish for dish in self._dishes if dish.state == "ready" and self._hands.name != f"finish {dish.name}"]
        first = min(ready, key=lambda dish: (not dish.critical, dish.due))
        return [Intervention("finish", {"dish": first.name}, _REFLEX)]

    def demonstrate(self, moment: Moment) -> Iterable[Intervention | str]:
        """The demonstration: the rule of the `kitchen` policy."""
        return decide(moment)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
