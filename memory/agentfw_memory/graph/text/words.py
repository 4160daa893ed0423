"""Turns a text into the terms that texts are compared by: stemmed words without stop words, numbers and dates.

    >>> terms("Ana's meetings on 2023-05-07 cost 1,200 euros")
    ['ana', 'meet', '2023', 'may', '7', 'cost', '1200', 'euro']
    >>> terms("the 7th of May, 2023")
    ['7', 'may', '2023']
    >>> terms("Die Katzen schlafen auf dem Sofa")
    ['katz', 'schlaf', 'sofa']
    >>> terms("我住在柏林")
    ['我住', '住在', '在柏', '柏林']
    >>> terms("买iPhone手机")
    ['买', 'iphon', '手机', '买i', 'e手']

Words are stemmed in their language, which languages.py finds out. Where words aren't separated by spaces, and in
Korean, where endings hide them, each pair of neighbouring characters is a term. So is the pair where such characters
meet a number or a word in other letters, because what stands beside a year tells what happened in it.

A query and a skill pass through the same function, so a wrong stem does little harm as long as it is the same one.
Without `snowballstemmer` (extra `memory`), words are compared as they are.
"""

from __future__ import annotations

import importlib.util
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import cache, lru_cache
from itertools import pairwise

from agentfw_memory.graph.text.languages import PAIRED, STOP_WORDS, language_of, script_of

MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)

_NEGATED = (
    "no not never don doesn nicht nie kein keine ne pas jamais sans nunca sin non mai senza não sem не нет без никогда "
    "لا ليس لم नहीं मत"
)
NEGATIONS = frozenset(_NEGATED.split())
"""Words that turn a text round, though most of them are too common to be terms."""
SHORT = 300
"""Number of characters up to which a text may be a question."""

_WORD = re.compile(r"\w+")
# Vowel signs and other marks belong to their word, but aren't letters to Python.
_MARKS = "\u0300-\u036f\u0591-\u05bd\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
_MARKED_WORD = re.compile(rf"[\w{_MARKS}{PAIRED}]+")
_PAIRED = re.compile(rf"[{PAIRED}]")
_RUN = re.compile(rf"[{PAIRED}]+|[^{PAIRED}]+")
_ISO_DATE = re.compile(r"\b(\d{4})-(\d{1,2})-(\d{1,2})\b")
_DIGIT = re.compile(r"\d")
_GROUPED = re.compile(r"(?<=\d),(?=\d{3}\b)")
_ORDINAL = re.compile(r"\b(\d{1,2})(?:st|nd|rd|th)\b")
_APOSTROPHE = re.compile(r"(?<=\w)['\u2019](?:s|t|d|m|ll|re|ve)\b")


def tokens(text: str) -> list[str]:
    """Split a text into case-folded words."""
    return _WORD.findall(text.casefold())


def words(text: str) -> list[str]:
    """Split a text of any script into case-folded words. A run of characters without spaces becomes its pairs."""
    plain = text.casefold()
    return _WORD.findall(plain) if plain.isascii() else list(_split(unicodedata.normalize("NFKC", plain)))


def terms(text: str) -> list[str]:
    """Return the terms of a text in their order. A text of stop words alone keeps them."""
    return list(_short_terms(text)) if len(text) <= SHORT else _terms(text)


@lru_cache(maxsize=4_096)
def _short_terms(text: str) -> tuple[str, ...]:
    """Remember those of questions, because a recall asks for them several times, and of skills that are often found."""
    return tuple(_terms(text))


def _terms(text: str) -> list[str]:
    plain = _APOSTROPHE.sub("", text.casefold())
    if _DIGIT.search(plain):
        if "-" in plain:
            plain = _ISO_DATE.sub(_spelled, plain)
        plain = _ORDINAL.sub(r"\1", _GROUPED.sub("", plain) if "," in plain else plain)
    spoken = words(plain)
    language = language_of(spoken)
    found = [_stem(word, language) for word in spoken if word not in STOP_WORDS[language]] or spoken
    return [*found, *_borders(plain)] if _PAIRED.search(plain) else found


def meaning(text: str) -> frozenset[str]:
    """Return the terms of a text and its negations. Two texts with the same say the same, word by word.

    >>> meaning("Do not offer late slots") == meaning("Offer a late slot"), meaning("a table") == meaning("Tables!")
    (False, True)
    """
    return frozenset(terms(text)) | (NEGATIONS & set(words(text)))


def followed(
    text: str, calls: Iterable[str], said: Iterable[str], *, tools: Iterable[str] = (), about: Iterable[str] = ()
) -> bool:
    """Return whether what was done has the words of a skill.

    `calls` are the tools that were called and worked, and `said` are texts of what was done: arguments and effects. A
    tool that the text names must have been called. A third of the other words must occur, as those by which one wishes
    for something never do. `about` are the scenarios, whose names are no content.

    That a skill was shown says how well it is found, not how useful it is. Only one that was followed counts as used.

        >>> followed("For dining, prefer quiet tables", ["book"], ["Lumen: a quiet table"], about=["dining"])
        True
        >>> followed("For dining, prefer quiet tables", ["book"], ["Roar: live music"], about=["dining"])
        False
        >>> followed("Use search, then book", ["search", "mail"], [], tools=["search", "book"])
        False
    """
    called = set(calls)
    named = {tool for tool in tools if tool in text}
    if not named <= called:
        return False
    done = {term for each in (*said, *called) for term in terms(each)}
    asked = set(terms(text)) - {term for each in (*about, *named) for term in terms(each)}
    return 3 * len(asked & done) >= len(asked) if asked else bool(named)


def _split(plain: str) -> Iterator[str]:
    for word in _MARKED_WORD.findall(plain):
        for run in _RUN.findall(word):
            if _PAIRED.match(run) and len(run) > 1:
                yield from map("".join, pairwise(run))
            else:
                yield run


def _borders(plain: str) -> Iterator[str]:
    for word in _MARKED_WORD.findall(unicodedata.normalize("NFKC", plain)):
        yield from (before[-1] + after[0] for before, after in pairwise(_RUN.findall(word)))


def _spelled(date: re.Match[str]) -> str:
    """Write 2023-05-07 as 2023 may 7, as people write it."""
    year, month, day = (int(part) for part in date.groups())
    return f"{year} {MONTHS[month - 1]} {day}" if 1 <= month <= 12 else date.group()


@lru_cache(maxsize=200_000)
def _stem(word: str, language: str) -> str:
    if word.isdigit() or word in MONTHS or _PAIRED.match(word):
        return word
    return _stemmer(script_of(word) or language)(word)


@cache
def _stemmer(language: str) -> Callable[[str], str]:
    if importlib.util.find_spec("snowballstemmer") is None:
        return str
    import snowballstemmer

    if language not in snowballstemmer.algorithms():
        return str
    stem: Callable[[str], str] = snowballstemmer.stemmer(language).stemWord
    return stem
