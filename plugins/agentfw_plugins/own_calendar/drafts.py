"""A message to whoever called a meeting that is declined, in the language of the event or else of the calendar.

language = Language(titles)
draft([occurrence], to, home, language.of(occurrence))
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo

from .occurrences import Occurrence
from .words import LANGUAGES, phrases, spoken

__all__ = ["Language", "draft"]

_SAID = re.compile(r"^SUMMARY[^:]*;LANGUAGE=\"?([a-z]{2})", re.I)
_READ = 300
"""Number of titles from which the language of a calendar is known."""


class Language:
    """The language of events."""

    def __init__(self, titles: Iterable[str]) -> None:
        self._calendar: Counter[str] = Counter()
        for _, title in zip(range(_READ), titles, strict=False):
            self._calendar.update(spoken(title))

    def of(self, one: Occurrence) -> str:
        """What the event says, else the language of most of its words, else that of most titles of the calendar."""
        for line in one.entry.block.lines_of("SUMMARY"):
            said = _SAID.match(line.text)
            if said and said[1].lower() in LANGUAGES:
                return said[1].lower()
        words = spoken(f"{one.entry.title}. {one.entry.texts.get('DESCRIPTION', '')}")
        return max(LANGUAGES, key=lambda name: (words[name], self._calendar[name]))


def draft(ones: Sequence[Occurrence], to: datetime, home: tzinfo, language: str, *, move: bool = False) -> str:
    """What to write about these dates of one event. With `move`, that the whole series should be at another time."""
    entry, said = ones[0].entry, phrases(language)
    name = entry.organizer.name if entry.organizer is not None else ""
    dates = "; ".join(_date(one.start.astimezone(home), language) for one in ones)
    kind = "move" if move else "one" if len(ones) == 1 else "several"
    text = said[kind].format(title=entry.title, date=dates, to=_date(to.astimezone(home), language))
    return f"{said['hello'].format(name=f' {name}' if name else '')}\n{text}"


def _date(moment: datetime, language: str) -> str:
    said = phrases(language)
    weekday, month = said["weekdays"][moment.weekday()], said["months"][moment.month - 1]
    return str(said["date"].format(weekday=weekday, day=moment.day, month=month, time=f"{moment:%H:%M}"))
