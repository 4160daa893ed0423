"""The nearest time that is free and within a person's working hours, with the ways between places; and days off.

    hours = Hours.parse("09:00-17:00")
    busy = Merged(closed(stay, stays, travel))
    nearest_free(near, length, busy.is_free, hours, home, (since, until))
    days_off(dates.dated, "DE-BY", (since, until), home)

Times are proposed at full quarters of an hour, when such events are: a dinner in the evening, a meeting in working
hours, Monday to Friday. Before and after the days that were read nothing is
known, so nothing is proposed there.

On public holidays and leave nobody should be asked to meet. Such days come from the person's own calendars, where they
often count as free time, and from the package `holidays` if the person's file names a country.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta, tzinfo

from agentfw.errors import SettingsError, UsageError

from ..ics.ics_events import Entry
from ..ics.ics_marking import BUSY_STATUS, DECLINED
from ..ics.occurrences import Occurrence
from ..ics.sources import Part
from ..language.words import named

Span = tuple[datetime, datetime]
_STEP = timedelta(minutes=15)
_HOURS = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_TRAVEL = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:\d+S)?)?")
_SATURDAY = 5


@dataclass(frozen=True, slots=True)
class Hours:
    """Working hours of a day."""

    begin: time
    end: time

    @classmethod
    def parse(cls, text: str) -> Hours:
        match = _HOURS.fullmatch(text)
        found = match and cls(time(int(match[1]), int(match[2])), time(int(match[3]), int(match[4])))
        if not found or found.begin >= found.end:
            raise UsageError(f'"{text}" are no working hours', fix="pass --hours 09:00-17:00")
        return found


_BY_KIND = {
    "morning": Hours(time(7, 30), time(10, 30)),
    "noon": Hours(time(11, 30), time(14, 30)),
    "evening": Hours(time(18), time(23)),
}
_EVENING = 18
_AROUND = timedelta(minutes=90)


@dataclass(frozen=True, slots=True)
class Stay:
    """When and where an event keeps somebody."""

    begin: datetime
    end: datetime
    place: str = ""
    """Empty if it can be anywhere."""
    way: timedelta = timedelta()
    """The way there, which Apple's calendar notes."""

    @classmethod
    def read(cls, one: Occurrence, place: str) -> Stay:
        match = _TRAVEL.fullmatch(one.entry.block.first_text("X-APPLE-TRAVEL-DURATION"))
        days, hours, minutes = (int(number or 0) for number in match.groups()) if match else (0, 0, 0)
        return cls(one.start, one.end, place, timedelta(days=days, hours=hours, minutes=minutes))

    def at(self, begin: datetime) -> Stay:
        """The same at another time."""
        return replace(self, begin=begin, end=begin + (self.end - self.begin))


def closed(stay: Stay, others: Sequence[Stay], travel: timedelta) -> list[Span]:
    """When somebody can't be at an event because of others: while these last, and on the way from one to the other."""
    found = []
    for other in others:
        between = travel if stay.place and other.place and stay.place != other.place else timedelta()
        found.append((other.begin - max(other.way, between), other.end + max(stay.way, between)))
    return found


class Merged:
    """Spans of time as disjoint ones in order, so that looking one up takes no longer in a full year."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._begins: list[datetime] = []
        self._ends: list[datetime] = []
        for begin, end in sorted(spans):
            if self._ends and begin <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._begins.append(begin)
                self._ends.append(end)

    def is_free(self, begin: datetime, end: datetime) -> bool:
        """Whether no span has a moment in common with this one."""
        before = bisect_left(self._begins, end) - 1
        return before < 0 or self._ends[before] <= begin

    def __iter__(self) -> Iterator[Span]:
        return zip(self._begins, self._ends, strict=True)


def nearest_free(
    near: datetime,
    length: timedelta,
    is_free: Callable[[datetime, datetime], bool],
    hours: Hours,
    home: tzinfo,
    within: Span,
    days: Collection[int] = range(_SATURDAY),
) -> datetime | None:
    """The free start that is nearest to `near`, the later one of two; None if there is none."""
    nearest = sorted(_starts(length, hours, home, within, days), key=lambda start: (abs(start - near), start < near))
    return next((start for start in nearest if is_free(start, start + length)), None)


def usual_times(one: Occurrence, hours: Hours, home: tzinfo) -> tuple[Hours, Collection[int]]:
    """When events like this one are: meals by the clock, and what isn't in working hours at about its own time."""
    words, start, end = named(one.entry.title, "titles"), one.start.astimezone(home), one.end.astimezone(home)
    known = next((span for kind, span in _BY_KIND.items() if kind in words), None)
    days = range(7) if start.weekday() >= _SATURDAY else range(_SATURDAY)
    if known is not None:
        return known, days if known.end.hour < _EVENING else range(7)
    if hours.begin <= start.time() and end.time() <= hours.end and start.date() == end.date() and days[-1] < _SATURDAY:
        return hours, days
    first, last = max(start - _AROUND, start.replace(hour=0, minute=0)), end + _AROUND
    latest = last.time() if last.date() == start.date() else time(23, 59)
    return Hours(first.time(), latest), days


def _starts(length: timedelta, hours: Hours, home: tzinfo, within: Span, days: Collection[int]) -> Iterator[datetime]:
    day = within[0].astimezone(home).date()
    while (opens := datetime.combine(day, hours.begin, home)) < within[1]:
        closes = datetime.combine(day, hours.end, home)
        # In UTC, because within one zone Python adds wall-clock times.
        start, last = opens.astimezone(UTC), closes.astimezone(UTC) - length
        start += -timedelta(minutes=start.minute % 15)
        while day.weekday() in days and start <= last:
            if start >= max(within[0], opens) and start + length <= within[1]:
                yield start
            start += _STEP
        day += timedelta(days=1)


_LONG = timedelta(hours=12)
_SHORT = 40
_OUT_OF_OFFICE = ("OOF", "OUTOFOFFICE")


def is_away(one: Occurrence) -> bool:
    """Whether a whole day or more says that the person isn't there: leave, travel or illness.

    Words of the title say so, also where the day counts as free, or what Outlook and Google note about the status. A
    birthday or a public holiday doesn't.
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
    if words.get("away") == 0 or "travel" in words or words.get("trip") == 0:
        return True
    return texts.get(BUSY_STATUS, "").strip().upper() == "BUSY" and not private


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
