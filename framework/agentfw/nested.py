"""An engagement as a module of an agent: the same interface again, one level down.

The one rule: to the outer agent the module is part of its world: commands to it are interventions, what it reports are
observations. To the inner agent the commands are observations, and `report` is an intervention.

    patrol = Nested(Grid(), navigator, StepLoop())                   # the navigator's own world, on the same clock
    Engagement(Composed(Town(), {"legs": patrol}), planner)          # planner: Intervention("legs.command", {"to": "A"})

`Composed` puts modules beside a world: an intervention `module.action` goes to the module, and what the module lets be
known comes out as `module.name`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from .agent import Agent
from .engagement import Engagement
from .environment import Action, Brief, Environment, World
from .episode import Intervention, Observation, Task, Turn
from .errors import InterventionRefused
from .interfaces import Interface

__all__ = ["Composed", "Nested"]

_ANYTHING: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


class Nested(Environment):
    """An inner agent in its inner world. What it is told arrives as `command`; its `report` comes out."""

    def __init__(
        self, environment: Environment, agent: Agent, interface: Interface | None = None, *, seat: str = "inner"
    ) -> None:
        self.environment, self.agent, self.interface, self.seat = environment, agent, interface, seat

    def brief(self) -> Brief:
        return Brief("A module that takes commands.", (Action("command", "Tell the module what to do", _ANYTHING),))

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        self._inner = Engagement(_Reporting(self.environment, self._report), self.agent, self.interface)
        self._inner.start(
            world.timeline, world.episode, world.seeds, seat=self.seat, ended=lambda: world.observe("ended")
        )

    def intervene(self, intervention: Intervention) -> None:
        if intervention.name != "command":
            raise InterventionRefused(f'a module takes "command", not "{intervention.name}"')
        self._inner.deliver(Observation(self.world.now, "command", dict(intervention.arguments)))

    def _report(self, arguments: Mapping[str, Any]) -> None:
        self.world.observe("report", dict(arguments))


class _Reporting(Environment):
    """The inner world, with one more action: to report upwards."""

    def __init__(self, environment: Environment, report: Callable[[Mapping[str, Any]], None]) -> None:
        self._environment, self._report = environment, report

    def brief(self) -> Brief:
        brief = self._environment.brief()
        return replace(brief, actions=(*brief.actions, Action("report", "Tell who gave the command", _ANYTHING)))

    def begin(self, world: World, task: Task) -> None:
        self._environment.begin(world, task)

    def intervene(self, intervention: Intervention) -> None:
        if intervention.name == "report":
            self._report(intervention.arguments)
        else:
            self._environment.intervene(intervention)

    def turned(self, turn: Turn) -> None:
        self._environment.turned(turn)

    def reflex(self, observation: Observation) -> Any:
        return self._environment.reflex(observation)


class Composed(Environment):
    """A world with modules beside it, each under a name."""

    def __init__(self, environment: Environment, modules: Mapping[str, Environment]) -> None:
        self.environment, self.modules = environment, modules

    def brief(self) -> Brief:
        brief = self.environment.brief()
        more = [
            replace(action, name=f"{name}.{action.name}")
            for name, module in self.modules.items()
            for action in module.brief().actions
        ]
        return replace(brief, actions=(*brief.actions, *more))

    def begin(self, world: World, task: Task) -> None:
        self.environment.begin(world, task)
        for name, module in self.modules.items():
            module.begin(_Prefixed(world, name), task)

    def intervene(self, intervention: Intervention) -> None:
        name, dot, action = intervention.name.partition(".")
        if dot and name in self.modules:
            self.modules[name].intervene(replace(intervention, name=action))
        else:
            self.environment.intervene(intervention)

    def turned(self, turn: Turn) -> None:
        self.environment.turned(turn)

    def outcome(self) -> Mapping[str, float]:
        return self.environment.outcome()

    def reflex(self, observation: Observation) -> Any:
        return self.environment.reflex(observation)


class _Prefixed:
    """A world whose observations carry the name of the module that made them."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self._name = world, name

    def observe(self, name: str, data: Mapping[str, Any] | None = None, *, text: str = "") -> None:
        self._world.observe(f"{self._name}.{name}", data, text=text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)

