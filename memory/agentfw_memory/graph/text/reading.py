"""Reads a short instruction: what it is about, what it forbids, and the ends of scales that it names.

Two texts with equal readings say the same in other words: `same_meaning` ignores word endings and filler words.

    >>> same_meaning("prefer quiet tables", "Please always prefer a quiet table")
    True
    >>> same_meaning("prefer quiet tables", "prefer loud tables")
    False
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

__all__ = ["END_OF", "Reading", "read", "same_meaning", "words"]

LONGEST_KEPT = 200
"""Maximum length of a text whose reading is kept."""
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
    ("first", "last"),
    ("quiet quieter quietest calm silent", "loud louder loudest noisy lively"),
    ("jazz", "rock", "classical", "pop", "folk", "electronic"),
    ("warm warmer hot", "cold colder cool cooler"),
    ("bright brighter", "dim dimmer dark darker"),
    ("spicy", "mild"),
    ("indoors", "outdoors"),
    ("near nearby close", "far"),
)
"""Scales, each with the words for its ends. Different ends of a scale exclude each other."""
END_OF = {
    word: (scale, end) for scale, ends in enumerate(_SCALES) for end, some in enumerate(ends) for word in some.split()
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


@dataclass(frozen=True, slots=True)
class Reading:
    """What a text is about, which part of that it forbids, and the ends of scales it asks for or forbids."""

    subject: frozenset[str]
    refused: frozenset[str]
    asked: Mapping[int, frozenset[int]]
    forbidden: Mapping[int, frozenset[int]]


def same_meaning(one: str, other: str) -> bool:
    """Return whether two texts ask for the same, apart from filler words and word endings."""
    return read(one) == read(other)


def words(text: str) -> set[str]:
    """Return the stems of a text's words, without fillers.

    >>> sorted(words("Booked the quiet tables"))
    ['book', 'quiet', 'tabl']
    """
    return {_stem(piece) for piece in re.findall(r"[\w']+", text.casefold()) if piece not in _STOP_WORDS}


def read(text: str) -> Reading:
    """Read a text. Short texts, such as skills, are read again and again, so their readings are kept."""
    return _read_short(text) if len(text) <= LONGEST_KEPT else _read(text)


def _read(text: str) -> Reading:
    subject, refused, negated = set[str](), set[str](), 0
    asked, forbidden = dict[int, set[int]](), dict[int, set[int]]()
    for piece in _PIECE.findall(text.casefold().replace("’", "'")):
        if not (piece[0].isalnum() or piece[0] in "_'"):
            negated = 0
        elif piece in _NEGATIONS or piece.endswith("n't"):
            negated = NEGATION_REACH
        elif piece in END_OF:
            scale, end = END_OF[piece]
            (forbidden if negated else asked).setdefault(scale, set()).add(end)
            negated = max(negated - 1, 0)
        elif piece not in _STOP_WORDS:
            subject.add(_stem(piece))
            if negated:
                refused.add(_stem(piece))
            negated = max(negated - 1, 0)
    return Reading(
        frozenset(subject),
        frozenset(refused),
        {scale: frozenset(ends) for scale, ends in asked.items()},
        {scale: frozenset(ends) for scale, ends in forbidden.items()},
    )


_read_short = lru_cache(maxsize=8192)(_read)


@lru_cache(maxsize=16384)
def _stem(word: str) -> str:
    """Strip common English endings. A rough stem is enough, as long as it is the same for both texts."""
    for ending in ("ings", "ing", "ies", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            return word.removesuffix(ending)
    return word
