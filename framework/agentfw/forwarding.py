"""Requests that a policy passes on to a server as a program wrote them, and what came back.

Both are in the format of the API that the program asked. What agentfw doesn't know in them is passed on all the same,
in both directions. The record is made from what passed.

    passed = await policy.forward(request, Forwarded(body, raw, hear=chunks.append))
    passed.generations[0].text, passed.content
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from .request import Generation, Sampling

__all__ = ["Forwarded", "Passed"]


@dataclass(frozen=True, slots=True)
class Forwarded:
    """A request as it came."""

    body: Mapping[str, Any]
    path: str = "chat/completions"
    """Path of the API, below `/v1/`."""
    query: str = ""
    """Query string of its URL."""
    raw: bytes = b""
    """The body's bytes. They are sent as they are if nothing has to be changed. Empty: there are none."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The program's headers, of which those that concern only this connection are not passed on."""
    recalled: str = ""
    """What the memories recalled, which is added to the system message."""
    imposed: Mapping[str, Any] = field(default_factory=dict)
    """Fields that the run sets, in place of the program's."""
    begun: Callable[[Mapping[str, str]], object] = lambda headers: None
    """Called with the headers of the answer when a stream begins."""
    hear: Callable[[bytes], object] = lambda line: None
    """Called with each line of a stream, with its end."""
    tell: Callable[[str], object] = lambda text: None
    """Called with each new piece of a stream's text."""

    def sampled(self, sampling: Sampling, wins: bool) -> dict[str, Any]:
        """The fields in which a run's sampling holds: where the program leaves a choice open or, if it `wins`, always.

        The maximum number of tokens is the smaller of both. A seed is sent only if it wins, and the API has one.
        """
        has_seed = wins and self.path.endswith("completions")
        imposed = {
            name: value
            for name in ("temperature", "top_p", *(["seed"] if has_seed else []))
            if (value := getattr(sampling, name)) is not None and (wins or self.body.get(name) is None)
        }
        if sampling.max_tokens is not None:
            name = "max_completion_tokens" if self.body.get("max_completion_tokens") is not None else "max_tokens"
            name = "max_output_tokens" if self.path == "responses" else name
            asked = self.body.get(name)
            imposed[name] = min(asked, sampling.max_tokens) if isinstance(asked, int) else sampling.max_tokens
        return imposed


class Passed(NamedTuple):
    """An answer as it came."""

    generations: tuple[Generation, ...]
    """What was generated, for the record: one for each choice."""
    content: bytes = b""
    """The whole answer, if it was not streamed."""
    headers: Mapping[str, str] = {}
