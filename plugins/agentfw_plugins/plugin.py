"""The plugin `builtin`: everything that ships with agentfw, gathered from the registrations of its folders."""

from __future__ import annotations

from agentfw import Component, NamedSpec, hookimpl

from .registration import registrations

AGENTFW_PLUGIN_API = 1

_FOLDERS = tuple(registrations().values())


@hookimpl
def agentfw_environments() -> list[Component]:
    return [one for folder in _FOLDERS for one in folder.environments]


@hookimpl
def agentfw_policies() -> list[Component]:
    return [one for folder in _FOLDERS for one in folder.policies]


@hookimpl
def agentfw_tools() -> list[Component]:
    return [one for folder in _FOLDERS for one in folder.tools]


@hookimpl
def agentfw_memories() -> list[Component]:
    return [one for folder in _FOLDERS for one in folder.memories]


@hookimpl
def agentfw_reward_models() -> list[Component]:
    return [one for folder in _FOLDERS for one in folder.rewards]


@hookimpl
def agentfw_optimizers() -> list[Component]:
    return [one for folder in _FOLDERS for one in folder.optimizers]


@hookimpl
def agentfw_learners() -> list[Component]:
    return [one for folder in _FOLDERS for one in folder.learners]


@hookimpl
def agentfw_trackers() -> list[Component]:
    return [one for folder in _FOLDERS for one in folder.trackers]


@hookimpl
def agentfw_specs() -> list[NamedSpec]:
    return [one for folder in _FOLDERS for one in folder.specs]
