"""The words by which people say what an event is like, in English, German, French, Spanish, Italian and Portuguese.

    named("Zahnarzt, Kontrolle", "titles")            # {"topic=personal": 0, "hold=fixed": 0}
    named("ce n'est pas du tout urgent", "reasons")   # {"urgency=low": 7}

A text is read in the language that most of its words belong to, and in all of those that share the first place. So
nobody has to set a language, and one calendar can have several.

The words are data: `words/LANGUAGE.yaml` lists them by attribute. A plain word matches its inflections too, `word*` any
ending, `*word` any beginning (German compounds), `=word` nothing but itself. Accents can be left out. The longest entry
wins, so that `none` can list phrases such as "call for papers". A negation turns some attributes round.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Literal

import yaml

from .texts import LANGUAGES

Kind = Literal["titles", "locations", "reasons"]

_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_FOLDER = Path(__file__).parent / "words"
_TOKEN = re.compile(r"\w+|(?<=\w)[:/-](?=\w)|[.,;!?]")
_WORD = re.compile(r"[=*]?\w+\*?|[:/-]")
_READ = 300
"""Number of titles from which the language of a calendar is known."""
_PUNCTUATION = frozenset(".,;!?")
_NEGATED = {
    "urgency=high": "urgency=low",
    "hold=must": "hold=optional",
    "hold=optional": "hold=must",
    "movable": "hold=fixed",
    "waits": "urgency=high",
}
"""What an attribute becomes if it is negated."""
_ONLY_NEGATED = ("movable", "waits")
"""These say nothing unless they are negated."""
_BEFORE, _AFTER = 4, 2
"""Number of words around an attribute in which a negation counts."""
_SHORTEST_STEM = 4
"""Shorter stems are shared by unrelated words."""
_SHORTEST_NAME = 3
_UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue"}


@dataclass(frozen=True, slots=True)
class _Entry:
    attribute: str
    words: tuple[re.Pattern[str] | frozenset[str], ...]


def named(text: str, kind: Kind) -> Mapping[str, int]:
    """The attributes that a text names, each with the number of the word where it is named first."""
    return _named(text[:1000], kind)


@lru_cache(maxsize=10_000)
def _named(text: str, kind: Kind) -> Mapping[str, int]:
    tokens = [match[0] for match in _TOKEN.finditer(unicodedata.normalize("NFC", text.lower()))]
    best, found = 0, dict[str, int]()
    for name in LANGUAGES:
        known, read = _language(name).read(tokens, kind)
        if known > best:
            best, found = known, {}
        if known == best:
            found |= {attribute: place for attribute, place in read.items() if attribute not in found}
    return found


def spoken(text: str) -> Mapping[str, int]:
    """How many words of a text each language knows."""
    return _spoken(text[:1000])


def most_spoken(titles: Iterable[str]) -> str:
    """The language of most words of these titles."""
    words = Counter[str]()
    for _, title in zip(range(_READ), titles, strict=False):
        words.update(spoken(title))
    return max(LANGUAGES, key=lambda name: words[name])


@lru_cache(maxsize=10_000)
def _spoken(text: str) -> Mapping[str, int]:
    tokens = [match[0] for match in _TOKEN.finditer(unicodedata.normalize("NFC", text.lower()))]
    return {name: _language(name).read(tokens, "titles")[0] for name in LANGUAGES}


@lru_cache(maxsize=10_000)
def unknown_words(text: str) -> frozenset[str]:
    """The words of a text that no language's list has, in lower case: mostly names.

    >>> sorted(unknown_words("Trip to London with Acme"))
    ['acme', 'london']
    """
    tokens = {match[0] for match in _TOKEN.finditer(unicodedata.normalize("NFC", text[:1000].lower()))}
    names = {token for token in tokens if len(token) >= _SHORTEST_NAME and token.isalpha()}
    return frozenset(token for token in names if not any(_language(name).knows(token) for name in LANGUAGES))


@cache
def said(meaning: str) -> frozenset[str]:
    """The words of all languages for a part of an answer, such as `both` or `always`."""
    return frozenset(word for name in LANGUAGES for word in _language(name).answers[meaning])


class _Language:
    """The words of one language."""

    def __init__(self, name: str) -> None:
        # All values are texts: for YAML, "no" is a truth value and "1:1" a number.
        given: dict[str, Any] = yaml.load((_FOLDER / f"{name}.yaml").read_text("utf-8"), Loader=_LOADER)
        self.answers: Mapping[str, Sequence[str]] = given["answers"]
        self._stem = _stemmer(given["stemmer"])
        self._common = {_plain(word) for word in (*given["common"], *given["negations"])}
        self._negations = {_plain(word) for word in given["negations"]}
        sections: dict[str, dict[str, list[str]]] = {kind: given[kind] for kind in ("titles", "locations", "reasons")}
        in_titles, in_reasons = self._entries(sections["titles"]), self._entries(sections["reasons"])
        self._by_kind: dict[str, tuple[dict[str, list[_Entry]], list[_Entry]]] = {
            "titles": _indexed(in_titles),
            "locations": _indexed(self._entries(sections["locations"])),
            "reasons": _indexed([*(one for one in in_titles if one.attribute != "none"), *in_reasons]),
        }

    def read(self, tokens: Sequence[str], kind: Kind) -> tuple[int, dict[str, int]]:
        """Number of words that belong to the language, and the attributes that they name."""
        forms = [self._forms(token) for token in tokens]
        is_negation = [_plain(token) in self._negations for token in tokens]
        known = {place for place, token in enumerate(tokens) if _plain(token) in self._common}
        found: dict[str, int] = {}
        place = 0
        while place < len(tokens):
            entries = self._at(forms, place, kind)
            longest = max((len(entry.words) for entry in entries), default=1)
            names = [entry.attribute for entry in entries if len(entry.words) == longest]
            if names:
                known.update(range(place, place + longest))
            for name in names if "none" not in names else ():
                attribute = self._turned(name, tokens, is_negation, place, place + longest)
                if attribute:
                    found.setdefault(attribute, place)
            place += longest
        return len(known), found

    def knows(self, token: str) -> bool:
        """Whether a word by itself belongs to the language."""
        forms = [self._forms(token)]
        return _plain(token) in self._common or any(self._at(forms, 0, kind) for kind in ("titles", "locations"))

    def _at(self, forms: Sequence[frozenset[str]], place: int, kind: Kind) -> list[_Entry]:
        """The entries whose words stand at a place."""
        by_form, by_pattern = self._by_kind[kind]
        candidates = [entry for form in forms[place] for entry in by_form.get(form, ())]
        return [
            entry
            for entry in (*candidates, *by_pattern)
            if len(entry.words) <= len(forms) - place
            and all(_matches(word, form) for word, form in zip(entry.words, forms[place:], strict=False))
        ]

    def _turned(
        self, attribute: str, tokens: Sequence[str], is_negation: Sequence[bool], begin: int, end: int
    ) -> str | None:
        """The attribute, or what it becomes beside a negation in the same clause."""
        if attribute not in _NEGATED:
            return attribute
        for places in (range(begin - 1, max(-1, begin - 1 - _BEFORE), -1), range(end, min(len(tokens), end + _AFTER))):
            for place in places:
                if tokens[place] in _PUNCTUATION:
                    break
                if is_negation[place]:
                    return _NEGATED[attribute]
        return None if attribute in _ONLY_NEGATED else attribute

    def _entries(self, section: Mapping[str, Sequence[str]]) -> list[_Entry]:
        return [
            _Entry(attribute, tuple(self._word(word) for word in _WORD.findall(phrase.lower())))
            for attribute, phrases in section.items()
            for phrase in phrases
        ]

    def _word(self, given: str) -> re.Pattern[str] | frozenset[str]:
        bare = given.strip("=*")
        spellings = {_plain(bare), _plain("".join(_UMLAUTS.get(letter, letter) for letter in bare))}
        if given.startswith("="):
            return frozenset(spellings)
        if bare != given:
            before, after = r"\w*" * given.startswith("*"), r"\w*" * given.endswith("*")
            return re.compile(f"{before}(?:{'|'.join(sorted(spellings))}){after}")
        return frozenset(form for spelling in (bare, *spellings) for form in self._forms(spelling))

    def _forms(self, word: str) -> frozenset[str]:
        """A word without accents, and its stems."""
        plain = _plain(word)
        stems = {_plain(self._stem(word)), self._stem(plain)}
        return frozenset({plain, *(f"{stem}~" for stem in stems if len(stem) >= _SHORTEST_STEM)})


@cache
def _language(name: str) -> _Language:
    return _Language(name)


@cache
def _stemmer(name: str) -> Callable[[str], str]:
    import snowballstemmer

    stem: Callable[[str], str] = snowballstemmer.stemmer(name).stemWord
    return cache(stem)


def _indexed(entries: Sequence[_Entry]) -> tuple[dict[str, list[_Entry]], list[_Entry]]:
    """Entries by the forms of their first word, and those that begin with a pattern."""
    by_form: dict[str, list[_Entry]] = {}
    by_pattern = []
    for entry in entries:
        first = entry.words[0]
        if isinstance(first, frozenset):
            for form in first:
                by_form.setdefault(form, []).append(entry)
        else:
            by_pattern.append(entry)
    return by_form, by_pattern


def _matches(word: re.Pattern[str] | frozenset[str], forms: frozenset[str]) -> bool:
    if isinstance(word, frozenset):
        return not word.isdisjoint(forms)
    return any(word.fullmatch(form) for form in forms if not form.endswith("~"))


def _plain(word: str) -> str:
    """A word without accents.

    >>> _plain("über"), _plain("cœur"), _plain("straße")
    ('uber', 'coeur', 'strasse')
    """
    spread = word.replace("ß", "ss").replace("œ", "oe").replace("æ", "ae")
    return "".join(letter for letter in unicodedata.normalize("NFKD", spread) if not unicodedata.combining(letter))
