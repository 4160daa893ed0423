"""Decides by rules whether two short instructions contradict each other.

The rules would rather miss a contradiction than invent one. Two texts must be about the same subject and say the
opposite: one forbids what the other asks for, or they name different ends of a scale.

    >>> contradict("Offer the earliest slot first", "Offer the latest slot first")
    True
    >>> contradict("Never offer the latest slot", "Offer the earliest slot")
    False
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

__all__ = ["contradict"]

SAME_SUBJECT = 0.5
"""Share of the shorter text's words that must be exceeded by the words both have in common."""
NEGATION_REACH = 4
"""Number of words that a negation applies to, up to the end of the clause."""

_SCALES = (
    ("early earlier earliest soonest", "late later latest"),
    ("morning mornings", "afternoon afternoons", "evening evenings"),
    ("weekday weekdays", "weekend weekends"),
    ("before", "after"),
    ("short shorter shortest brief briefly concise", "long longer longest detailed lengthy"),
    ("formal formally", "informal informally casual casually"),
    ("cheap cheaper cheapest", "expensive premium"),
    ("small smaller smallest", "large larger largest big biggest"),
    ("fast faster fastest quickly", "slow slower slowest slowly"),
    ("phone telephone", "email mail", "chat"),
    ("accept confirm approve", "decline reject refuse"),
    ("private privately", "public publicly"),
    ("automatically", "manually"),
    ("more", "fewer less"),
    ("increase raise", "decrease reduce lower"),
    ("include", "exclude omit"),
    ("alone", "together"),
    ("online remote remotely", "onsite"),
    ("aisle", "window"),
)
"""Scales, each with the words for its ends. Different ends of a scale exclude each other."""
_END_OF = {
    word: (scale, end) for scale, ends in enumerate(_SCALES) for end, words in enumerate(ends) for word in words.split()
}
_NEGATIONS = frozenset(
    ["not", "no", "never", "cannot", "without", "avoid", "avoids", "skip", "instead", "rather", "stop"]
)
_FILLERS = """
    a always an and any are as at be been by can do does for from has have he her him his in into is it its like likes
    me my of on one ones or our out over please prefer prefers she should so some than that the their them then they
    this to up use user wants when with you your
"""
_STOP_WORDS = frozenset(_FILLERS.split())
_PIECE = re.compile(r"[\w']+|[.,;:!?]")


@dataclass(slots=True)
class _Reading:
    """What a text is about, which part of that it forbids, and the ends of scales it asks for or forbids."""

    subject: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    asked: dict[int, set[int]] = field(default_factory=dict)
    forbidden: dict[int, set[int]] = field(default_factory=dict)


def contradict(one: str, other: str) -> bool:
    """Return whether it is impossible to follow both texts."""
    mine, theirs = _read(one), _read(other)
    least = min(len(mine.subject), len(theirs.subject))
    if least and len(mine.subject & theirs.subject) <= SAME_SUBJECT * least:
        return False
    shared = _scales(mine) & _scales(theirs)
    if shared:
        return any(_opposed(mine, theirs, scale) for scale in shared)
    # Without a common scale, one must forbid what the other asks for.
    return bool(mine.refused & (theirs.subject - theirs.refused) or theirs.refused & (mine.subject - mine.refused))


def _opposed(mine: _Reading, theirs: _Reading, scale: int) -> bool:
    asked, wanted = mine.asked.get(scale, set()), theirs.asked.get(scale, set())
    if asked and wanted and not asked & wanted:
        return True
    return bool(asked & theirs.forbidden.get(scale, set()) or wanted & mine.forbidden.get(scale, set()))


def _scales(reading: _Reading) -> set[int]:
    return set(reading.asked) | set(reading.forbidden)


def _read(text: str) -> _Reading:
    reading, negated = _Reading(), 0
    for piece in _PIECE.findall(text.casefold().replace("’", "'")):
        if not (piece[0].isalnum() or piece[0] in "_'"):
            negated = 0
        elif piece in _NEGATIONS or piece.endswith("n't"):
            negated = NEGATION_REACH
        elif piece in _END_OF:
            scale, end = _END_OF[piece]
            (reading.forbidden if negated else reading.asked).setdefault(scale, set()).add(end)
            negated = max(negated - 1, 0)
        elif piece not in _STOP_WORDS:
            reading.subject.add(_stem(piece))
            if negated:
                reading.refused.add(_stem(piece))
            negated = max(negated - 1, 0)
    return reading


def _stem(word: str) -> str:
    """Strip common English endings. A rough stem is enough, as long as it is the same for both texts."""
    for ending in ("ings", "ing", "ies", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word
