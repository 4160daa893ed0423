"""The times of a recurrence rule (RRULE), computed by dateutil within a budget of work.

A calendar is somebody else's file, so the work that its rules cause must be bounded. dateutil would look for the 30th
of February until the year 9999. Here it starts shortly before the span that matters and stops at its end, whether or
not the rule ever matches.

    list(rule_times({"FREQ": ["WEEKLY"], "BYDAY": ["MO", "WE"]}, start, first, last, Budget()))

Appointments are daily, weekly, monthly or yearly. More frequent rules, week numbers and calendars other than the
Gregorian one (RSCALE) are refused with a reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any

__all__ = ["Budget", "RuleRefused", "rule_times"]

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
        options["byweekday"] = _weekdays(given["BYDAY"], frequency)
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


def _weekdays(given: Sequence[Any], frequency: str) -> list[Any]:
    from dateutil.rrule import weekday

    read: list[tuple[int, int]] = []
    for value in given:
        match = _WEEKDAY.fullmatch(str(value).upper())
        if match is None:
            raise RuleRefused(f"repeats on {value}, which is no weekday")
        read.append((int(match[1] or 0), _WEEKDAYS.index(match[2])))
    if frequency in ("DAILY", "WEEKLY") or not any(number for number, _ in read):
        return [day for _, day in read]
    # dateutil takes "each Monday and the third Tuesday" for days that are both, so each Monday is numbered, too.
    most = 5 if frequency == "MONTHLY" else 53
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
