"""Creates single components of a resolved spec, and attributes their exceptions to them."""

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
    """Create one component and check that it has the class required for its kind."""
    made = host.create(kind, choice.name, choice.settings, where=where or f"{kind}.{choice.name}")
    if not isinstance(made, protocol):
        source = host.find(kind, choice.name).record.distribution
        raise PluginError(
            f'{kind} "{choice.name}" of {source} is a {type(made).__name__}, not a {protocol.__name__}',
            fix=f"derive its class from agentfw.{protocol.__name__}; see: agentfw plugins check {choice.name}",
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
            f"{who} failed: {describe(error)}", fix="fix the plugin; use --debug to see where it failed"
        ) from error
