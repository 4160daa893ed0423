"""Nested engagements: an agent in its own world can be a module of another agent's world.

To the outer agent, the module is part of its world: commands to the module are interventions, and its reports are
observations. To the inner agent, commands are observations and `report` is an intervention.

    patrol = Nested(Grid(), navigator, StepLoop())              # the navigator's own world, on the same clock
    Engagement(Composed(Town(), {"legs": patrol}), planner)     # planner: Intervention("legs.command", {"to": "A"})

`Composed` puts modules next to a world. An intervention `module.action` goes to the module, and the module's reports
appear as `module.name`. When a module ends, it reports `module.ended`, and the world continues.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..agent import Agent
from ..environment import Environment, World
from ..episode import Intervention, Observation, Task, Turn
from ..errors import InterventionRefused
from ..interfaces import Interface
from ..request import Action, Brief
from .engagement import Engagement

__all__ = ["Composed", "Nested"]

_ANYTHING: Mapping[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


class Nested(Environment):
    """An inner agent in its inner world. Commands to it arrive as `command`; its `report` goes to the outer agent."""

    def __init__(
        self,
        environment: Environment,
        agent: Agent,
        interface: Interface | None = None,
        *,
        seat: str = "",
        heard: Callable[[Mapping[str, Any]], object] | None = None,
    ) -> None:
        """`seat` is its name in the record. Default: its name in `Composed`.

        `heard` is called with each report, for a world that has the module to itself. Default: the outer agent
        observes it.
        """
        self.environment, self.agent, self.interface, self.seat = environment, agent, interface, seat
        self.heard = heard

    def brief(self) -> Brief:
        return Brief("A module that takes commands.", (Action("command", "Tell the module what to do", _ANYTHING),))

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        report = self.heard or (lambda arguments: world.observe("report", dict(arguments)))
        self._inner = Engagement(_Reporting(self.environment, report), self.agent, self.interface)
        above = getattr(world, "seat", "")
        seat = self.seat or getattr(world, "name", "inner")
        self._inner.start(
            world.timeline,
            world.episode,
            world.seeds,
            seat=f"{above}/{seat}" if above else seat,
            ended=lambda: world.observe("ended", self._inner.outcome),
        )

    def intervene(self, intervention: Intervention) -> None:
        if intervention.name != "command":
            raise InterventionRefused(f'a module takes "command", not "{intervention.name}"')
        if self._inner.over:
            raise InterventionRefused("the module has ended")
        self._inner.deliver(Observation(self.world.now, "command", dict(intervention.arguments)))


class Composed(Environment):
    """A world with named modules next to it."""

    def __init__(self, environment: Environment, modules: Mapping[str, Environment]) -> None:
        self.environment, self.modules = environment, modules
        self.headline, self.lower_is_better = environment.headline, environment.lower_is_better

    def brief(self) -> Brief:
        brief = self.environment.brief()
        more = [
            replace(action, name=f"{name}.{action.name}")
            for name, module in self.modules.items()
            for action in module.brief().actions
        ]
        return replace(brief, actions=(*brief.actions, *more))

    def profile(self) -> Mapping[str, str]:
        return self.environment.profile()

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

    def tasks(self, count: int, seed: int, split: str) -> Sequence[Task]:
        return self.environment.tasks(count, seed, split)

    def reflex(self, observation: Observation) -> Iterable[Intervention]:
        name, dot, rest = observation.name.partition(".")
        if not dot or name not in self.modules:
            return self.environment.reflex(observation)
        answers = self.modules[name].reflex(replace(observation, name=rest))
        return [replace(answer, name=f"{name}.{answer.name}") for answer in answers]


class _Reporting(Composed):
    """The inner world with one more action, `report`, which goes to the outer agent."""

    def __init__(self, environment: Environment, report: Callable[[Mapping[str, Any]], object]) -> None:
        super().__init__(environment, {})
        self._report = report

    def brief(self) -> Brief:
        brief = super().brief()
        return replace(brief, actions=(*brief.actions, Action("report", "Tell who gave the command", _ANYTHING)))

    def intervene(self, intervention: Intervention) -> None:
        if intervention.name == "report":
            self._report(intervention.arguments)
        else:
            super().intervene(intervention)


class _Prefixed:
    """A world that prefixes its observations with the name of its module."""

    def __init__(self, world: World, name: str) -> None:
        self._world, self.name = world, name
        self.seeds = world.seeds.child(name)  # so that two modules of one kind don't see the same random events

    def random(self, name: str) -> random.Random:
        return self._world.random(f"{self.name}.{name}")

    def observe(self, name: str, data: Mapping[str, Any] | None = None, *, text: str = "") -> None:
        self._world.observe(f"{self.name}.{name}", data, text=text)

    def finish(self, **outcome: float) -> None:
        """Report that the module has ended. The world it belongs to continues."""
        self.observe("ended", outcome)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world, name)
