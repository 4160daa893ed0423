"""Creates the components of a run from a resolved spec.

All names and settings are checked before the first component is created, so a typo in the last one costs no work and
leaves nothing behind.

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
from ..settings import validate
from ..tool import Tool, Toolbox
from ..tracker import Tracker
from .components import blamed, make
from .deadline import with_deadline
from .folder import RunFolder
from .learning import Learning, check_trainable, make_learning
from .spec import COMPONENTS, Choice, RunSpec

__all__ = ["Assembly", "assemble", "resolve", "resolve_again"]


@dataclass(slots=True)
class Assembly:
    """The live components of one run."""

    spec: RunSpec
    host: Host
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


def resolve(spec: RunSpec, host: Host) -> tuple[RunSpec, dict[str, str]]:
    """The spec with complete settings for every component, and the distribution that each component comes from."""
    sources: dict[str, str] = {}

    def complete(kind: str, choice: Choice, where: str) -> Choice:
        registered = host.find(kind, choice.name)
        sources[f"{kind} {choice.name}"] = f"{registered.record.distribution}=={registered.record.version}"
        checked = validate(host.settings_model(kind, choice.name), choice.settings, where)
        settings = checked.model_dump(mode="json") if checked is not None else {}
        return choice.model_copy(update={"settings": settings})

    completed: dict[str, Choice | tuple[Choice, ...]] = {}
    for key, kind in COMPONENTS.items():
        chosen = getattr(spec, key)
        if isinstance(chosen, Choice):
            completed[key] = complete(kind, chosen, key)
        elif chosen is not None:
            completed[key] = tuple(complete(kind, choice, f"{kind}.{choice.name}") for choice in chosen)
    return spec.model_copy(update=completed), sources


def resolve_again(spec: RunSpec, folder: RunFolder, host: Host) -> RunSpec:
    """Check the resolved spec of an existing run. Plugins that have changed since then are noted."""
    resolved, sources = resolve(spec, host)
    for component, source in folder.about.get("components", {}).items():
        if sources.get(component) != source:
            host.notes.append(f"{component} came from {source} and now comes from {sources.get(component)}")
    return resolved


def assemble(spec: RunSpec, host: Host) -> Assembly:
    """Create the components of a resolved spec."""
    policy = make(host, "policy", spec.policy, Policy, "policy")
    if spec.optimizer is not None:
        check_trainable(policy, spec.policy.name)
    policy = with_deadline(policy, spec.policy.name, spec.deadline)
    return Assembly(
        spec=spec,
        host=host,
        environment=make(host, "environment", spec.environment, Environment, "environment"),
        policy=policy,
        memories=[make(host, "memory", choice, Memory) for choice in spec.memories],
        toolboxes=[make(host, "tool", choice, Toolbox) for choice in spec.tools],
        tools=[],
        rewards={choice.name: make(host, "reward", choice, RewardModel) for choice in spec.rewards},
        weights={choice.name: parse_schedule(choice.weight) for choice in spec.rewards},
        trackers=[make(host, "tracker", choice, Tracker) for choice in spec.trackers],
        learning=make_learning(spec, host, policy),
    )
