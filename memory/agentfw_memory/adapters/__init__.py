"""The skill graph as the memory of other agent frameworks. Each module needs its framework (extra `adapters`).

What a skill graph is given as a text, where another framework may hand over anything:

    >>> plain_text({"role": "user", "content": [{"type": "input_text", "text": "Hi\\x00"}, {"text": "there"}]}, 100)
    'Hi\\nthere'

The frameworks' own objects are kept whole, as metadata. This is only what is searched.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["leaves", "plain_text"]

SAID = ("content", "text", "output", "arguments", "summary", "transcript", "refusal", "name")
"""The fields of messages and calls that hold what was said, for example by a tool."""


def plain_text(value: Any, longest: int) -> str:
    """Return what can be searched in a value: no NULs or halves of characters, and at most so many characters."""
    text = value if isinstance(value, str) else "\n".join(leaves(value, SAID))
    return text.encode("utf-8", "replace").decode().replace("\x00", "")[:longest].strip()


def leaves(value: Any, fields: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the texts and numbers in a value, or those in some fields of the objects in it."""
    if isinstance(value, Mapping):
        value = [value[name] for name in fields if name in value] if fields else list(value.values())
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from leaves(one, fields)
    elif value is not None and str(value).strip():
        yield str(value)
