"""From the names in a spec to live components: everything is made, or nothing is.

The one rule: names and settings are all checked before the first component is made, so a spelling mistake in the last
of them costs no work and leaves nothing behind.

    resolved, sources = resolve(spec, host)
    assembly = assemble(resolved, host)
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ..agent import Agent
from ..engagement import Engagement, Watch
from ..environment import Environment
from ..episode import Task
from ..errors import AgentfwError, PluginError, UsageError
from ..host import Host
from ..host.plugin_record import describe
from ..interfaces import parse_interface
from ..memory import Memory
from ..policy import Policy
from ..policy_agent import PolicyAgent
from ..scores import RewardModel, Schedule, parse_schedule
from ..seeds import Seeds
from ..settings import validate
from ..tool import Tool, Toolbox
from ..tracker import Tracker
from .spec import Choice, RunSpec

__all__ = ["Assembly", "assemble", "blamed", "resolve"]

Made = TypeVar("Made")


@dataclass(slots=True)
class Assembly:
    """The live components of one run."""

    spec: RunSpec
    host: Host
    policy: Policy
    memories: list[Memory]
    toolboxes: list[Toolbox]
    tools: list[Tool]
    rewards: dict[str, RewardModel]
    weights: dict[str, Schedule]
    trackers: list[Tracker]

    def environment(self) -> Environment:
        """A fresh one for each episode."""
        choice = self.spec.environment
        return _make(self.host, "environment", choice, Environment, "environment")

    def engagement(self, task: Task, watch: Watch | None) -> Engagement:
        """One agent in one fresh world."""
        spec = self.spec
        seed = Seeds(spec.seed).child("policy").integer(task.id)
        agent: Agent = PolicyAgent(
            self.policy,
            self.tools,
            self.memories,
            sampling=spec.sampling.sampling(seed),
            window=spec.window,
            recall=spec.recall,
        )
        return Engagement(
            self.environment(),
            agent,
            parse_interface(spec.interface),
            time_per_token=spec.time_per_token,
            horizon=spec.horizon or float("inf"),
            max_turns=spec.max_turns,
            watch=watch,
        )

    def tasks(self) -> list[Task]:
        """Every episode of the run, in order; the samples of one task side by side."""
        spec = self.spec
        with blamed(f'environment "{spec.environment.name}"'):
            found = list(self.environment().tasks(spec.episodes, spec.seed, spec.split))
        if not found:
            raise UsageError(
                f'environment "{spec.environment.name}" has no task in the split "{spec.split}"',
                mend="set another split, or give it tasks",
            )
        if len({task.index for task in found}) < len(found):
            raise PluginError(
                f'environment "{spec.environment.name}" gave two tasks one index', mend="number its tasks from 0"
            )
        return [replace(task, sample=sample) for task in found for sample in range(spec.samples)]

    def references(self) -> dict[str, list[dict[str, float]]]:
        """What simple players reach in the run's episodes, as far as the environment knows: by name, a row each."""
        found: dict[str, list[dict[str, float]]] = {}
        environment, name = self.environment(), self.spec.environment.name
        for task in self.tasks():
            if task.sample:
                continue
            with blamed(f'environment "{name}", giving references for episode {task.id},'):
                for player, figures in environment.references(task).items():
                    row = {figure: float(value) for figure, value in figures.items()}
                    if environment.headline not in row or not all(map(math.isfinite, row.values())):
                        raise ValueError(f'"{player}" has {row}: no finite figures with "{environment.headline}"')
                    found.setdefault(player, []).append(row)
        return found

    async def open(self, folder: Path) -> None:
        """Start what has to be started: memories and reward models in the run's folder, the toolboxes' servers."""
        with blamed("a memory"):
            for memory in self.memories:
                memory.open(folder)
        for name, model in self.rewards.items():
            with blamed(f'reward model "{name}"'):
                model.open(folder)
        with blamed("a tool"):
            # All of them to their end, also where one fails: one that is still opening can't be closed.
            answers = await asyncio.gather(*(toolbox.open() for toolbox in self.toolboxes), return_exceptions=True)
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
                self.tools += answer
        names = [tool.action.name for tool in self.tools]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise PluginError(f"two tools are called {', '.join(twice)}", mend="leave one out, or give one a prefix")

    def track(self, method: str, *arguments: object) -> None:
        """Tell the trackers. One that fails is noted and told nothing more: the run folder has every figure."""
        for tracker in list(self.trackers):
            try:
                getattr(tracker, method)(*arguments)
            except Exception as error:
                self.trackers.remove(tracker)
                with suppress(Exception):
                    tracker.close()
                self.host.notes.append(
                    f"tracker {type(tracker).__name__} raised {describe(error)} in {method} and is told nothing more; "
                    "the run folder has every figure"
                )

    async def close(self) -> None:
        """Let go of everything, whatever else goes wrong."""
        components: list[Any] = [self.policy, *self.memories, *self.toolboxes, *self.rewards.values()]

        async def close(component: Any) -> None:
            try:
                await component.close()
            except Exception as error:
                self.host.notes.append(f"{type(component).__name__} could not be closed: {describe(error)}")

        await asyncio.gather(*map(close, components))
        self.track("close")


@contextmanager
def blamed(who: str) -> Iterator[None]:
    """What a component raises without meaning a person to read it becomes an error of that component."""
    try:
        yield
    except AgentfwError:
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(f"{who} failed: {describe(error)}", mend="--debug shows where; mend the plugin") from error


def resolve(spec: RunSpec, host: Host) -> tuple[RunSpec, dict[str, str]]:
    """The spec with every component's settings complete, and which distribution each component comes from."""
    sources: dict[str, str] = {}

    def complete(kind: str, choice: Choice, where: str) -> Choice:
        registered = host.find(kind, choice.name)
        sources[f"{kind} {choice.name}"] = f"{registered.record.distribution}=={registered.record.version}"
        checked = validate(host.settings_model(kind, choice.name), choice.settings, where)
        settings = checked.model_dump(mode="json") if checked is not None else {}
        return choice.model_copy(update={"settings": settings})

    def complete_all(kind: str, choices: Iterable[Choice]) -> tuple[Choice, ...]:
        return tuple(complete(kind, choice, f"{kind}.{choice.name}") for choice in choices)

    resolved = spec.model_copy(
        update={
            "environment": complete("environment", spec.environment, "environment"),
            "policy": complete("policy", spec.policy, "policy"),
            "memories": complete_all("memory", spec.memories),
            "tools": complete_all("tool", spec.tools),
            "rewards": complete_all("reward", spec.rewards),
            "trackers": complete_all("tracker", spec.trackers),
        }
    )
    return resolved, sources


def assemble(spec: RunSpec, host: Host) -> Assembly:
    """Make the components of a resolved spec."""
    assembly = Assembly(
        spec=spec,
        host=host,
        policy=_make(host, "policy", spec.policy, Policy, "policy"),
        memories=[_make(host, "memory", choice, Memory) for choice in spec.memories],
        toolboxes=[_make(host, "tool", choice, Toolbox) for choice in spec.tools],
        tools=[],
        rewards={choice.name: _make(host, "reward", choice, RewardModel) for choice in spec.rewards},
        weights={choice.name: parse_schedule(choice.weight) for choice in spec.rewards},
        trackers=[_make(host, "tracker", choice, Tracker) for choice in spec.trackers],
    )
    assembly.environment()  # one that can't be made is told now, not in the first episode
    return assembly


def _make(host: Host, kind: str, choice: Choice, protocol: type[Made], where: str = "") -> Made:
    made = host.create(kind, choice.name, choice.settings, where=where or f"{kind}.{choice.name}")
    if not isinstance(made, protocol):
        source = host.find(kind, choice.name).record.distribution
        raise PluginError(
            f'{kind} "{choice.name}" of {source} is no {protocol.__name__} but {type(made).__name__}',
            mend=f"derive its class from agentfw.{protocol.__name__}; agentfw plugins check {choice.name} says more",
        )
    return made
