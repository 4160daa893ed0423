"""Finds the times that a question names, as spans of seconds since 1970 (UTC).

    >>> from datetime import datetime, timezone
    >>> now = datetime(2023, 5, 20, tzinfo=timezone.utc).timestamp()
    >>> [(str(datetime.fromtimestamp(start, timezone.utc))[:10], str(datetime.fromtimestamp(end, timezone.utc))[:10])
    ...  for start, end in spans("What did we plan on 7 May, and what yesterday?", now)]
    [('2023-05-07', '2023-05-08'), ('2023-05-19', '2023-05-20')]

A date without a year is the latest one that isn't in the future. Understood are dates such as 2023-05-07, 7 May 2023,
May 7th and May 2023, a year, and yesterday, today, last week, last month, last year and "three days ago".
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from agentfw_memory.graph.text.words import MONTHS

Span = tuple[float, float]

_MONTH = "|".join(f"{month[:3]}(?:{month[3:]})?" if len(month) > 3 else month for month in MONTHS)
_DAY = r"(?P<day{0}>\d{{1,2}})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year{0}>(?:19|20)\d\d)"
_WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_NUMBERS = {word: value for value, word in enumerate(_WORDS, start=1)}
_NAMED = re.compile(
    "|".join(
        (
            rf"\b{_YEAR.format(1)}-(?P<number1>\d{{1,2}})-{_DAY.format(1)}\b",
            rf"\b{_DAY.format(2)}(?: of)? (?P<month2>{_MONTH})\b\.?(?:,? {_YEAR.format(2)}\b)?",
            rf"\b(?P<month3>{_MONTH})\.? {_DAY.format(3)}\b(?:,? {_YEAR.format(3)}\b)?",
            rf"\b(?P<month4>{_MONTH})\.?,?(?: of)? {_YEAR.format(4)}\b",
            rf"\b(?:in|during|since|of) (?P<month5>{_MONTH})\b(?!\.?,?(?: of)? \d)",
            rf"\b{_YEAR.format(6)}\b",
        )
    )
)
_BEFORE = re.compile(rf"\b(?P<count>\d{{1,3}}|an?|{'|'.join(_NUMBERS)}) (?P<unit>day|week|month|year)s? ago\b")
_RECENT = re.compile(r"\b(?:(?P<day>today|yesterday)|(?P<which>this|last) (?P<unit>week|month|year))\b")


def spans(text: str, now: float) -> list[Span]:
    """Return the times that a text names, in the order of the text's kinds of dates."""
    plain, today = text.casefold(), _midnight(datetime.fromtimestamp(now, UTC))
    found = [_named(match, today) for match in _NAMED.finditer(plain)]
    found += [_before(match, today) for match in _BEFORE.finditer(plain)]
    found += [_recent(match, today) for match in _RECENT.finditer(plain)]
    return [(start.timestamp(), end.timestamp()) for span in found if span is not None for start, end in (span,)]


def _named(match: re.Match[str], today: datetime) -> tuple[datetime, datetime] | None:
    given = {name.rstrip("123456"): value for name, value in match.groupdict().items() if value is not None}
    month = int(given["number"]) if "number" in given else _month(given.get("month", ""))
    day, year = int(given.get("day", 0)), int(given.get("year", 0)) or today.year
    try:
        if not month:
            return datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)
        start = datetime(year, month, day or 1, tzinfo=UTC)
        if "year" not in given and start > today:
            start = start.replace(year=year - 1)
    except ValueError:  # no such day, such as the 31st of June
        return None
    return start, start + timedelta(days=1) if day else _next_month(start)


def _before(match: re.Match[str], today: datetime) -> tuple[datetime, datetime]:
    word = match["count"]
    count = int(word) if word.isdigit() else _NUMBERS.get(word, 1)
    days = {"day": 1, "week": 7, "month": 30, "year": 365}[match["unit"]]
    # "Two weeks ago" may be off by half a week.
    middle, slack = today - timedelta(days=count * days), timedelta(days=days // 2)
    return middle - slack, middle + slack + timedelta(days=1)


def _recent(match: re.Match[str], today: datetime) -> tuple[datetime, datetime]:
    if match["day"]:
        start = today - timedelta(days=match["day"] == "yesterday")
        return start, start + timedelta(days=1)
    last = match["which"] == "last"
    if match["unit"] == "week":
        start = today - timedelta(days=today.weekday() + 7 * last)
        return start, start + timedelta(days=7)
    if match["unit"] == "month":
        start = today.replace(day=1)
        start = (start - timedelta(days=1)).replace(day=1) if last else start
        return start, _next_month(start)
    start = today.replace(month=1, day=1, year=today.year - last)
    return start, start.replace(year=start.year + 1)


def _month(name: str) -> int:
    return next((place for place, month in enumerate(MONTHS, start=1) if name and month.startswith(name)), 0)


def _next_month(start: datetime) -> datetime:
    return (start.replace(day=1) + timedelta(days=32)).replace(day=1)


def _midnight(moment: datetime) -> datetime:
    return moment.replace(hour=0, minute=0, second=0, microsecond=0)
