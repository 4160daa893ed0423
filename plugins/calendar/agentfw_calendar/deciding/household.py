"""Whose an event is, in a calendar that several people share.

"Lily swimming" and "Tom football" at the same time are no choice of one person, unless they have to be at both. Who
goes isn't said in most calendars, so it is asked once and remembered for all events of this title.

    household = Household.of(dates.dated, people, about.family)
    household.named(one)          # "lily", or "" if it is about nobody else

A name is one from the person's file, that of a calendar ("Lily"), or a word that several titles begin with and no list
of words has. Events with invitations are not asked about: there it is said who comes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..ics.occurrences import Occurrence
from ..ics.sources import Part
from ..language.words import named, unknown_words
from .people import People

_FIRST = re.compile(r"([^\W\d_]{3,})(?:['’]s)?\b")
_SEVERAL = 2


@dataclass(frozen=True, slots=True)
class Household:
    """The people whose events are in a calendar."""

    names: frozenset[str] = frozenset()
    """Those that are known, in lower case."""
    guessed: frozenset[str] = frozenset()
    """Words that may be names, because titles begin with them."""
    of_calendar: Mapping[str, str] = field(default_factory=dict)
    """Names of calendars that are somebody's, by the ids of their events."""

    @classmethod
    def of(cls, dated: Sequence[tuple[Part, Sequence[Occurrence]]], people: People, family: Sequence[str]) -> Household:
        own = set(re.findall(r"\w+", people.owner.partition("@")[0]))
        calendars: dict[str, str] = {}
        leading: Counter[str] = Counter()
        for part, dates in dated:
            title = next((block.first_text("X-WR-CALNAME") for block in part.lines.top), "").casefold()
            is_person = len(dated) > 1 and title.isalpha() and bool(unknown_words(title)) and title not in own
            for one in dates:
                if is_person:
                    calendars[one.entry.uid] = title
                if not one.entry.attendees and (first := _leading(one)) and first not in own:
                    leading[first] += 1
        guessed = {word for word, count in leading.items() if count >= _SEVERAL}
        return cls(frozenset(name.casefold() for name in family), frozenset(guessed), calendars)

    def named(self, one: Occurrence) -> str:
        """Who an event is about, besides the owner; empty if it is about nobody, or about all."""
        title = one.entry.title
        if one.entry.attendees or "everyone" in named(title, "titles"):
            return ""
        words = re.findall(r"[^\W\d_]+", title.casefold())
        known = next((word for word in words if word in self.names), "") or self.of_calendar.get(one.entry.uid, "")
        first = _leading(one)
        return known or (first if first in self.guessed else "")

    def of_somebody_else(self, one: Occurrence) -> bool:
        """Whether it is about somebody of whom the person's file or a calendar says that they belong to the family."""
        return self.named(one) in self.names or one.entry.uid in self.of_calendar

    def unclear(self, group: Sequence[Occurrence]) -> list[Occurrence]:
        """Of events that clash, those of which it isn't said whether the owner has to be there.

        A word that only may be a name is no reason to ask, unless two of them clash.
        """
        about = {id(one): self.named(one) for one in group}
        sure = {name for name in about.values() if name and (name in self.names or name in self.of_calendar.values())}
        different = {name for name in about.values() if name}
        return [one for one in group if about[id(one)] in sure or (about[id(one)] and len(different) > 1)]


def _leading(one: Occurrence) -> str:
    """The word that a title begins with, if it is written as a name and no list has it."""
    match = _FIRST.match(one.entry.title)
    word = match[1] if match else ""
    return word.casefold() if word[:1].isupper() and not word.isupper() and unknown_words(word) else ""
