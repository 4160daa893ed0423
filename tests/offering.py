"""A plugin of a test's own, for `fresh_host`, without a class with hooks around its components."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from agentfw import Component, hookimpl
from agentfw.component import KINDS


class Plugin(SimpleNamespace):
    """Its hooks are its attributes."""


def offering(**kinds: Mapping[str, Callable[..., Any]]) -> Plugin:
    """A plugin with these components: of each kind, classes or functions at the top of a module by their names.

    fresh_host(offering(environment={"pond": Pond}, policy={"feeding": Feeding}))
    """
    return Plugin(**{KINDS[kind].hook: _answering(named) for kind, named in kinds.items()})


def _answering(named: Mapping[str, Callable[..., Any]]) -> Callable[[], list[Component]]:
    found = [Component(name, f"{made.__module__}:{made.__qualname__}", "") for name, made in named.items()]

    @hookimpl
    def answer() -> list[Component]:
        return found

    return answer
