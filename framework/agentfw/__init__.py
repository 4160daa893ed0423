"""agentfw: agents that learn their user, built from plugins on an explicit timeline.

Names are imported when they are first used. So `from agentfw import Component, hookimpl`, the first line of every
plugin, loads neither pydantic nor numpy.

    from agentfw import Component, hookimpl

    @hookimpl
    def agentfw_tools():
        return [Component("dice", "my_plugin.dice:Dice", "Rolls dice")]

The public modules are this one, `agentfw.engine`, `agentfw.errors`, `agentfw.loops`, `agentfw.metadata`,
`agentfw.out`, `agentfw.parsing`, `agentfw.report`, `agentfw.runs`, `agentfw.statistics` and `agentfw.testing`. Names in
other modules can change without notice.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from .version import __version__

if TYPE_CHECKING:
    from .agent import Agent, Decision
    from .component import KINDS, Component, Kind
    from .engagement import Engagement
    from .environment import Environment, World, action
    from .episode import Call, Episode, Event, Intervention, Measure, Message, Observation, Task, Turn, Usage
    from .hookspecs import KnownPlugin, NamedSpec, NamedTemplate, hookimpl
    from .host import Host, HostOptions, PluginRecord, Registered
    from .host.project import ProjectFile, find_project
    from .interfaces import EventDriven, Interface, Polling, Reflex, StepLoop, parse_interface
    from .learner import Batch, Learner, Update
    from .memory import Memory, Query, Recollection
    from .nested import Composed, Nested
    from .operation import Operation, PlayedEpisode, PolicyCall, Recall, Scoring, ToolCall
    from .optimizer import Advantage, Loss, Optimizer, Scored
    from .policy import Policy
    from .policy_agent import PolicyAgent
    from .price import Price
    from .request import Action, Brief, Generation, InFlight, Moment, Request, Sampling
    from .runs.observers.observer import Observer, RunInfo
    from .runs.run import Run
    from .runs.spec.run_spec import Choice, RewardChoice, RunSpec
    from .scores import Progress, RewardModel, Schedule, Score, Track
    from .seeds import Seeds
    from .session import Reply, Session, SessionEnvironment
    from .settings import OPERATIONAL, Settings, parse_assignments
    from .timeline import Scheduled, Time, Timeline, Work
    from .tool import FunctionTool, Tool, Toolbox
    from .tracker import Tracker

__all__ = [
    "KINDS",
    "OPERATIONAL",
    "Action",
    "Advantage",
    "Agent",
    "Batch",
    "Brief",
    "Call",
    "Choice",
    "Component",
    "Composed",
    "Decision",
    "Engagement",
    "Environment",
    "Episode",
    "Event",
    "EventDriven",
    "FunctionTool",
    "Generation",
    "Host",
    "HostOptions",
    "InFlight",
    "Interface",
    "Intervention",
    "Kind",
    "KnownPlugin",
    "Learner",
    "Loss",
    "Measure",
    "Memory",
    "Message",
    "Moment",
    "NamedSpec",
    "NamedTemplate",
    "Nested",
    "Observation",
    "Observer",
    "Operation",
    "Optimizer",
    "PlayedEpisode",
    "PluginRecord",
    "Policy",
    "PolicyAgent",
    "PolicyCall",
    "Polling",
    "Price",
    "Progress",
    "ProjectFile",
    "Query",
    "Recall",
    "Recollection",
    "Reflex",
    "Registered",
    "Reply",
    "Request",
    "RewardChoice",
    "RewardModel",
    "Run",
    "RunInfo",
    "RunSpec",
    "Sampling",
    "Schedule",
    "Scheduled",
    "Score",
    "Scored",
    "Scoring",
    "Seeds",
    "Session",
    "SessionEnvironment",
    "Settings",
    "StepLoop",
    "Task",
    "Time",
    "Timeline",
    "Tool",
    "ToolCall",
    "Toolbox",
    "Track",
    "Tracker",
    "Turn",
    "Update",
    "Usage",
    "Work",
    "World",
    "__version__",
    "action",
    "find_project",
    "hookimpl",
    "parse_assignments",
    "parse_interface",
]

# A new public name belongs in three places: here, in __all__, and above for type checkers. A test compares them.
_MODULES: dict[str, tuple[str, ...]] = {
    "agent": ("Agent", "Decision"),
    "component": ("Component", "KINDS", "Kind"),
    "engagement": ("Engagement",),
    "environment": ("Environment", "World", "action"),
    "episode": (
        "Call",
        "Episode",
        "Event",
        "Intervention",
        "Measure",
        "Message",
        "Observation",
        "Task",
        "Turn",
        "Usage",
    ),
    "hookspecs": ("KnownPlugin", "NamedSpec", "NamedTemplate", "hookimpl"),
    "host": ("Host", "HostOptions", "PluginRecord", "Registered"),
    "interfaces": ("EventDriven", "Interface", "Polling", "Reflex", "StepLoop", "parse_interface"),
    "learner": ("Batch", "Learner", "Update"),
    "memory": ("Memory", "Query", "Recollection"),
    "nested": ("Composed", "Nested"),
    "operation": ("Operation", "PlayedEpisode", "PolicyCall", "Recall", "Scoring", "ToolCall"),
    "optimizer": ("Advantage", "Loss", "Optimizer", "Scored"),
    "policy": ("Policy",),
    "policy_agent": ("PolicyAgent",),
    "price": ("Price",),
    "host.project": ("ProjectFile", "find_project"),
    "request": ("Action", "Brief", "Generation", "InFlight", "Moment", "Request", "Sampling"),
    "runs.observers.observer": ("Observer", "RunInfo"),
    "runs.run": ("Run",),
    "runs.spec.run_spec": ("Choice", "RewardChoice", "RunSpec"),
    "scores": ("Progress", "RewardModel", "Schedule", "Score", "Track"),
    "seeds": ("Seeds",),
    "session": ("Reply", "Session", "SessionEnvironment"),
    "settings": ("OPERATIONAL", "Settings", "parse_assignments"),
    "timeline": ("Scheduled", "Time", "Timeline", "Work"),
    "tool": ("FunctionTool", "Tool", "Toolbox"),
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
