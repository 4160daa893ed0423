"""Agents that follow a rule, and worlds in which things happen at given times, for tests of engagements."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from agentfw import Agent, Decision, Engagement, Environment, World, action
from agentfw.episode import Episode, Event, Intervention, Observation, Task
from agentfw.errors import InterventionRefused
from agentfw.interfaces import EventDriven, Interface, Polling, Reflex, StepLoop
from agentfw.request import InFlight, Moment
from agentfw.timeline import Work
from agentfw.tool import Tool

Rule = Callable[[Moment], Decision]
INTERFACES: list[Interface] = [EventDriven(), StepLoop(), Polling(3), Reflex()]


class Ruled(Agent):
    """Does what a rule says, and remembers what it was shown."""

    def __init__(self, rule: Rule = lambda moment: Decision(), *, breaks_off: bool = True) -> None:
        self.rule, self.breaks_off, self.moments = rule, breaks_off, list[Moment]()
        self.offered: dict[str, Tool] = {}

    async def act(self, moment: Moment) -> Decision:
        self.moments.append(moment)
        return self.rule(moment)

    def attend(self, observations: Sequence[Observation], thought: InFlight) -> bool:
        return self.breaks_off

    @property
    def tools(self) -> dict[str, Tool]:
        return self.offered

    def sets(self) -> list[tuple[float, list[str]]]:
        """When it was shown what."""
        return [(moment.now, [one.name for one in moment.observations]) for moment in self.moments]


class Planned(Environment):
    """Things that happen at given times, and works that can be begun, put aside and taken up again."""

    def __init__(self, *plan: tuple[float, str]) -> None:
        self.plan = plan

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        self.works: list[Work] = []
        for when, what in self.plan:
            world.at(when, lambda what=what: self.happen(what))  # type: ignore[misc]

    def happen(self, what: str) -> None:
        if what == "finish":
            self.world.finish(score=1.0)
        elif what.startswith("work"):
            self.start(self.world.now * 0 + int(what[4:] or 5))
        elif what == "aside":
            self.aside()
        elif what == "resume":
            self.resume()
        else:
            self.world.observe(what)

    @action
    def start(self, duration: float, holds: bool = True) -> None:
        """Begin a work."""
        self.works.append(self.world.work("work", duration, holds=holds))

    @action
    def aside(self) -> None:
        """Put everything aside."""
        for work in self.works:
            work.interrupt()

    @action
    def resume(self) -> None:
        """Take everything up again."""
        for work in self.works:
            work.resume()

    @action(takes=2)
    def slow(self, well: bool = True) -> None:
        """Do something that takes two, and may turn out to be impossible."""
        if not well:
            raise InterventionRefused("too late")
        self.world.observe("slow done")


def do(*names: str, takes: float = 0, wake: float | None = None, **arguments: Any) -> Decision:
    return Decision([Intervention(name, arguments) for name in names], takes, wake)


def play(environment: Environment, agent: Agent, interface: Interface | None = None, **options: Any) -> Episode:
    task = options.pop("task", Task(0, seed=7))
    return asyncio.run(Engagement(environment, agent, interface, **options).run(task))


def kinds(episode: Episode, kind: str) -> list[Event]:
    return [event for event in episode.events if event.kind == kind]
