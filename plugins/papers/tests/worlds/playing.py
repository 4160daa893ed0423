"""Episodes that tests look at: an agent that goes by a rule, and one episode of any environment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from agentfw import Engagement, Episode, Intervention, Moment, Policy, PolicyAgent, Task
from agentfw.agent import Agent, Decision
from agentfw.environment import Environment
from agentfw.episode import Event

Rule = Callable[[Moment], Iterable[Intervention]]


class Ruled(Agent):
    """Does what a rule says, and takes no time to decide."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    async def act(self, moment: Moment) -> Decision:
        return Decision(list(self.rule(moment)))


def play(
    environment: Environment, player: Agent | Policy, task: Task | None = None, *more: Any, **options: Any
) -> Episode:
    """One episode; a policy plays by itself."""
    agent = player if isinstance(player, Agent) else PolicyAgent(player)
    return asyncio.run(Engagement(environment, agent, *more, **options).run(task or Task(0, seed=3)))


class Read(dict[str, float]):
    """An outcome that knows which of its figures were read."""

    def __init__(self, outcome: Mapping[str, float]) -> None:
        super().__init__(outcome)
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> float:
        self.names.add(name)
        return super().__getitem__(name)


def observed(episode: Episode, *names: str) -> list[Event]:
    return [event for event in episode.events if event.kind == "observation" and event.name in names]


def refusals(episode: Episode) -> list[str]:
    return [str(event.data["reason"]) for event in episode.events if event.kind == "refused"]
