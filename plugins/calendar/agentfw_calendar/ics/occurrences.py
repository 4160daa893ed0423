"""The dates of events within a span of days, with series expanded and exceptions applied.

An exception is never lost: a date that was removed or moved doesn't appear where the series had it, whatever zone or
form it was written in. A series that can't be followed is refused as a whole, with a reason.

    occurrences(entries, since, until, home, problems)

The rules of series (RRULE) are computed by dateutil within a budget of work, because a calendar is somebody else's
file. dateutil would look for the 30th of February until the year 9999. Here it starts shortly before the span that
matters and stops at its end, whether or not the rule ever matches.

    list(rule_times({"FREQ": ["WEEKLY"], "BYDAY": ["MO", "WE"]}, start, first, last, Budget()))

Appointments are daily, weekly, monthly or yearly. More frequent rules, week numbers and calendars other than the
Gregorian one (RSCALE) are refused with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any

from .ics_events import Entry, Unreadable
from .ics_lines import Problem

BLOCK = "agentfw-block-"
"""How the ids of flexible blocks begin, which `agentfw calendar blocks` places."""
_MOST_DATES = 1000
"""Maximum number of dates of one series in the span. In a longer one, a series may have a date a day."""


@dataclass(frozen=True, slots=True, eq=False)
class Occurrence:
    """One date of an event."""

    entry: Entry
    start: datetime
    """In UTC. An all-day event begins at midnight in the person's zone."""
    end: datetime
    date_of: date
    """The start as the event writes it, for a RECURRENCE-ID."""
    of_series: Entry | None
    """The event with the rule, if this is one date of a series."""

    key: str
    """Identifies this date across files: the event's id, and the date if there are several."""


def occurrences(
    entries: Sequence[Entry], since: datetime, until: datetime, home: tzinfo, problems: list[Problem]
) -> list[Occurrence]:
    """Every date that touches the span, in order."""
    found: list[Occurrence] = []
    series: dict[str, Entry] = {}
    changed: dict[str, set[date]] = {}
    for entry in entries:
        if entry.instead_of is not None:
            changed.setdefault(entry.uid, set()).update((entry.instead_of, _instant(entry.instead_of, home)))
        elif entry.repeats:
            series[entry.uid] = entry
    budget = Budget()
    for entry in entries:
        try:
            if entry.instead_of is not None or not entry.repeats:
                parent = series.get(entry.uid) if entry.instead_of is not None else None
                dates: Iterable[tuple[date, timedelta]] = [(entry.start, entry.length)]
            else:
                parent = entry
                # As with exceptions, one that is written as a date is of that day, at any time.
                others = changed.get(entry.uid, set())
                dates = [
                    (day, length)
                    for day, length in _dates(entry, since, until, home, budget)
                    if others.isdisjoint((_instant(day, home), _plain(day)))
                ]
            for day, length in dates:
                start = _instant(day, home)
                # Days of the person: where clocks change, one has 23 or 25 hours.
                end = (start.astimezone(home) + length).astimezone(UTC) if entry.all_day else start + length
                if start < until and end > since:
                    found.append(Occurrence(entry, start, end, day, parent, _key(entry, day, parent)))
        except (Unreadable, RuleRefused) as error:
            problems.append(Problem(entry.block.number, str(error), entry.title))
        except (OverflowError, ValueError, TypeError) as error:  # beyond the years 1 to 9999, or an invalid rule
            problems.append(Problem(entry.block.number, f"its dates can't be computed: {error}", entry.title))
    found.sort(key=lambda one: (one.start, one.end, one.key))
    return found


def _key(entry: Entry, day: date, of_series: Entry | None) -> str:
    if of_series is None and entry.instead_of is None:
        return entry.uid
    return f"{entry.uid} {_instant(entry.instead_of or day, UTC):%Y%m%dT%H%M%SZ}"


def _dates(
    entry: Entry, since: datetime, until: datetime, home: tzinfo, budget: Budget
) -> Iterator[tuple[date, timedelta]]:
    """All dates of a series that may touch the span."""
    local = _local(entry.start)
    zone = (entry.start.tzinfo if isinstance(entry.start, datetime) else None) or home
    first = since.astimezone(zone).replace(tzinfo=None) - entry.length - timedelta(days=1)
    last = until.astimezone(zone).replace(tzinfo=None) + timedelta(days=1)
    excluded = {_instant(day, home) for day in entry.excluded if isinstance(day, datetime)}
    # An exception that is a date removes that day at any time.
    excluded_days = {day for day in entry.excluded if not isinstance(day, datetime)}

    def as_given(moment: datetime) -> date:
        return moment.date() if entry.all_day else moment.replace(tzinfo=zone)

    most, lengths = max(_MOST_DATES, (last - first).days), dict[date, timedelta]()
    if first <= local < last:
        lengths[entry.start] = entry.length  # RFC 5545: the start counts, whether or not the rule matches it
    for rule in entry.rules:
        for moment in _unfolded(rule, local, first, last, zone, budget):
            lengths[as_given(moment)] = entry.length
            if len(lengths) > most:
                raise Unreadable(f"has more than {most} dates in these days")
    for day, length in entry.added:
        if isinstance(day, datetime) is not entry.all_day:
            lengths[day] = entry.length if length is None else length
    for day, length in lengths.items():
        if _instant(day, home) not in excluded and _plain(day) not in excluded_days:
            yield day, length


def _unfolded(
    given: Mapping[str, list[Any]], local: datetime, first: datetime, last: datetime, zone: tzinfo, budget: Budget
) -> Iterator[datetime]:
    """The local times of one rule from `first` to `last`."""
    end = min([last, *(_until(value, zone) for value in given.get("UNTIL", ()))])
    if end >= local:
        yield from rule_times(given, local, first, end, budget)


def _until(value: Any, zone: tzinfo) -> datetime:
    """The end of a rule in local time; a date means the whole day."""
    if isinstance(value, datetime):
        return value.replace(tzinfo=None) if value.tzinfo is None else value.astimezone(zone).replace(tzinfo=None)
    if isinstance(value, date):
        return datetime.combine(value, time.max).replace(microsecond=0)
    raise Unreadable("has an UNTIL that is no date")


def _local(day: date) -> datetime:
    return day.replace(tzinfo=None) if isinstance(day, datetime) else datetime.combine(day, time())


def _plain(day: date) -> date:
    return day.date() if isinstance(day, datetime) else day


def _instant(day: date, home: tzinfo) -> datetime:
    """A time that can be compared and hashed across zones."""
    return (day if isinstance(day, datetime) else datetime.combine(day, time(), home)).astimezone(UTC)


_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_WEEKDAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_DAYS = {"YEARLY": 366, "MONTHLY": 31, "WEEKLY": 7, "DAILY": 1}
"""Days in one period at most. The order is that of dateutil's numbers for the frequencies."""
_PARTS = {
    "BYMONTH": (1, 12),
    "BYMONTHDAY": (-31, 31),
    "BYYEARDAY": (-366, 366),
    "BYHOUR": (0, 23),
    "BYMINUTE": (0, 59),
    "BYSECOND": (0, 59),
    "BYSETPOS": (-366, 366),
}
"""The parts of a rule that are numbers, with their least and their greatest value."""
_MOST_DAYS = 100_000
"""Maximum number of days that one rule is followed over: 270 years."""
_ALL_DAYS = 4_000_000
"""Maximum number of days over all rules of a file."""


class RuleRefused(ValueError):
    """Why a rule isn't followed."""


class Budget:
    """How many days may still be looked at."""

    def __init__(self) -> None:
        self.left = _ALL_DAYS

    def take(self, days: int) -> None:
        if days > _MOST_DAYS:
            raise RuleRefused("repeats since too long ago to be followed")
        if days > self.left:
            raise RuleRefused("is one series too many in this file")
        self.left -= days


def rule_times(
    given: Mapping[str, Sequence[Any]], start: datetime, first: datetime, last: datetime, budget: Budget
) -> Iterator[datetime]:
    """The times from `first` to `last`, both included, of a rule as icalendar gives it.

    All times are local, without a zone: a meeting at nine stays at nine when the clocks change.
    """
    from dateutil.rrule import rrule

    frequency, interval, options = _read(given, start)
    week_start = options["wkst"]
    begin = _period(frequency, start.date(), week_start)
    # A rule with a COUNT must be counted from its start. Any other may start in the last period before the span.
    skipped = max(0, _period(frequency, first.date(), week_start) - begin) // interval if "count" not in options else 0
    periods = (_period(frequency, last.date(), week_start) - begin) // interval + 1 - skipped
    budget.take(periods * _DAYS[frequency] * _times_a_day(options))
    if skipped:
        start = datetime.combine(_first_day(frequency, begin + skipped * interval, week_start), start.time())
    rule = rrule(list(_DAYS).index(frequency), start, _Interval(interval, periods), **options)
    try:
        for moment in rule:
            if moment > last:
                return
            if moment >= first:
                yield moment
    except _AllPeriodsSeen:
        return


class _AllPeriodsSeen(Exception):
    """dateutil has looked at all the periods that matter."""


class _Interval(int):
    """An interval that only so many periods can be stepped by: dateutil adds it once for each period."""

    def __new__(cls, value: int, periods: int) -> _Interval:
        interval = super().__new__(cls, value)
        interval.left = periods
        return interval

    left: int

    def _step(self) -> None:
        self.left -= 1
        if self.left <= 0:
            raise _AllPeriodsSeen

    def __radd__(self, other: int) -> int:
        self._step()
        return other + int(self)

    def __mul__(self, other: int) -> int:
        self._step()
        return int(self) * other


def _read(given: Mapping[str, Sequence[Any]], start: datetime) -> tuple[str, int, dict[str, Any]]:
    """The frequency, the interval, and everything else as dateutil calls it."""
    frequency = str(_only(given, "FREQ", "")).upper()
    if "RSCALE" in given or "SKIP" in given:
        raise RuleRefused("repeats by another calendar (RSCALE), which isn't supported")
    if frequency not in _DAYS:
        raise RuleRefused(f"repeats {frequency.lower() or 'in no way'}, which is no appointment")
    unknown = sorted(name for name in given if name.startswith("BY") and name not in _PARTS and name != "BYDAY")
    if unknown:
        raise RuleRefused(f"repeats by {unknown[0]}, which isn't supported")
    interval, count = int(_only(given, "INTERVAL", 1)), _only(given, "COUNT", None)
    if not 1 <= interval <= 10_000:
        raise RuleRefused(f"repeats with an interval of {interval}")
    options: dict[str, Any] = {name.lower(): _numbers(given, name) for name in _PARTS if given.get(name)}
    if given.get("BYDAY"):
        options["byweekday"] = _weekdays(given["BYDAY"], frequency, within_months="bymonth" in options)
    # What isn't given comes from the start, which may be skipped.
    if not {"bymonthday", "byyearday", "byweekday"} & options.keys():
        if frequency == "YEARLY" and "bymonth" not in options:
            options["bymonth"] = [start.month]
        if frequency in ("YEARLY", "MONTHLY"):
            options["bymonthday"] = [start.day]
        elif frequency == "WEEKLY":
            options["byweekday"] = [start.weekday()]
    options["wkst"] = _WEEKDAYS.index(str(_only(given, "WKST", "MO")).upper())
    if count is not None:
        options["count"] = int(count)
    if _times_a_day(options) > 24:
        raise RuleRefused("repeats more than 24 times a day, which is no appointment")
    return frequency, interval, options


def _times_a_day(options: Mapping[str, Any]) -> int:
    hours, minutes, seconds = (len(set(options.get(name, [0]))) for name in ("byhour", "byminute", "bysecond"))
    return hours * minutes * seconds


def _weekdays(given: Sequence[Any], frequency: str, *, within_months: bool) -> list[Any]:
    from dateutil.rrule import weekday

    read: list[tuple[int, int]] = []
    for value in given:
        match = _WEEKDAY.fullmatch(str(value).upper())
        if match is None:
            raise RuleRefused(f"repeats on {value}, which is no weekday")
        read.append((int(match[1] or 0), _WEEKDAYS.index(match[2])))
    if frequency in ("DAILY", "WEEKLY") or not any(number for number, _ in read):
        return [day for _, day in read]
    most = 5 if within_months or frequency == "MONTHLY" else 53
    if beyond := next((number for number, _ in read if abs(number) > most), 0):
        raise RuleRefused(f"repeats on weekday number {beyond}, and there are at most {most}")
    # dateutil takes "each Monday and the third Tuesday" for days that are both, so each Monday is numbered, too.
    return [weekday(day, n) for number, day in read for n in ([number] if number else range(1, most + 1))]


def _period(frequency: str, day: date, week_start: int) -> int:
    """The number of the day, week, month or year that a day is in."""
    if frequency == "DAILY":
        return day.toordinal()
    if frequency == "WEEKLY":
        return (day.toordinal() - 1 - week_start) // 7
    return day.year * 12 + day.month - 1 if frequency == "MONTHLY" else day.year


def _first_day(frequency: str, period: int, week_start: int) -> date:
    if frequency == "DAILY":
        return date.fromordinal(period)
    if frequency == "WEEKLY":
        return date.fromordinal(max(1, period * 7 + 1 + week_start))
    return date(period // 12, period % 12 + 1, 1) if frequency == "MONTHLY" else date(period, 1, 1)


def _only(given: Mapping[str, Sequence[Any]], name: str, default: Any) -> Any:
    values = given.get(name)
    return values[0] if values else default


def _numbers(given: Mapping[str, Sequence[Any]], name: str) -> list[int]:
    least, most = _PARTS[name]
    found = [int(value) for value in given[name]]
    wrong = [value for value in found if not least <= value <= most or (value == 0 and least < 0)]
    if wrong:
        raise RuleRefused(f"repeats by {name}={wrong[0]}, which doesn't exist")
    return found
