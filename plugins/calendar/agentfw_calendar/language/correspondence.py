"""In which language somebody is written to.

    languages = Correspondence(titles)       # of the whole calendar
    languages.of(events)                     # "ja": all events that one person called

One person is written to in one language: that of all their events together. py3langid knows languages by their letters,
and the lists of `words` know the short words of titles. What is said the same in every language, such as "Review" or a
company's name, says nothing; where nothing else is there, the language of the calendar is taken.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from typing import Any

from ..ics.occurrences import Occurrence
from .texts import LETTERS
from .words import spoken

_SAID = re.compile(r"^SUMMARY[^:]*;LANGUAGE=\"?([a-z]{2})", re.I)
_READ = 300
"""Number of titles from which the language of a calendar is known."""
_EVERYWHERE = frozenset((
    "appointment", "brainstorming", "brunch", "budget", "call", "check", "daily", "demo", "feedback", "fixe", "jour",
    "kick", "kickoff", "launch", "meeting", "off", "online", "planning", "project", "retro", "review", "standup",
    "status", "sync", "team", "training", "update", "webinar", "weekly", "workshop",
))  # fmt: skip
"""Words that are said in many languages."""
_WORD = re.compile(r"[^\W\d_]+")
_HAN, _KANA = re.compile(r"[\u4e00-\u9fff]+"), re.compile(r"[\u3040-\u30ff]")
_BY_SCRIPT, _BY_WORD, _BY_CALENDAR = 5.0, 0.2, 0.5


class Correspondence:
    """The languages of a calendar and of those who write in it."""

    def __init__(self, titles: Iterable[str]) -> None:
        found = Counter[str]()
        for _, title in zip(range(_READ), titles, strict=False):
            if weights := _weights(_own(title, frozenset())):
                found[_first(weights)] += 1
        self._calendar = {name: found[name] / found.total() if found else 0.0 for name in LETTERS}

    def of(self, events: Iterable[Occurrence]) -> str:
        """The language that the events of one person say themselves, else the one that they are most likely in."""
        said, texts = Counter[str](), list[str]()
        for one in events:
            entry = one.entry
            for line in entry.block.lines_of("SUMMARY"):
                if (match := _SAID.match(line.text)) and match[1].lower() in LETTERS:
                    said[match[1].lower()] += 1
            party = entry.organizer
            names = set() if party is None else set(_WORD.findall(f"{party.name} {party.address}".lower()))
            texts.append(_own(f"{entry.title}. {entry.texts.get('DESCRIPTION', '')[:1000]}", frozenset(names)))
        if said:
            return said.most_common(1)[0][0]
        weights = _weights(" ".join(filter(None, texts)))
        return _first({name: weights.get(name, 0.0) + _BY_CALENDAR * self._calendar[name] for name in LETTERS})


def _first(weights: Mapping[str, float]) -> str:
    return max(LETTERS, key=lambda name: weights[name])


def _own(text: str, names: frozenset[str]) -> str:
    """The words of a text that may belong to one language: without abbreviations, and names of people and companies."""
    words = _WORD.findall(text)
    kept = [
        word for word in words if word.lower() not in _EVERYWHERE | names and not (word.isupper() and word.isascii())
    ]
    return " ".join(kept)


@lru_cache(maxsize=10_000)
def _weights(text: str) -> Mapping[str, float]:
    """How much speaks for each language; empty if nothing does."""
    if not text:
        return {}
    ranked = dict(_identifier().rank(text))
    most, scale = max(ranked.values()), math.sqrt(len(text.encode()))
    known = spoken(text)
    found = {name: (ranked[name] - most) / scale + _BY_WORD * known.get(name, 0) for name in LETTERS}
    han = "".join(_HAN.findall(text))
    if _KANA.search(text):
        found["ja"] += _BY_SCRIPT
    elif han and _has(han, "gb2312") != _has(han, "shift_jis"):  # simplified characters, or those of Japan
        found["zh" if _has(han, "gb2312") else "ja"] += _BY_SCRIPT
    return found


def _has(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


@cache
def _identifier() -> Any:
    import py3langid  # its model takes a third of a second, which only drafts need

    py3langid.set_languages(LETTERS)
    return py3langid
