"""agentfw: agents that learn their user, built from plugins on an explicit timeline.

The one rule: a name is imported when it is first used, so that `from agentfw import Component, hookimpl`, the first
line of every plugin, loads neither pydantic nor numpy.

    from agentfw import Component, hookimpl

    @hookimpl
    def agentfw_tools():
        return [Component("dice", "my_plugin.dice:Dice", "Rolls dice")]
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .component import KINDS, Component, Kind
    from .errors import (
        AgentfwError,
        DuplicateComponentError,
        EndpointError,
        InterventionRefused,
        MissingExtraError,
        PluginError,
        RunFolderError,
        SettingsError,
        StorageError,
        TimelineError,
        UnknownNameError,
        UsageError,
    )
    from .hookspecs import NamedSpec, hookimpl
    from .host import Host, HostOptions, PluginRecord, Registered
    from .project import ProjectFile
    from .settings import Settings

__all__ = [
    "KINDS",
    "AgentfwError",
    "Component",
    "DuplicateComponentError",
    "EndpointError",
    "Host",
    "HostOptions",
    "InterventionRefused",
    "Kind",
    "MissingExtraError",
    "NamedSpec",
    "PluginError",
    "PluginRecord",
    "ProjectFile",
    "Registered",
    "RunFolderError",
    "Settings",
    "SettingsError",
    "StorageError",
    "TimelineError",
    "UnknownNameError",
    "UsageError",
    "__version__",
    "hookimpl",
]

__version__ = "0.1.0"

# A new public name has three places: here, in __all__, and above for type checkers. A test compares them.
_MODULES: dict[str, tuple[str, ...]] = {
    "component": ("KINDS", "Component", "Kind"),
    "errors": (
        "AgentfwError",
        "DuplicateComponentError",
        "EndpointError",
        "InterventionRefused",
        "MissingExtraError",
        "PluginError",
        "RunFolderError",
        "SettingsError",
        "StorageError",
        "TimelineError",
        "UnknownNameError",
        "UsageError",
    ),
    "hookspecs": ("NamedSpec", "hookimpl"),
    "host": ("Host", "HostOptions", "PluginRecord", "Registered"),
    "project": ("ProjectFile",),
    "settings": ("Settings",),
}
_HOME: dict[str, str] = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value  # the next use doesn't come here
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
