"""Light descriptions of components; a component itself is imported only when it is selected.

Registration hooks return these and never live objects, so that listing fifty plugins imports none of their heavy code.
`factory` and `settings` are therefore written as "package.module:Name".

    from agentfw import Component, hookimpl

    @hookimpl
    def agentfw_memories():
        return [Component("notebook", "my_plugin.notebook:Notebook", "Keeps the last ten notes",
                          settings="my_plugin.notebook:NotebookSettings")]

The factory is called as `factory(settings)` where `settings` is an instance of the pydantic model that `settings` names
(or as `factory()` where no settings are named). One with a parameter `host` is also given the host, by that name: it
makes other components with it.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["KINDS", "Component", "Kind"]


class Kind(NamedTuple):
    """One kind of component: what a person types, what a spec calls it, and the hook that registers it."""

    name: str
    plural: str
    hook: str
    title: str


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("environment", "environments", "agentfw_environments", "environment"),
        Kind("policy", "policies", "agentfw_policies", "policy"),
        Kind("tool", "tools", "agentfw_tools", "tool"),
        Kind("memory", "memories", "agentfw_memories", "memory"),
        Kind("reward", "rewards", "agentfw_reward_models", "reward model"),
        Kind("optimizer", "optimizers", "agentfw_optimizers", "optimizer"),
        Kind("learner", "learners", "agentfw_learners", "learner"),
        Kind("tracker", "trackers", "agentfw_trackers", "tracker"),
    )
}


class Component(NamedTuple):
    """What a plugin says of one thing it offers."""

    name: str
    factory: str
    summary: str
    settings: str = ""
    """Where its pydantic settings model is; empty when it has no settings."""
    extra: str = ""
    """The extra of the plugin's own distribution that brings its heavy dependencies; empty when it needs none."""
    needs: tuple[str, ...] = ()
    """Top-level modules, looked for without importing them: they tell whether `extra` is there."""
