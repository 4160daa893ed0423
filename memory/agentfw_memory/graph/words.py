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

Words are stemmed in their language, which is found out by their script, or by the commonest words of a text: English
if no other language explains more of them, so that a short question and a long text are stemmed alike. Where words
aren't separated by spaces, and in Korean, where endings hide them, each pair of neighbouring characters is a term. So
is the pair where such characters meet a number or a word in other letters.

Without `snowballstemmer` (extra `memory`), words are compared as they are.
"""

from __future__ import annotations

import importlib.util
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from itertools import chain, pairwise

PAIRED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Thai, Lao, Burmese, Khmer, Japanese, Chinese and Korean, as ranges of a regular expression's class."""

_SCRIPTS = (
    (0x0370, 0x03FF, "greek"),
    (0x0400, 0x052F, "russian"),
    (0x0530, 0x058F, "armenian"),
    (0x0600, 0x06FF, "arabic"),
    (0x0900, 0x097F, "hindi"),
    (0x0B80, 0x0BFF, "tamil"),
)

_LETTERS = {
    **dict.fromkeys("äß", ("german",)),
    **dict.fromkeys("êëœ", ("french",)),
    **dict.fromkeys("ñ", ("spanish",)),
    **dict.fromkeys("ãõ", ("portuguese",)),
    **dict.fromkeys("å", ("swedish", "danish")),
    **dict.fromkeys("æø", ("danish",)),
    **dict.fromkeys("ăâîșțţ", ("romanian",)),
    **dict.fromkeys("ğışİ", ("turkish",)),
    **dict.fromkeys("đơư", ("vietnamese",)),
    **dict.fromkeys(map(chr, range(0x1EA0, 0x1EFA)), ("vietnamese",)),
}
"""Letters that few languages have. One in a text counts as much as a common word."""

_LINES = files("agentfw_memory.graph").joinpath("stop_words.txt").read_text("utf-8").splitlines()
_WORDS = {name: frozenset(words.split()) for name, _, words in (line.partition(": ") for line in _LINES)}
_OTHER_SCRIPTS = frozenset(word for _, _, name in _SCRIPTS for word in _WORDS.get(name, ()))

STOP_WORDS: Mapping[str, frozenset[str]] = {name: words | _OTHER_SCRIPTS for name, words in _WORDS.items()}
"""By language: the words that are in every other sentence and tell no two texts apart."""

_LANGUAGES: dict[str, tuple[str, ...]] = {}
for _name, _words in _WORDS.items():
    for _word in _words - _OTHER_SCRIPTS:
        _LANGUAGES[_word] = (*_LANGUAGES.get(_word, ()), _name)


def language_of(spoken: Sequence[str]) -> str:
    """Return the language written in Latin letters that explains most of the words.

    >>> language_of(["wo", "ist", "die", "katze"]), script_of("кошка"), language_of(["cat"])
    ('german', 'russian', 'english')
    """
    foreign = "".join(word for word in spoken if not word.isascii())
    known = [_LANGUAGES[word] for word in spoken if word in _LANGUAGES]
    found = Counter(chain.from_iterable(known + [_LETTERS[letter] for letter in foreign if letter in _LETTERS]))
    best = max(found.values(), default=0)
    # "Las Vegas" alone is no Spanish, but "¿Las cañas?" is.
    enough = 1 if foreign else 2
    return "english" if best < enough or found["english"] == best else found.most_common(1)[0][0]


@lru_cache(maxsize=200_000)
def script_of(word: str) -> str:
    """Return the language of a word in a script for which there is only one stemmer, or an empty text."""
    first = ord(word[0])
    return next((name for start, end, name in _SCRIPTS if start <= first <= end), "")


MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)

_NEGATED = (
    "no not never don doesn nicht nie kein keine ne pas jamais sans nunca sin non mai senza não sem не нет без никогда "
    "لا ليس لم नहीं मत"
)
NEGATIONS = frozenset(_NEGATED.split())  # words that turn a text round, though most of them are too common to be terms
SHORT = 300  # number of characters up to which a text may be a question

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
    if plain.isascii():
        return _WORD.findall(plain)
    found = list[str]()
    for word in _MARKED_WORD.findall(unicodedata.normalize("NFKC", plain)):
        for run in _RUN.findall(word):
            found += map("".join, pairwise(run)) if _PAIRED.match(run) and len(run) > 1 else [run]
    return found


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
    if _PAIRED.search(plain):
        for word in _MARKED_WORD.findall(unicodedata.normalize("NFKC", plain)):
            found += (before[-1] + after[0] for before, after in pairwise(_RUN.findall(word)))
    return found


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
