"""What a world or a kind of component offers, and how all of it is found.

A folder offers its components in a module `registration.py` with one value, `REGISTRATION`. Every such module in
agentfw_plugins/KIND and agentfw_plugins/worlds/NAME is found, so a new world needs no line anywhere else.

    REGISTRATION = Registration(
        environments=[Component("kettle", "agentfw_plugins.worlds.kettle.environment:Kettle", "Water that boils")],
    )

These modules are imported whenever agentfw starts. They import nothing but this module and `agentfw`; components are
named as text and imported when they are selected.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from agentfw import Component, NamedSpec

__all__ = ["Registration", "registrations"]

_HERE = Path(__file__).parent


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
    specs: Sequence[NamedSpec] = ()


def registrations() -> dict[str, Registration]:
    """The registration of each folder, such as `worlds.kitchen` or `policies`."""
    files = sorted([*_HERE.glob("*/registration.py"), *_HERE.glob("worlds/*/registration.py")])
    folders = [".".join(file.parent.relative_to(_HERE).parts) for file in files]
    return {folder: import_module(f"{__package__}.{folder}.registration").REGISTRATION for folder in folders}
