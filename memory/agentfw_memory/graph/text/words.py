"""Turns a text into the terms that texts are compared by: stemmed words without stop words, numbers and dates.

    >>> terms("Ana's meetings on 2023-05-07 cost 1,200 euros")
    ['ana', 'meet', '2023', 'may', '7', 'cost', '1200', 'euro']
    >>> terms("the 7th of May, 2023")
    ['7', 'may', '2023']

A query and a skill pass through the same function, so a wrong stem does little harm as long as it is the same one.
Without `snowballstemmer` (extra `memory`), words are compared as they are.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from functools import cache, lru_cache

__all__ = ["MONTHS", "terms", "tokens"]

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)

_WORD = re.compile(r"\w+")
_ISO_DATE = re.compile(r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b")
_GROUPED = re.compile(r"(?<=\d),(?=\d{3}\b)")
_ORDINAL = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)\b")
_APOSTROPHE = re.compile(r"(?<=\w)['\u2019](?:s|t|d|m|ll|re|ve)\b")

_STOP_WORDS = frozenset(
    _WORD.findall(
        """
        a about after again all also am an and any are as at be because been before being but by can could did do does
        doing don down during each for from get had has have having he her here hers him his how i if in into is it its
        just let me more most my no nor not of off on once only or other our out over own please same shall she should
        so some such than that the their them then there these they this those through to too under until up us very
        was we were what when where which while who whom whose why will with would you your
        """
    )
)
"""English words that are in every other sentence. In another language, words that are in most skills count for little
anyway, because they are common."""


def tokens(text: str) -> list[str]:
    """Split a text into case-folded words."""
    return _WORD.findall(text.casefold())


def terms(text: str) -> list[str]:
    """Return the terms of a text in their order. A text of stop words alone keeps them."""
    plain = _APOSTROPHE.sub("", text.casefold())
    if any(sign.isdigit() for sign in plain):
        plain = _ORDINAL.sub(r"\1", _GROUPED.sub("", _ISO_DATE.sub(_spelled, plain)))
    words = _WORD.findall(plain)
    return [_stem(word) for word in words if word not in _STOP_WORDS] or words


def _spelled(date: re.Match[str]) -> str:
    """Write 2023-05-07 as 2023 may 7, as people write it."""
    year, month, day = (int(part) for part in date.groups())
    return f"{year} {MONTHS[month - 1]} {day}" if 1 <= month <= 12 else date.group()


@lru_cache(maxsize=200_000)
def _stem(word: str) -> str:
    return word if word.isdigit() or word in MONTHS else _stemmer()(word)


@cache
def _stemmer() -> Callable[[str], str]:
    if importlib.util.find_spec("snowballstemmer") is None:
        return str
    import snowballstemmer

    stem: Callable[[str], str] = snowballstemmer.stemmer("english").stemWord
    return stem
