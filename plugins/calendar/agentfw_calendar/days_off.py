"""Days on which nobody should be asked to meet: public holidays and leave.

They come from the person's own calendars, where such days often count as free time, and from the package `holidays` if
the person's file names a country.

    days_off(dates.dated, "DE-BY", (since, until), home)
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, time, timedelta, tzinfo

from agentfw.errors import SettingsError

from .free_times import Span
from .ics_events import Entry
from .ics_marking import BUSY_STATUS, DECLINED
from .occurrences import Occurrence
from .sources import Part
from .words import named

__all__ = ["days_off", "is_away"]

_LONG = timedelta(hours=12)
_SHORT = 40
_OUT_OF_OFFICE = ("OOF", "OUTOFOFFICE")


def is_away(one: Occurrence) -> bool:
    """Whether a whole day or more says that the person isn't there: leave, travel or illness.

    Words at the beginning of the title say so, also where the day counts as free, or what Outlook and Google note about
    the status. A birthday or a public holiday doesn't.
    """
    entry, texts = one.entry, one.entry.texts
    if not (entry.all_day or one.end - one.start >= _LONG):
        return False
    if DECLINED in texts or texts.get("STATUS", "").strip().upper() == "CANCELLED":
        return False
    notes = [value for name, value in texts.items() if name not in ("SUMMARY", "DESCRIPTION", "LOCATION")]
    notes = [re.sub(r"[\s_-]", "", note.upper()) for note in (*notes, *entry.categories) if len(note) < _SHORT]
    if any(note in _OUT_OF_OFFICE for note in notes):
        return True
    words = named(entry.title, "titles")
    private = not words.keys().isdisjoint(("topic=personal", "topic=social"))
    return words.get("away") == 0 or (texts.get(BUSY_STATUS, "").strip().upper() == "BUSY" and not private)


def days_off(dated: Sequence[tuple[Part, Sequence[Occurrence]]], country: str, span: Span, home: tzinfo) -> list[Span]:
    """The spans of days off, from midnight to midnight."""
    found = []
    for part, dates in dated:
        calendar = next((block.first_text("X-WR-CALNAME") for block in part.lines.top), "")
        found += [(one.start, one.end) for one in dates if _is_day_off(one.entry, calendar)]
    if country:
        found += _public_holidays(country, span, home)
    return found


def _is_day_off(entry: Entry, calendar: str) -> bool:
    """Whether an all-day event is a holiday or leave, in one of the six languages.

    Google says in the description what kind of day it is, Outlook and Apple in a category. Leave is in the title.
    """
    if not entry.all_day or entry.texts.get("STATUS", "").strip().upper() == "CANCELLED":
        return False
    described = entry.texts.get("DESCRIPTION", "").strip().partition("\n")[0]
    kind = named(". ".join((*entry.categories, described)), "titles")
    if "day off=no" in kind:
        return False
    title = named(entry.title, "titles")
    if "day off" in kind or 0 in (title.get("day off"), title.get("away")):
        return True
    return not described and "day off" in named(calendar, "titles")


def _public_holidays(country: str, span: Span, home: tzinfo) -> list[Span]:
    import holidays

    first, last = (moment.astimezone(home).date() for moment in span)
    state, _, part = country.partition("-")
    try:
        known = holidays.country_holidays(state, subdiv=part or None, years=range(first.year, last.year + 1))
    except NotImplementedError:
        raise SettingsError(
            f'no public holidays are known for "{country}"',
            fix='write a country such as country = "DE", or with its state or province: "DE-BY"',
        ) from None
    midnights = [datetime.combine(day, time(), home) for day in sorted(known) if first <= day <= last]
    return [(midnight, midnight + timedelta(days=1)) for midnight in midnights]
