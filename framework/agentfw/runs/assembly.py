"""From the names in a spec to live components: everything is made, or nothing is.

The one rule: names and settings are all checked before the first component is made, so a spelling mistake in the last
of them costs no work and leaves nothing behind.

    resolved, sources = resolve(spec, host)
    assembly = assemble(resolved, host)
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
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
from ..policy import Policy, Sampling
from ..policy_agent import PolicyAgent
from ..scores import RewardModel, Schedule, parse_schedule
from ..settings import validate
from ..tool import Tool, Toolbox
from ..tracker import Tracker
from .folder import RunFolder
from .spec import COMPONENTS, Choice, CommonSpec

__all__ = ["Assembly", "about_run", "assemble", "blamed", "make", "resolve", "resolve_again"]

Made = TypeVar("Made")
AnySpec = TypeVar("AnySpec", bound=CommonSpec)


@dataclass(slots=True)
class Assembly:
    """The live components of one run."""

    spec: CommonSpec
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
        return make(self.host, "environment", choice, Environment, "environment")

    def engagement(self, policy: Policy, sampling: Sampling, watch: Watch | None) -> Engagement:
        """One agent in one fresh world."""
        spec = self.spec
        agent: Agent = PolicyAgent(
            policy, self.tools, self.memories, sampling=sampling, window=spec.window, recall=spec.recall
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

    def tasks(self, count: int, split: str) -> list[Task]:
        """At most so many tasks of a split, in order."""
        name = self.spec.environment.name
        with blamed(f'environment "{name}"'):
            found = list(self.environment().tasks(count, self.spec.seed, split))
        if not found:
            raise UsageError(
                f'environment "{name}" has no task in the split "{split}"',
                fix="set another split, or give it tasks",
            )
        if len({task.index for task in found}) < len(found):
            raise PluginError(f'environment "{name}" gave two tasks one index', fix="number its tasks from 0")
        return found

    def references(self, tasks: Sequence[Task]) -> dict[str, list[dict[str, float]]]:
        """What simple players reach in these tasks, as far as the environment knows: by name, a row each."""
        found: dict[str, list[dict[str, float]]] = {}
        environment, name = self.environment(), self.spec.environment.name
        for task in tasks:
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
            raise PluginError(f"two tools are called {', '.join(twice)}", fix="leave one out, or give one a prefix")

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
        raise PluginError(f"{who} failed: {describe(error)}", fix="--debug shows where; fix the plugin") from error


def resolve(spec: AnySpec, host: Host) -> tuple[AnySpec, dict[str, str]]:
    """The spec with every component's settings complete, and which distribution each component comes from."""
    sources: dict[str, str] = {}

    def complete(kind: str, choice: Choice, where: str) -> Choice:
        registered = host.find(kind, choice.name)
        sources[f"{kind} {choice.name}"] = f"{registered.record.distribution}=={registered.record.version}"
        checked = validate(host.settings_model(kind, choice.name), choice.settings, where)
        settings = checked.model_dump(mode="json") if checked is not None else {}
        return choice.model_copy(update={"settings": settings})

    completed: dict[str, Choice | tuple[Choice, ...]] = {}
    for key, kind in COMPONENTS.items():
        chosen = getattr(spec, key, None)
        if isinstance(chosen, Choice):
            completed[key] = complete(kind, chosen, key)
        elif chosen is not None:
            completed[key] = tuple(complete(kind, choice, f"{kind}.{choice.name}") for choice in chosen)
    return spec.model_copy(update=completed), sources


def resolve_again(spec: AnySpec, folder: RunFolder, host: Host) -> AnySpec:
    """The resolved spec of a run that is there already; a plugin that has changed since is noted."""
    resolved, sources = resolve(spec, host)
    for component, source in folder.about.get("components", {}).items():
        if sources.get(component) != source:
            host.notes.append(f"{component} came from {source} and comes from {sources.get(component)} now")
    return resolved


def about_run(spec: CommonSpec, sources: Mapping[str, str], assembly: Assembly, host: Host) -> dict[str, Any]:
    """What run.json says of every run."""
    from .. import __version__

    environment = assembly.environment()
    return {
        "agentfw": __version__,
        "headline": environment.headline,
        "lower_is_better": environment.lower_is_better,
        "columns": dict(environment.columns),
        "spec": spec.model_dump(mode="json"),
        "components": sources,
        "plugins": {
            record.name: f"{record.distribution}=={record.version}"
            for record in host.plugins
            if record.state == "active"
        },
    }


def assemble(spec: CommonSpec, host: Host) -> Assembly:
    """Make the components of a resolved spec."""
    assembly = Assembly(
        spec=spec,
        host=host,
        policy=make(host, "policy", spec.policy, Policy, "policy"),
        memories=[make(host, "memory", choice, Memory) for choice in spec.memories],
        toolboxes=[make(host, "tool", choice, Toolbox) for choice in spec.tools],
        tools=[],
        rewards={choice.name: make(host, "reward", choice, RewardModel) for choice in spec.rewards},
        weights={choice.name: parse_schedule(choice.weight) for choice in spec.rewards},
        trackers=[make(host, "tracker", choice, Tracker) for choice in spec.trackers],
    )
    assembly.environment()  # one that can't be made is told now, not in the first episode
    return assembly


def make(host: Host, kind: str, choice: Choice, protocol: type[Made], where: str = "") -> Made:
    """One component of a resolved spec, checked to be what its plugin says it is."""
    made = host.create(kind, choice.name, choice.settings, where=where or f"{kind}.{choice.name}")
    if not isinstance(made, protocol):
        source = host.find(kind, choice.name).record.distribution
        raise PluginError(
            f'{kind} "{choice.name}" of {source} is no {protocol.__name__} but {type(made).__name__}',
            fix=f"derive its class from agentfw.{protocol.__name__}; agentfw plugins check {choice.name} says more",
        )
    return made
