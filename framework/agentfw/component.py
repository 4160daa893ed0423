"""Describes what a plugin offers, without importing it.

Listing fifty plugins imports none of their heavy code, so `factory` and `settings` are strings of the form
"package.module:Name".

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

from importlib import import_module
from typing import NamedTuple

__all__ = ["KINDS", "Component", "Kind"]


class Kind(NamedTuple):
    """One kind of component."""

    name: str
    """Its name on the command line."""
    plural: str
    """Its key in a spec."""
    base: str
    """The class that they derive from, as `module:Class` in this package."""
    summary: str
    words: str = ""
    """What errors call it. Default: its name."""

    @property
    def title(self) -> str:
        return self.words or self.name

    @property
    def hook(self) -> str:
        """The hook that registers components of this kind: `agentfw_memories`, `agentfw_reward_models`."""
        return f"agentfw_{self.words.replace(' ', '_')}s" if self.words else f"agentfw_{self.plural}"

    def base_class(self) -> type:
        module, _, name = self.base.partition(":")
        found: type = getattr(import_module(f"{__package__}.{module}"), name)
        return found


KINDS: dict[str, Kind] = {
    kind.name: kind
    for kind in (
        Kind("environment", "environments", "environment:Environment", "worlds that an agent acts in"),
        Kind("policy", "policies", "policy:Policy", "prompt tokens in, sampled tokens with logprobs out"),
        Kind("tool", "tools", "tool:Toolbox", "what an agent can call"),
        Kind("memory", "memories", "memory:Memory", "what an agent keeps of its user between episodes"),
        Kind("reward", "rewards", "scores:RewardModel", "scores of turns, rounds and episodes", "reward model"),
        Kind("optimizer", "optimizers", "optimizer:Optimizer", "scores in, advantages and a loss out"),
        Kind("learner", "learners", "learner:Learner", "episodes with advantages in, a new adapter out"),
        Kind("tracker", "trackers", "tracker:Tracker", "receivers of the metrics of a run"),
        Kind("hook", "hooks", "hookspecs:Hook", "what watches a run, or decides what may happen in it"),
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
