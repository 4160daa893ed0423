"""A plugin made of folders: each folder says what it offers, and a new one needs no line anywhere else.

A folder says so in a module `registration.py` with one value, `REGISTRATION`. Every such module in PACKAGE/KIND and
PACKAGE/worlds/NAME is found.

    REGISTRATION = Registration(
        environments=[Component("kettle", "agentfw_plugins.worlds.kettle.environment:Kettle", "Water that boils")],
    )

The entry point of the distribution is the plugin of the whole package:

    plugin = FolderPlugin("agentfw_plugins")

These modules are imported whenever agentfw starts. They import nothing but this module and `agentfw`; components are
named as text and imported when they are selected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from agentfw import Component, hookimpl
from agentfw.component import KINDS
from agentfw.hookspecs import NamedSpec

__all__ = ["FolderPlugin", "Registration"]


class Registration(NamedTuple):
    """The components of one folder by kind, and its run specs."""

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


class FolderPlugin:
    """Offers what the folders of a package register."""

    AGENTFW_PLUGIN_API = 1

    def __init__(self, package: str, own: Registration | None = None) -> None:
        """`own` is what is registered besides what the folders do."""
        self.package, self._own = package, own

    @cached_property
    def registrations(self) -> dict[str, Registration]:
        """The registration of each folder, such as `worlds.inbox`, and of the package itself: an empty name."""
        found = find_spec(self.package)
        here = Path(found.origin or "").parent if found is not None else Path()
        files = sorted([*here.glob("*/registration.py"), *here.glob("worlds/*/registration.py")])
        folders = [".".join(file.parent.relative_to(here).parts) for file in files]
        found_here = {folder: import_module(f"{self.package}.{folder}.registration").REGISTRATION for folder in folders}
        return found_here if self._own is None else {"": self._own, **found_here}


def _offered(field: str) -> Callable[[FolderPlugin], list[object]]:
    def offered(self: FolderPlugin) -> list[object]:
        return [one for folder in self.registrations.values() for one in getattr(folder, field)]

    return offered


for _field, _hook in [*((kind.plural, kind.hook) for kind in KINDS.values()), ("specs", "agentfw_specs")]:
    setattr(FolderPlugin, _hook, hookimpl(_offered(_field)))
