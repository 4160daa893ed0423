"""Creates the components of a run from a resolved spec.

They are created together, and opened and closed together.

    resolved, sources = resolve(spec, host)
    assembly = assemble(resolved, host)
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..engagement import Engagement
from ..engine import Engine, make_engine
from ..environment import Environment
from ..episode import Episode, Task, Turn
from ..errors import PluginError, UsageError
from ..host import Host
from ..host.plugin_record import describe
from ..interfaces import parse_interface
from ..memory import Memory
from ..policy import Policy
from ..policy_agent import PolicyAgent
from ..request import Sampling
from ..scores import RewardModel, Schedule, parse_schedule
from ..tool import Tool, Toolbox
from ..tracker import Tracker
from .components import blamed, make
from .deadline import with_deadline
from .learning import Learning, check_trainable, make_learning
from .spec import RunSpec

__all__ = ["Assembly", "assemble"]


@dataclass(slots=True)
class Assembly:
    """The live components of one run."""

    spec: RunSpec
    host: Host
    engine: Engine
    environment: Environment
    """The environment that provides tasks, measures and references. Episodes are played in fresh ones."""
    policy: Policy
    memories: list[Memory]
    toolboxes: list[Toolbox]
    tools: list[Tool]
    rewards: dict[str, RewardModel]
    weights: dict[str, Schedule]
    trackers: list[Tracker]
    learning: Learning | None
    """None without an optimizer."""
    _tasks: dict[tuple[int, str], list[Task]] = field(default_factory=dict)

    def engagement(
        self, policy: Policy, sampling: Sampling, watch: Callable[[Episode, Turn], object] | None
    ) -> Engagement:
        """Create an agent in a fresh world."""
        spec = self.spec
        agent = PolicyAgent(
            policy, self.tools, self.memories, sampling=sampling, window=spec.window, recall=spec.recall
        )
        return Engagement(
            make(self.host, "environment", spec.environment, Environment, "environment"),
            agent,
            parse_interface(spec.interface),
            time_per_token=spec.time_per_token,
            horizon=spec.horizon or float("inf"),
            max_turns=spec.max_turns,
            max_events=spec.max_events,
            max_events_per_instant=spec.max_events_per_instant,
            watch=watch,
        )

    def tasks(self, count: int, split: str) -> list[Task]:
        """The first `count` tasks of a split, or fewer. The environment is asked once per count and split."""
        if (count, split) not in self._tasks:
            name = self.spec.environment.name
            with blamed(f'environment "{name}"'):
                found = list(self.environment.tasks(count, self.spec.seed, split))
            if not found:
                raise UsageError(
                    f'environment "{name}" has no task in the split "{split}"',
                    fix="choose another split, or add tasks to it",
                )
            if len({task.index for task in found}) < len(found):
                raise PluginError(f'environment "{name}" gave two tasks the same index', fix="number its tasks from 0")
            self._tasks[count, split] = found
        return self._tasks[count, split]

    def measured_tasks(self) -> list[Task]:
        """The tasks that the run's results come from."""
        count, _, split = self.spec.measured
        return self.tasks(count, split)

    def scene(self) -> str:
        """A short description of these tasks, from the environment."""
        with blamed(f'environment "{self.spec.environment.name}"'):
            return self.environment.scene(self.measured_tasks())

    def references(self) -> dict[str, list[dict[str, float]]]:
        """Results of simple players in these tasks, if the environment knows them: by name, one row per task."""
        found: dict[str, list[dict[str, float]]] = {}
        environment, name = self.environment, self.spec.environment.name
        for task in self.measured_tasks():
            with blamed(f'environment "{name}", giving references for episode {task.id},'):
                for player, figures in environment.references(task).items():
                    row = {figure: float(value) for figure, value in figures.items()}
                    if environment.headline not in row or not all(map(math.isfinite, row.values())):
                        raise ValueError(f'"{player}" has {row}: not finite, or without "{environment.headline}"')
                    found.setdefault(player, []).append(row)
        return found

    async def open(self, folder: Path) -> None:
        """Start the components: memories and reward models in the run's folder, and the servers of toolboxes."""
        with blamed("a memory"):
            for memory in self.memories:
                memory.open(folder)
        for name, model in self.rewards.items():
            with blamed(f'reward model "{name}"'):
                model.open(folder)
        with blamed("a tool"):
            # Wait for all of them even if one fails: a toolbox that is still opening can't be closed.
            answers = await asyncio.gather(*(toolbox.open() for toolbox in self.toolboxes), return_exceptions=True)
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
                self.tools += answer
        names = [tool.action.name for tool in self.tools]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise PluginError(f"two tools are called {', '.join(twice)}", fix="remove one, or give one a prefix")

    async def close(self) -> None:
        """Close every component, even if closing one of them fails."""
        components: list[Any] = [self.policy, *self.memories, *self.toolboxes, *self.rewards.values()]

        async def close(component: Any) -> None:
            try:
                await component.close()
            except Exception as error:
                self.host.notes.append(f"{type(component).__name__} could not be closed: {describe(error)}")

        if self.learning is not None:
            await close(self.learning)
        await asyncio.gather(*map(close, components))
        await asyncio.to_thread(self.engine.close)


def assemble(spec: RunSpec, host: Host) -> Assembly:
    """Create the components of a resolved spec."""
    engine = make_engine(spec.engine)
    host.provide(engine=engine)
    policy = make(host, "policy", spec.policy, Policy, "policy")
    if spec.optimizer is not None:
        check_trainable(policy, spec.policy.name)
    policy = with_deadline(policy, spec.policy.name, spec.deadline)
    return Assembly(
        spec=spec,
        host=host,
        engine=engine,
        environment=make(host, "environment", spec.environment, Environment, "environment"),
        policy=policy,
        memories=[make(host, "memory", choice, Memory) for choice in spec.memories],
        toolboxes=[make(host, "tool", choice, Toolbox) for choice in spec.tools],
        tools=[],
        rewards={choice.name: make(host, "reward", choice, RewardModel) for choice in spec.rewards},
        weights={choice.name: parse_schedule(choice.weight) for choice in spec.rewards},
        trackers=[make(host, "tracker", choice, Tracker) for choice in spec.trackers],
        learning=make_learning(spec, host, engine, policy),
    )
