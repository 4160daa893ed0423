"""The environment `verifiers`: each task is an example of an environment of the library verifiers.

    agentfw run verifiers --set environment.id=gsm8k-v1
    agentfw train verifiers --set environment.id=gsm8k-v1 --policy transformers ...

The library plays the example against the gateway, where it finds the policy, and scores what came of it. The reward is
the sum of its weighted rewards; each of them and each metric is a figure. If several agents play, the trained ones
count. A task, a tool or a reward that raises leaves the episode out: the policy isn't to blame.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from agentfw import Session, Task
from agentfw.errors import PluginError, SettingsError, one_line
from agentfw.seeds import Seeds
from agentfw.turns.session import SessionEnvironment

from .library import configured, load_tasks
from .settings import VerifiersSettings

__all__ = ["Verifiers"]

_KEY = "AGENTFW_SESSION_KEY"
"""The variable that the library reads the key from. It need not exist: a session is protected by its name. Without it,
the library would send the key of its vendor."""


class Verifiers(SessionEnvironment):
    """The library plays its examples, and asks you for whatever its agents need."""

    def __init__(self, settings: VerifiersSettings) -> None:
        self.settings = settings

    def tasks(self, count: int, seed: int, split: str) -> Sequence[Task]:
        found = load_tasks(self.settings, split, count)
        if not found:
            raise SettingsError(
                f"environment.id: {self.settings.id} has no tasks for the split {split}",
                fix="check environment.arguments, which choose the tasks",
            )
        seeds = Seeds(seed).child(split)
        return [Task(index, seeds.integer("task", index), user="user", split=split) for index in range(len(found))]

    async def play(self, session: Session) -> None:
        import verifiers.v1 as vf

        from ...gateway.live import reachable

        task, settings = session.episode.task, self.settings
        config = configured(settings, task.split)
        config.timeout.episode = settings.timeout
        environment = vf.load_environment(config)
        # An environment of its own for each episode: the library keeps a client for each address as long as it serves.
        async with reachable(session) as url, environment.serving():
            client = vf.EvalClientConfig(base_url=f"{url}/v1", api_key_var=_KEY)
            played = await environment.run_episode(
                load_tasks(settings, task.split, task.index + 1)[task.index], vf.ModelContext("agentfw", client)
            )
        late = played.is_timeout or any(trace.is_timeout for trace in played.traces)
        if not (played.ok or late):
            raise session.failure or _failed(settings.id, played)
        scored = [trace for trace in played.traces if trace.agent.trainable and trace.ok]
        reward = fmean(trace.reward for trace in scored) if scored else 0.0
        session.episode.utility = reward
        session.note("utility", "reward", {"value": reward})
        session.end("finished", **_figures(scored), timed_out=float(late))


def _figures(traces: Sequence[Any]) -> dict[str, float]:
    """The mean of each reward and metric over the agents that have it."""
    found = defaultdict[str, list[float]](list)
    for trace in traces:
        for name, value in _measured(trace):
            if math.isfinite(value):
                found[name].append(value)
    return {name: fmean(values) for name, values in found.items()}


def _measured(trace: Any) -> Iterator[tuple[str, float]]:
    yield from ((name, value) for name, value in trace.metrics.items() if value is not None)
    yield from ((name, reward.score) for name, reward in trace.rewards.items() if reward is not None)


def _failed(name: str, played: Any) -> PluginError:
    errors = [*played.errors, *(error for trace in played.traces for error in trace.errors)]
    told = f"{errors[-1].type}: {errors[-1].message}" if errors else "it did not say why"
    return PluginError(
        one_line(f"the environment {name} of verifiers failed: {told}"), fix=f"check it: vf-debug {name}"
    )
