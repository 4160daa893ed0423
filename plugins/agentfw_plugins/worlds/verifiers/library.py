"""Loads environments and tasks with the library verifiers.

An agent runs on this machine unless the settings say otherwise: its program is the one that the taskset brings, or else
the library's plain chat `null`. The library's own defaults are a sandbox of its vendor and a program with a shell.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any

from agentfw.errors import PluginError, SettingsError, in_words

from .settings import VerifiersSettings

__all__ = ["configured", "load_tasks"]


def load_tasks(settings: VerifiersSettings, split: str, count: int) -> list[Any]:
    """The first `count` tasks of a split, or fewer. They are the library's own objects."""
    return _stream(settings.id, json.dumps(settings.arguments, sort_keys=True), split).first(count)


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
                arguments[role] = {**_agent(settings.id, field.default), **arguments.get(role, {})}
        config = vf.resolve_env_config(arguments)
        vf.environment_class(settings.id, config.id)
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"environment.id: {error}", fix="install the package of that taskset into this Python"
        ) from None
    except Exception as error:  # the code of the taskset, or its settings
        raise SettingsError(
            f"environment: verifiers can't configure {settings.id}: {in_words(error)}",
            fix="check environment.id and environment.arguments",
        ) from None
    return config


def _agent(taskset: str, default: Any) -> dict[str, Any]:
    """What an agent is given where neither the settings nor the environment say it."""
    import verifiers.v1 as vf

    given: dict[str, Any] = {}
    if "runtime" not in default.model_fields_set:
        given["runtime"] = {"type": "subprocess"}
    if default.harness is None:
        own = vf.default_harness_id(taskset)
        given["harness"] = {"id": taskset if own == taskset else "null"}
    return given


class _Stream:
    """The tasks of a taskset, which may have no end. Each is loaded once."""

    def __init__(self, name: str, tasks: Iterator[Any]) -> None:
        self._name, self._tasks, self._loaded = name, tasks, list[Any]()

    def first(self, count: int) -> list[Any]:
        try:
            self._loaded += islice(self._tasks, max(0, count - len(self._loaded)))
        except Exception as error:
            raise PluginError(
                f"verifiers can't load the tasks of {self._name}: {in_words(error)}",
                fix=f"check it: vf-validate {self._name}",
            ) from error
        return self._loaded[:count]


@lru_cache(maxsize=8)
def _stream(name: str, arguments: str, split: str) -> _Stream:
    import verifiers.v1 as vf

    settings = VerifiersSettings(id=name, arguments=json.loads(arguments))
    return _Stream(name, iter(vf.load_taskset(configured(settings, split).taskset)))
