"""Makes single components of a resolved spec, and attributes what they raise to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from ..errors import AgentfwError, PluginError
from ..host import Host
from ..host.plugin_record import describe
from .spec import Choice

__all__ = ["blamed", "make"]

Made = TypeVar("Made")


def make(host: Host, kind: str, choice: Choice, protocol: type[Made], where: str = "") -> Made:
    """One component, checked to be of the class that its kind promises."""
    settings = choice.settings if choice.checked is None else choice.checked
    made = host.create(kind, choice.name, settings, where=where or f"{kind}.{choice.name}")
    if not isinstance(made, protocol):
        source = host.find(kind, choice.name).record.distribution
        raise PluginError(
            f'{kind} "{choice.name}" of {source} is no {protocol.__name__} but {type(made).__name__}',
            fix=f"derive its class from agentfw.{protocol.__name__}; agentfw plugins check {choice.name} says more",
        )
    return made


@contextmanager
def blamed(who: str) -> Iterator[None]:
    """Turn an unexpected exception of a component into a PluginError that names the component."""
    try:
        yield
    except AgentfwError:
        raise
    except (Exception, SystemExit) as error:
        raise PluginError(
            f"{who} failed: {describe(error)}", fix="fix the plugin; --debug shows where it failed"
        ) from error
