"""agentfw: agents that learn their user, built from plugins on an explicit timeline.

Names are imported when they are first used. So `from agentfw import Component, hookimpl`, the first line of every
plugin, loads neither pydantic nor numpy.

    from agentfw import Component, hookimpl

    @hookimpl
    def agentfw_tools():
        return [Component("dice", "my_plugin.dice:Dice", "Rolls dice")]

Here are the base classes of plugins and what nearly every program needs. Everything else is in the modules that
the page Python API lists. Names in other modules can change without notice.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from .version import __version__

if TYPE_CHECKING:
    from .agent import Agent, Decision
    from .component import Component
    from .environment import Environment, World, action
    from .episode import Episode, Intervention, Message, Observation, Task, Turn
    from .hookspecs import hookimpl
    from .host import Host
    from .interfaces import Interface
    from .learner import Learner
    from .memory import Memory
    from .optimizer import Optimizer
    from .policy import Policy
    from .request import Generation, Moment, Request
    from .runs.from_python import load, run, train
    from .runs.run import Run
    from .runs.spec.run_spec import RunSpec
    from .scores import RewardModel, Score
    from .settings import Settings
    from .tool import Tool, Toolbox
    from .tracker import Tracker
    from .turns.engagement import Engagement
    from .turns.policy_agent import PolicyAgent
    from .turns.session import Session

__all__ = [
    "Agent",
    "Component",
    "Decision",
    "Engagement",
    "Environment",
    "Episode",
    "Generation",
    "Host",
    "Interface",
    "Intervention",
    "Learner",
    "Memory",
    "Message",
    "Moment",
    "Observation",
    "Optimizer",
    "Policy",
    "PolicyAgent",
    "Request",
    "RewardModel",
    "Run",
    "RunSpec",
    "Score",
    "Session",
    "Settings",
    "Task",
    "Tool",
    "Toolbox",
    "Tracker",
    "Turn",
    "World",
    "__version__",
    "action",
    "hookimpl",
    "load",
    "run",
    "train",
]

# A new public name belongs in three places: here, in __all__, and above for type checkers. A test compares them.
_MODULES: dict[str, tuple[str, ...]] = {
    "agent": ("Agent", "Decision"),
    "component": ("Component",),
    "turns.engagement": ("Engagement",),
    "environment": ("Environment", "World", "action"),
    "episode": ("Episode", "Intervention", "Message", "Observation", "Task", "Turn"),
    "hookspecs": ("hookimpl",),
    "host": ("Host",),
    "interfaces": ("Interface",),
    "learner": ("Learner",),
    "memory": ("Memory",),
    "optimizer": ("Optimizer",),
    "policy": ("Policy",),
    "turns.policy_agent": ("PolicyAgent",),
    "request": ("Generation", "Moment", "Request"),
    "runs.from_python": ("load", "run", "train"),
    "runs.run": ("Run",),
    "runs.spec.run_spec": ("RunSpec",),
    "scores": ("RewardModel", "Score"),
    "turns.session": ("Session",),
    "settings": ("Settings",),
    "tool": ("Tool", "Toolbox"),
    "tracker": ("Tracker",),
}
_HOME: dict[str, str] = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value  # so that __getattr__ isn't called again for this name
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
