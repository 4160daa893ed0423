"""Decides by rules whether a shown skill was followed.

That a skill was shown says how well it is found, not how useful it is. Only a skill that was followed counts as used.

    >>> followed("For dining, prefer quiet tables", ["book"], ["Lumen: a quiet table by the river"], about=["dining"])
    True
    >>> followed("For dining, prefer quiet tables", ["book"], ["Roar: live music"], about=["dining"])
    False
    >>> followed("Use search, then book", ["search", "mail"], [], tools=["search", "book"])
    False
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from agentfw_memory.graph.text.reading import END_OF, read, words

__all__ = ["followed"]


def followed(
    text: str, calls: Iterable[str], said: Iterable[str], *, tools: Iterable[str] = (), about: Iterable[str] = ()
) -> bool:
    """Return whether what was done does what the text of a skill asks for.

    `calls` are the tools that were called and worked, and `said` are texts of what was done: arguments and effects. A
    tool that the text names must have been called. Half of the other words must occur, and none that the text rules
    out. `about` are the scenarios, whose names are no content.
    """
    called, said = set(calls), list(said)
    named = {tool for tool in tools if tool in text}
    if not named <= called:
        return False
    done = set().union(*(words(each) for each in (*said, *called)))
    ends = {END_OF[word] for each in said for word in re.findall(r"[\w']+", each.casefold()) if word in END_OF}
    topic = set().union(*(words(each) for each in (*about, *named)))
    reading = read(text)
    refused = reading.refused - topic
    forbidden = {(scale, end) for scale, some in reading.forbidden.items() for end in some}
    if refused & done or forbidden & ends:
        return False
    asked = [word in done for word in reading.subject - reading.refused - topic]
    asked += [(scale, end) in ends for scale, some in reading.asked.items() for end in some]
    if not asked:
        return bool(named or ((refused or forbidden) and done))
    return 2 * sum(asked) >= len(asked)
