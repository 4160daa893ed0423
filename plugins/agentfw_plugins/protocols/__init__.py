"""The protocols that are spoken over HTTP: how requests, answers and streams are read and written.

The gateway answers at the paths of all of them, and the policy `openai` speaks any of them to its server. A further one
is a class that implements `Protocol` (protocol.py), named by its distribution in the group of entry points
`agentfw.protocols`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import cache, partial
from typing import TypeVar

from agentfw.boundary.gate import ImportFailed, let_in
from agentfw.boundary.metadata import EntryPoint, entry_points
from agentfw.errors import UnknownNameError

from .chat import ChatCompletions, ChatRequest, Completions, Embeddings
from .messages import Messages
from .protocol import About, BadRequest, Body, Malformed, Protocol, StreamReader, StreamWriter
from .responses import Responses

__all__ = [
    "About",
    "BadRequest",
    "Body",
    "ChatRequest",
    "Malformed",
    "Protocol",
    "StreamReader",
    "StreamWriter",
    "made_by_entry_points",
    "protocol_named",
    "protocols",
]

logger = logging.getLogger(__name__)

GROUP = "agentfw.protocols"
Made = TypeVar("Made")


@cache
def protocols() -> dict[str, Protocol]:
    """All protocols by name. One that can't be imported is named in the log, and the others are there."""
    own = (ChatCompletions(), Completions(), Responses(), Messages(), Embeddings())
    found: dict[str, Protocol] = {protocol.name: protocol for protocol in own}
    for name, who, protocol in made_by_entry_points(GROUP, "protocol", Protocol):
        if name in found:
            logger.warning("%s has a name that is taken", who)
            continue
        protocol.name, protocol.title = name, who
        found[name] = protocol
    return found


def made_by_entry_points(group: str, what: str, kind: type[Made]) -> Iterator[tuple[str, str, Made]]:
    """What distributions name in a group, or make with the class that they name: its name, what errors call it, itself.

    What can't be imported, or is of another kind, is named in the log.
    """
    for entry in entry_points(group):
        who = f'{what} "{entry.name}" of {entry.distribution} {entry.version}'
        try:
            made = let_in(who, partial(_made, entry))
        except ImportFailed as failure:
            logger.warning("%s %s", who, failure)
            continue
        if isinstance(made, kind):
            yield entry.name, who, made
        else:
            logger.warning("%s is no %s", who, kind.__name__)


def _made(entry: EntryPoint) -> object:
    made = entry.load()
    return made() if isinstance(made, type) else made


def protocol_named(name: str) -> Protocol:
    if name not in protocols():
        raise UnknownNameError("protocol", name, protocols())
    return protocols()[name]
