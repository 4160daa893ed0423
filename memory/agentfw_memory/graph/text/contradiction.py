"""Decides by rules whether two short instructions contradict each other.

The rules would rather miss a contradiction than invent one. Two texts must be about the same subject and say the
opposite: one forbids what the other asks for, or they name different ends of a scale.

    >>> contradict("Offer the earliest slot first", "Offer the latest slot first")
    True
    >>> contradict("Never offer the latest slot", "Offer the earliest slot")
    False
"""

from __future__ import annotations

from agentfw_memory.graph.text.reading import Reading, read

__all__ = ["contradict"]

SAME_SUBJECT = 0.5
"""Share of the shorter text's words that must be exceeded by the words both have in common."""
_NONE: frozenset[int] = frozenset()


def contradict(one: str, other: str) -> bool:
    """Return whether it is impossible to follow both texts."""
    mine, theirs = read(one), read(other)
    least = min(len(mine.subject), len(theirs.subject))
    if least and len(mine.subject & theirs.subject) <= SAME_SUBJECT * least:
        return False
    shared = _scales(mine) & _scales(theirs)
    if shared:
        return any(_opposed(mine, theirs, scale) for scale in shared)
    # Without a common scale, one must forbid what the other asks for.
    return bool(mine.refused & (theirs.subject - theirs.refused) or theirs.refused & (mine.subject - mine.refused))


def _opposed(mine: Reading, theirs: Reading, scale: int) -> bool:
    asked, wanted = mine.asked.get(scale, _NONE), theirs.asked.get(scale, _NONE)
    if asked and wanted and not asked & wanted:
        return True
    return bool(asked & theirs.forbidden.get(scale, _NONE) or wanted & mine.forbidden.get(scale, _NONE))


def _scales(reading: Reading) -> set[int]:
    return set(reading.asked) | set(reading.forbidden)
