"""Tells by common words whether a shown skill was followed.

That a skill was shown says how well it is found, not how useful it is. Only a skill that was followed counts as used.

    >>> followed("For dining, prefer quiet tables", ["book"], ["Lumen: a quiet table by the river"], about=["dining"])
    True
    >>> followed("For dining, prefer quiet tables", ["book"], ["Roar: live music"], about=["dining"])
    False
    >>> followed("Use search, then book", ["search", "mail"], [], tools=["search", "book"])
    False
"""

from __future__ import annotations

from collections.abc import Iterable

from agentfw_memory.graph.text.words import terms


def followed(
    text: str, calls: Iterable[str], said: Iterable[str], *, tools: Iterable[str] = (), about: Iterable[str] = ()
) -> bool:
    """Return whether what was done has the words of a skill.

    `calls` are the tools that were called and worked, and `said` are texts of what was done: arguments and effects. A
    tool that the text names must have been called. A third of the other words must occur, as those by which one wishes
    for something never do. `about` are the scenarios, whose names are no content.
    """
    called = set(calls)
    named = {tool for tool in tools if tool in text}
    if not named <= called:
        return False
    done = {term for each in (*said, *called) for term in terms(each)}
    asked = set(terms(text)) - {term for each in (*about, *named) for term in terms(each)}
    return 3 * len(asked & done) >= len(asked) if asked else bool(named)
