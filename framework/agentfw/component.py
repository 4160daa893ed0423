"""Describes what a plugin offers, without importing it.

A registration hook returns these descriptions and never a live object. Listing fifty plugins therefore imports none of
their heavy code. For the same reason `factory` and `settings` are strings of the form "package.module:Name".

    from agentfw import Component, hookimpl

    @hookimpl
    def agentfw_memories():
        return [Component("notebook", "my_plugin.notebook:Notebook", "Keeps the last ten notes",
                          settings="my_plugin.notebook:NotebookSettings")]

The factory is called as `factory(settings)`, where `settings` is an instance of the pydantic model that `settings`
names. Without settings it is called as `factory()`. The factory of a tool may also be a function marked with `@tool`. A
factory with a parameter named `host` also receives the host and can make other components with it. One with a parameter
named `engine` receives the run's engine, which starts processes (`agentfw.engine`).
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["KINDS", "Component", "Kind"]


class Kind(NamedTuple):
    """One kind of component."""

    name: str
    """Its name on the command line."""
    plural: str
    """Its key in a spec."""
    hook: str
    """The hook that registers components of this kind."""
    title: str
    summary: str
    """What its components are."""


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("environment", "environments", "agentfw_environments", "environment", "worlds that an agent acts in"),
        Kind("policy", "policies", "agentfw_policies", "policy", "prompt tokens in, sampled tokens with logprobs out"),
        Kind("tool", "tools", "agentfw_tools", "tool", "what an agent can call"),
        Kind("memory", "memories", "agentfw_memories", "memory", "what an agent keeps of its user between episodes"),
        Kind("reward", "rewards", "agentfw_reward_models", "reward model", "scores of turns, rounds and episodes"),
        Kind("optimizer", "optimizers", "agentfw_optimizers", "optimizer", "scores in, advantages and a loss out"),
        Kind("learner", "learners", "agentfw_learners", "learner", "episodes with advantages in, a new adapter out"),
        Kind("tracker", "trackers", "agentfw_trackers", "tracker", "receivers of the metrics of a run"),
        Kind("hook", "hooks", "agentfw_hooks", "hook", "what watches a run, or decides what may happen in it"),
    )
}


class Component(NamedTuple):
    """One component that a plugin offers."""

    name: str
    factory: str
    summary: str
    settings: str = ""
    """Path of the pydantic settings model. Empty if there are no settings."""
    extra: str = ""
    """Extra of the plugin's distribution that installs the heavy dependencies. Empty if there are none."""
    needs: tuple[str, ...] = ()
    """Top-level modules that show whether `extra` is installed. They are looked up, not imported."""
