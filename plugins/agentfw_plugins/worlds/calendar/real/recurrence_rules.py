"""What a recurrence rule (RRULE) means, followed within a budget.

The one rule: it ends, after a number of steps that is known before. A library would look for the 30th of February until
the year 9999; somebody else's calendar may hold a thousand of such rules. So this follows a rule period by period,
from where it matters to where that ends, and the tests compare it with dateutil on rules of every kind.

    rule = Rule.read({"FREQ": ["WEEKLY"], "BYDAY": ["MO", "WE"]}, start)
    list(rule.times(first, last, Budget()))

Rules of a person's calendar are daily, weekly, monthly or yearly. More frequent ones, week numbers and calendars other
than the Gregorian (RSCALE) are refused with a reason.
"""

from __future__ import annotations

import re
from calendar import isleap, monthrange
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

__all__ = ["Budget", "Rule", "RuleRefused"]

_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_WEEKDAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)")
_KNOWN = {"BYMONTH", "BYMONTHDAY", "BYYEARDAY", "BYDAY", "BYHOUR", "BYMINUTE", "BYSECOND", "BYSETPOS"}
_DAYS = {"DAILY": 1, "WEEKLY": 7, "MONTHLY": 31, "YEARLY": 366}
"""Days that have to be looked at in one period."""
_MOST_DAYS = 100_000
"""Days that one rule is followed over: 270 years."""
_ALL_DAYS = 4_000_000
"""Days over all rules of a file."""


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


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with everything filled in that it takes from the start of its series."""

    start: datetime
    """Local, without a zone: a meeting at nine stays at nine when the clocks change."""
    frequency: str
    interval: int
    count: int | None
    months: frozenset[int]
    month_days: frozenset[int]
    year_days: frozenset[int]
    weekdays: frozenset[tuple[int, int]]
    """(which of the period, or 0 for each; from Monday = 0)"""
    within_month: bool
    """Whether the third Monday is that of the month, or of the year."""
    clock: tuple[time, ...]
    positions: frozenset[int]
    week_start: int

    @classmethod
    def read(cls, given: Mapping[str, Sequence[Any]], start: datetime) -> Rule:
        """The rule as icalendar gives it."""
        frequency = str(_first(given, "FREQ", "")).upper()
        if "RSCALE" in given or "SKIP" in given:
            raise RuleRefused("repeats by another calendar (RSCALE), which isn't understood")
        if frequency not in _DAYS:
            raise RuleRefused(f"repeats {frequency.lower() or 'in no way'}, which is no appointment")
        strange = sorted(name for name in given if name.startswith("BY") and name not in _KNOWN)
        if strange:
            raise RuleRefused(f"repeats by {strange[0]}, which isn't understood")
        interval, count = int(_first(given, "INTERVAL", 1)), _first(given, "COUNT", None)
        if not 1 <= interval <= 10_000:
            raise RuleRefused(f"repeats with an interval of {interval}")
        months, month_days = _numbers(given, "BYMONTH", 1, 12), _numbers(given, "BYMONTHDAY", -31, 31)
        year_days = _numbers(given, "BYYEARDAY", -366, 366)
        weekdays = frozenset(map(_weekday, given.get("BYDAY", ())))
        if frequency in ("DAILY", "WEEKLY"):
            weekdays = frozenset((0, day) for _, day in weekdays)
        if not (month_days or year_days or weekdays):
            if frequency == "YEARLY" and not months:
                months = frozenset((start.month,))
            if frequency in ("YEARLY", "MONTHLY"):
                month_days = frozenset((start.day,))
            elif frequency == "WEEKLY":
                weekdays = frozenset(((0, start.weekday()),))
        hours = _numbers(given, "BYHOUR", 0, 23) or {start.hour}
        minutes = _numbers(given, "BYMINUTE", 0, 59) or {start.minute}
        seconds = _numbers(given, "BYSECOND", 0, 59) or {start.second}
        if len(hours) * len(minutes) * len(seconds) > 24:
            raise RuleRefused("repeats more than 24 times a day, which is no appointment")
        clock = tuple(sorted(time(h, m, s) for h in hours for m in minutes for s in seconds))
        return cls(
            start,
            frequency,
            interval,
            None if count is None else int(count),
            months,
            month_days,
            year_days,
            weekdays,
            frequency == "MONTHLY" or bool(months),
            clock,
            _numbers(given, "BYSETPOS", -366, 366),
            _WEEKDAYS.index(str(_first(given, "WKST", "MO")).upper()),
        )

    def times(self, first: datetime, last: datetime, budget: Budget) -> Iterator[datetime]:
        """The times from `first` to `last`, both included."""
        begin = self._period_of(self.start.date())
        # Only what counts has to be counted through; else what was before doesn't matter.
        skipped = 0 if self.count is not None else max(0, self._period_of(first.date()) - begin) // self.interval
        wanted = range(begin + skipped * self.interval, self._period_of(last.date()) + 1, self.interval)
        budget.take(len(wanted) * _DAYS[self.frequency] * len(self.clock))
        counted = 0
        for period in wanted:
            for moment in self._times_in(period):
                if moment < self.start:
                    continue
                counted += 1
                if moment > last or (self.count is not None and counted > self.count):
                    return
                if moment >= first:
                    yield moment

    def _period_of(self, day: date) -> int:
        """Which day, week, month or year it is, counted through."""
        if self.frequency == "DAILY":
            return day.toordinal()
        if self.frequency == "WEEKLY":
            return (day.toordinal() - 1 - self.week_start) // 7
        return day.year * 12 + day.month - 1 if self.frequency == "MONTHLY" else day.year

    def _days_of(self, period: int) -> Iterator[date]:
        if self.frequency == "DAILY":
            first, length = date.fromordinal(period), 1
        elif self.frequency == "WEEKLY":
            ordinal = period * 7 + 1 + self.week_start
            first, length = date.fromordinal(max(1, ordinal)), 7 + min(0, ordinal - 1)
        elif self.frequency == "MONTHLY":
            first = date(period // 12, period % 12 + 1, 1)
            length = monthrange(first.year, first.month)[1]
        else:
            first, length = date(period, 1, 1), 365 + isleap(period)
        begin = first.toordinal()
        for ordinal in range(begin, min(begin + length, date.max.toordinal() + 1)):
            yield date.fromordinal(ordinal)

    def _times_in(self, period: int) -> list[datetime]:
        found = [datetime.combine(day, at) for day in self._days_of(period) if self._meets(day) for at in self.clock]
        if not self.positions:
            return found
        places = {place - 1 if place > 0 else len(found) + place for place in self.positions}
        return [moment for place, moment in enumerate(found) if place in places]

    def _meets(self, day: date) -> bool:
        if self.months and day.month not in self.months:
            return False
        month_length = monthrange(day.year, day.month)[1]
        if self.month_days and not {day.day, day.day - month_length - 1} & self.month_days:
            return False
        year_length, year_day = 365 + isleap(day.year), day.timetuple().tm_yday
        if self.year_days and not {year_day, year_day - year_length - 1} & self.year_days:
            return False
        if not self.weekdays:
            return True
        place, length = (day.day, month_length) if self.within_month else (year_day, year_length)
        numbers = (0, (place - 1) // 7 + 1, -((length - place) // 7) - 1)
        return any((number, day.weekday()) in self.weekdays for number in numbers)


def _first(given: Mapping[str, Sequence[Any]], name: str, default: Any) -> Any:
    values = given.get(name)
    return values[0] if values else default


def _numbers(given: Mapping[str, Sequence[Any]], name: str, least: int, most: int) -> frozenset[int]:
    found = frozenset(int(value) for value in given.get(name, ()))
    wrong = [value for value in found if not least <= value <= most or (value == 0 and least < 0)]
    if wrong:
        raise RuleRefused(f"repeats by {name}={wrong[0]}, which there isn't")
    return found


def _weekday(value: Any) -> tuple[int, int]:
    match = _WEEKDAY.fullmatch(str(value).upper())
    if match is None:
        raise RuleRefused(f"repeats on {value}, which is no weekday")
    return int(match[1] or 0), _WEEKDAYS.index(match[2])
