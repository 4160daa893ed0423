"""A plugin made of folders: each folder says what it offers, and a new one needs no line anywhere else.

A folder says so in a module `registration.py` with one value, `REGISTRATION`. Every such module in PACKAGE/KIND and
PACKAGE/worlds/NAME is found.

    component = components_of("agentfw_plugins")

    REGISTRATION = Registration(
        environments=[component("kettle", "worlds.kettle.environment:KettleEnvironment", "Water that boils")],
    )

Its settings are the class `KettleSettings` in the same module.

Each `specs/NAME.toml` in these folders and in the package itself is a run spec. Its summary is the first sentence of
the comment that it begins with.

The entry point of the distribution is the plugin of the whole package:

    plugin = FolderPlugin("agentfw_plugins")

These modules are imported whenever agentfw starts. They import nothing but this module and `agentfw`; components are
named as text and imported when they are selected.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from agentfw import Component, hookimpl
from agentfw.component import KINDS
from agentfw.hookspecs import NamedSpec

__all__ = ["FolderPlugin", "Registration", "components_of"]

_KIND_OF_CLASS = re.compile(r"(Policy|Tracker|Environment|Toolbox|Learner|Memory)$")


class Registration(NamedTuple):
    """The components of one folder by kind, and run specs under other names than their files'."""

    environments: Sequence[Component] = ()
    policies: Sequence[Component] = ()
    tools: Sequence[Component] = ()
    memories: Sequence[Component] = ()
    rewards: Sequence[Component] = ()
    optimizers: Sequence[Component] = ()
    learners: Sequence[Component] = ()
    trackers: Sequence[Component] = ()
    hooks: Sequence[Component] = ()
    specs: Sequence[NamedSpec] = ()


def components_of(package: str) -> Callable[..., Component]:
    """Make components of a package, in which all paths begin.

    The settings stand beside their component and have its name without its kind, and `Settings`: `TinySettings` for
    `TinyPolicy`. Otherwise `settings` names them, with their module where it is another, and is empty for none.
    """

    def component(name: str, path: str, summary: str, *, settings: str | None = None, **more: Any) -> Component:
        module, _, made = path.partition(":")
        if settings is None:
            settings = f"{_KIND_OF_CLASS.sub('', made)}Settings"
        if settings:
            more["settings"] = f"{package}.{settings if ':' in settings else f'{module}:{settings}'}"
        return Component(name, f"{package}.{path}", summary, **more)

    return component


class FolderPlugin:
    """Offers what the folders of a package register."""

    AGENTFW_PLUGIN_API = 1

    def __init__(self, package: str, own: Registration | None = None) -> None:
        """`own` is what is registered besides what the folders do."""
        self.package, self._own = package, own

    @cached_property
    def registrations(self) -> dict[str, Registration]:
        """The registration of each folder, such as `worlds.inbox`, and of the package itself: an empty name."""
        here = self._home
        files = sorted([*here.glob("*/registration.py"), *here.glob("worlds/*/registration.py")])
        folders = [".".join(file.parent.relative_to(here).parts) for file in files]
        found_here = {folder: import_module(f"{self.package}.{folder}.registration").REGISTRATION for folder in folders}
        return found_here if self._own is None else {"": self._own, **found_here}

    @property
    def _home(self) -> Path:
        found = find_spec(self.package)
        return Path(found.origin or "").parent if found is not None else Path()

    @cached_property
    def specs(self) -> list[NamedSpec]:
        files = [file for place in ("", "*/", "worlds/*/") for file in sorted(self._home.glob(f"{place}specs/*.toml"))]
        return [NamedSpec(file.stem, str(file), _summary(file)) for file in files]

    @hookimpl
    def agentfw_specs(self) -> list[NamedSpec]:
        return [*self.specs, *(one for folder in self.registrations.values() for one in folder.specs)]


def _offered(field: str) -> Callable[[FolderPlugin], list[object]]:
    def offered(self: FolderPlugin) -> list[object]:
        return [one for folder in self.registrations.values() for one in getattr(folder, field)]

    return offered


def _summary(spec: Path) -> str:
    comment = takewhile(lambda line: line.startswith("#"), spec.read_text("utf-8").splitlines())
    return re.split(r"(?<!\.)\. ", " ".join(line.lstrip("# ") for line in comment))[0].rstrip(".")


for _kind in KINDS.values():
    setattr(FolderPlugin, _kind.hook, hookimpl(_offered(_kind.plural)))
