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

import ast
import importlib
import inspect
import sys
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


def imported_later(package: str, name: str) -> object:
    """A public name of a package, imported from the module that the package names for type checkers (`TYPE_CHECKING`).

    Each package whose names are imported when they are first used calls this in its `__getattr__`.
    """
    module = sys.modules[package]
    if name not in module.__all__:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.ImportFrom) and node.level and any(one.name == name for one in node.names):
            setattr(module, name, getattr(importlib.import_module(f".{node.module}", package), name))
    return vars(module)[name]  # which is there from now on, so that `__getattr__` isn't called again for this name


def __getattr__(name: str) -> object:
    return imported_later(__name__, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
