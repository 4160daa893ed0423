"""What responses and messages have in common on their way to chat completions and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .bodies import Body

__all__ = ["choice_of", "deltas", "message_of", "plain", "reasoning_of", "rest_of"]


def plain(parts: Sequence[Mapping[str, Any]]) -> Any:
    """A message's content: text alone as text, as most servers want it."""
    if all(set(part) == {"type", "text"} and part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return list(parts)


def rest_of(body: Body, known: Mapping[str, str]) -> dict[str, Any]:
    """The fields that aren't known, as they are, and those that are, under their name in chat completions.

    Fields whose name there is empty are left out.
    """
    return {name: value for key, value in body.values.items() if value is not None and (name := known.get(key, key))}


def choice_of(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first choice of an answer, or of a chunk. Empty if there is none."""
    choices = reply.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    return first if isinstance(first, dict) else {}


def message_of(reply: Mapping[str, Any]) -> Mapping[str, Any]:
    message = choice_of(reply).get("message")
    return message if isinstance(message, dict) else {}


def reasoning_of(message: Mapping[str, Any]) -> str:
    """The thoughts in a message or delta, under either of the names that servers give them."""
    found = message.get("reasoning_content") or message.get("reasoning")
    return found if isinstance(found, str) else ""


def deltas(chunk: Mapping[str, Any]) -> Iterator[tuple[int, str, str, str]]:
    """The parts of calls in a chunk: the call's index, its id, its name, and more of its arguments."""
    delta = choice_of(chunk).get("delta")
    calls = delta.get("tool_calls") if isinstance(delta, dict) else None
    for place, part in enumerate(calls if isinstance(calls, list) else ()):
        if isinstance(part, dict):
            function = part.get("function")
            function = function if isinstance(function, dict) else {}
            index = part.get("index")
            yield (
                index if isinstance(index, int) else place,
                str(part.get("id") or ""),
                str(function.get("name") or ""),
                str(function.get("arguments") or ""),
            )
