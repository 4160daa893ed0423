"""The environment `verifiers`: each task is an example of an environment of the library verifiers.

    agentfw run verifiers --set environment.id=gsm8k-v1
    agentfw train verifiers --set environment.id=gsm8k-v1 --policy transformers ...

The library plays the example against the gateway, where it finds the policy, and scores what came of it. If several
agents play, the trained ones count. A task, a tool or a reward that raises leaves the episode out: the policy isn't to
blame. An agent runs on this machine unless the settings say otherwise, in the program that the taskset brings or else
the library's plain chat `null`. The library's own defaults are a sandbox of its vendor and a program with a shell.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from statistics import fmean
from typing import Any

from pydantic import Field

from agentfw import Session, Settings, Task
from agentfw.errors import PluginError, SettingsError, in_words, one_line
from agentfw.turns.session import SessionEnvironment

from ..task_files import tasks_of


class VerifiersSettings(Settings):
    id: str = Field(min_length=1, description="Id of the taskset: an installed package for the library verifiers.")
    arguments: dict[str, Any] = Field(
        default_factory=dict,
        description="Further settings of the library's environment, as in its [env] table: `taskset`, `agent`, `id`. "
        "{split} in a text stands for train, validation or test. Without it, the splits share the tasks.",
    )
    timeout: float = Field(600.0, gt=0, description="Seconds after which an episode is ended.")


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
            problem = f"environment.id: {self.settings.id} has no tasks for the split {split}"
            raise SettingsError(problem, fix="check environment.arguments, which choose the tasks")
        return tasks_of([{} for _ in found], count, seed, split)

    async def play(self, session: Session) -> None:
        import verifiers.v1 as vf

        from ..gateway.live import reachable

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
            errors = [*played.errors, *(error for trace in played.traces for error in trace.errors)]
            told = f"{errors[-1].type}: {errors[-1].message}" if errors else "it did not say why"
            problem = one_line(f"the environment {settings.id} of verifiers failed: {told}")
            raise session.failure or PluginError(problem, fix=f"check it: vf-debug {settings.id}")
        scored = [trace for trace in played.traces if trace.agent.trainable and trace.ok]
        reward = fmean(trace.reward for trace in scored) if scored else 0.0
        session.episode.utility = reward
        session.note("utility", "reward", {"value": reward})
        # The mean of each reward and metric over the agents that have it.
        found = defaultdict[str, list[float]](list)
        for one in scored:
            measured = [*one.metrics.items(), *((name, one and one.score) for name, one in one.rewards.items())]
            for name, value in measured:
                if value is not None and math.isfinite(value):
                    found[name].append(value)
        session.end("finished", **{name: fmean(values) for name, values in found.items()}, timed_out=float(late))


def load_tasks(settings: VerifiersSettings, split: str, count: int) -> list[Any]:
    """The first `count` tasks of a split, or fewer. They are the library's own objects."""
    loaded, rest = _stream(settings.id, json.dumps(settings.arguments, sort_keys=True), split)
    try:
        loaded += islice(rest, max(0, count - len(loaded)))
    except Exception as error:
        problem = f"verifiers can't load the tasks of {settings.id}: {in_words(error)}"
        raise PluginError(problem, fix=f"check it: vf-validate {settings.id}") from error
    return loaded[:count]


def configured(settings: VerifiersSettings, split: str) -> Any:
    """The library's configuration of an environment, with the class that belongs to the taskset."""
    import verifiers.v1 as vf

    arguments = json.loads(json.dumps(settings.arguments).replace("{split}", split))
    arguments["taskset"] = {**arguments.get("taskset", {}), "id": settings.id}
    try:
        vf.import_taskset(settings.id)
        kind = vf.env_config_type(settings.id, arguments.get("id", ""))
        for role, field in kind.model_fields.items():
            if isinstance(field.default, vf.AgentConfig):
                # What an agent is given where neither the settings nor the environment say it.
                given: dict[str, Any] = {}
                if "runtime" not in field.default.model_fields_set:
                    given["runtime"] = {"type": "subprocess"}
                if field.default.harness is None:
                    own = vf.default_harness_id(settings.id)
                    given["harness"] = {"id": settings.id if own == settings.id else "null"}
                arguments[role] = {**given, **arguments.get(role, {})}
        config = vf.resolve_env_config(arguments)
        vf.environment_class(settings.id, config.id)
    except ModuleNotFoundError as error:
        fix = "install the package of that taskset into this Python"
        raise SettingsError(f"environment.id: {error}", fix=fix) from None
    except Exception as error:  # the code of the taskset, or its settings
        problem = f"environment: verifiers can't configure {settings.id}: {in_words(error)}"
        raise SettingsError(problem, fix="check environment.id and environment.arguments") from None
    return config


@lru_cache(maxsize=8)
def _stream(name: str, arguments: str, split: str) -> tuple[list[Any], Iterator[Any]]:
    """The tasks of a taskset that are loaded so far, and the others, which may have no end."""
    import verifiers.v1 as vf

    settings = VerifiersSettings(id=name, arguments=json.loads(arguments))
    return [], iter(vf.load_taskset(configured(settings, split).taskset))
