"""A message to whoever called a meeting that is declined, in the language of the event or else of the calendar.

language = Language(titles)
draft([occurrence], to, home, Texts.of(language.of(occurrence)))
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo

from .occurrences import Occurrence
from .texts import LANGUAGES, Texts
from .words import spoken

__all__ = ["Language", "draft"]

_SAID = re.compile(r"^SUMMARY[^:]*;LANGUAGE=\"?([a-z]{2})", re.I)
_READ = 300
"""Number of titles from which the language of a calendar is known."""


class Language:
    """The language of a calendar and of its events."""

    def __init__(self, titles: Iterable[str]) -> None:
        self._calendar: Counter[str] = Counter()
        for _, title in zip(range(_READ), titles, strict=False):
            self._calendar.update(spoken(title))

    @property
    def calendar(self) -> str:
        """The language of most words of the titles."""
        return max(LANGUAGES, key=lambda name: self._calendar[name])

    def of(self, one: Occurrence) -> str:
        """What the event says, else the language of most of its words, else that of most titles of the calendar."""
        for line in one.entry.block.lines_of("SUMMARY"):
            said = _SAID.match(line.text)
            if said and said[1].lower() in LANGUAGES:
                return said[1].lower()
        words = spoken(f"{one.entry.title}. {one.entry.texts.get('DESCRIPTION', '')}")
        return max(LANGUAGES, key=lambda name: (words[name], self._calendar[name]))


def draft(ones: Sequence[Occurrence], to: datetime, home: tzinfo, texts: Texts, *, move: bool = False) -> str:
    """What to write about these dates of one event. With `move`, that the whole series should be at another time."""
    entry = ones[0].entry
    name = entry.organizer.name if entry.organizer is not None else ""
    dates = texts("semicolon").join(texts.date("draft_date", one.start.astimezone(home)) for one in ones)
    kind = "draft_move" if move else "draft_one" if len(ones) == 1 else "draft_several"
    text = texts(kind, title=entry.title, date=dates, to=texts.date("draft_date", to.astimezone(home)))
    return f"{texts('draft_hello', name=f' {name}' if name else '')}\n{text}"
