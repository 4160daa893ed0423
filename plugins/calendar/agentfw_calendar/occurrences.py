"""The dates of events within a span of days, with series expanded and exceptions applied.

An exception is never lost: a date that was removed or moved doesn't appear where the series had it, whatever zone or
form it was written in. A series that can't be followed is refused as a whole, with a reason.

    occurrences(entries, since, until, home, problems)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Any

from .ics_events import Entry, Unreadable
from .ics_lines import Problem
from .recurrence_rules import Budget, RuleRefused, rule_times

__all__ = ["Occurrence", "occurrences"]

_MOST_DATES = 1000
"""Maximum number of dates of one series in the span."""


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
    changed: dict[str, dict[datetime, Entry]] = {}
    for entry in entries:
        if entry.instead_of is not None:
            changed.setdefault(entry.uid, {})[_instant(entry.instead_of, home)] = entry
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
                others = changed.get(entry.uid, {})
                dates = [
                    (day, length)
                    for day, length in _dates(entry, since, until, home, budget)
                    if _instant(day, home) not in others
                ]
            for day, length in dates:
                start = _instant(day, home)
                end = start + length
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

    lengths: dict[date, timedelta] = {}
    if first <= local < last:
        lengths[entry.start] = entry.length  # RFC 5545: the start counts, whether or not the rule matches it
    for rule in entry.rules:
        for moment in _unfolded(rule, local, first, last, zone, budget):
            lengths[as_given(moment)] = entry.length
            if len(lengths) > _MOST_DATES:
                raise Unreadable(f"has more than {_MOST_DATES} dates in these days")
    for day, length in entry.added:
        if isinstance(day, datetime) is not entry.all_day:
            lengths[day] = entry.length if length is None else length
    for day, length in lengths.items():
        plain = day.date() if isinstance(day, datetime) else day
        if _instant(day, home) not in excluded and plain not in excluded_days:
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


def _instant(day: date, home: tzinfo) -> datetime:
    """A time that can be compared and hashed across zones."""
    return (day if isinstance(day, datetime) else datetime.combine(day, time(), home)).astimezone(UTC)
