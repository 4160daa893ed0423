"""A user's year of regular events: 52 weeks without overlaps.

A series keeps its weekday, time, people and title all year. Only single dates run over or end early by a quarter of an
hour.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta
from random import Random

from agentfw.errors import SettingsError

from .event_attributes import Event
from .event_templates import Maker
from .schema import CADENCES, Meeting
from .users import User

__all__ = ["DAY_NAMES", "FIRST_DAY", "WEEKS", "Series", "date_of", "make_year"]

WEEKS = 52
FIRST_DAY = date(2026, 1, 5)
"""Day 0 of every generated year is this Monday."""
DAY_NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri")
_OPENS, _NOON, _CLOSES = 8 * 60 + 30, 12 * 60, 18 * 60
_STEP = 15
_ALL_WEEKS = range(WEEKS)


def date_of(day: int) -> date:
    """The calendar date of a day of the generated year."""
    return FIRST_DAY + timedelta(days=day)


@dataclass(frozen=True, slots=True)
class Series:
    """A regular meeting with its place in the week."""

    meeting: Meeting
    weekday: int
    start: int
    weeks: tuple[int, ...]
    event: Event
    """The event as it is on every date."""


def make_year(user: User, generator: Random) -> tuple[list[Series], list[Event]]:
    """The series and all their dates, in order of time."""
    maker = Maker(user, generator)
    possible = [meeting for meeting in user.role.meetings if maker.possible(meeting)]
    if sum(meeting.cadence == "weekly" for meeting in possible) < 2:
        raise SettingsError(
            f"{user.organisation.schema.file}: a {user.role.title} of {user.organisation.name} has fewer than two "
            "weekly meetings with the people that there are",
            fix="give the roles that they meet more people, or the role meetings with others",
        )
    taken: list[list[tuple[int, int]]] = [[] for _ in range(WEEKS * 5)]
    series: list[Series] = []
    # Weekly series first, because they have the fewest possible places.
    for meeting in sorted(possible, key=lambda meeting: CADENCES[meeting.cadence]):
        number = len(series)
        event = maker.event(meeting, f"s{number}", 0, 0)
        series.append(_placed(meeting, event, taken, generator))
    events = [_date(found, week, generator, taken) for found in series for week in found.weeks]
    return series, sorted(events, key=lambda event: (event.day, event.start))


def _placed(meeting: Meeting, event: Event, taken: list[list[tuple[int, int]]], generator: Random) -> Series:
    """A slot in the week that is free on all dates, with as few broken soft constraints as possible."""
    interval = CADENCES[meeting.cadence]
    starts = range(_OPENS, _CLOSES - event.minutes + 1, 30)
    options = sorted(
        (_wishes(meeting, start), generator.random(), weekday, start) for weekday in range(5) for start in starts
    )
    offsets = list(range(interval))
    generator.shuffle(offsets)
    gap = _STEP if "no_back_to_back" in meeting.soft else 0
    for margin in (gap, 0) if gap else (0,):
        for _, _, weekday, start in options:
            for offset in offsets:
                weeks = tuple(_ALL_WEEKS[offset::interval])
                begins, ends = start - margin, start + event.minutes + margin
                if all(not _clashes(taken[week * 5 + weekday], begins, ends) for week in weeks):
                    for week in weeks:
                        taken[week * 5 + weekday].append((start, start + event.minutes))
                    return Series(meeting, weekday, start, weeks, event)
    raise SettingsError(
        f"{meeting.name} finds no free place in the week", fix="give that role fewer or shorter meetings"
    )


def _wishes(meeting: Meeting, start: int) -> int:
    """Number of soft constraints that a start breaks."""
    broken = 0
    broken += "mornings" in meeting.soft and start >= _NOON
    broken += "afternoons" in meeting.soft and start < _NOON
    # No start within the lunch hour unless everything else is taken.
    return broken * 2 + (_NOON <= start < _NOON + 60)


def _clashes(spans: list[tuple[int, int]], begins: int, ends: int) -> bool:
    return any(begins < end and start < ends for start, end in spans)


def _date(series: Series, week: int, generator: Random, taken: list[list[tuple[int, int]]]) -> Event:
    """One date of a series, sometimes a quarter of an hour longer or shorter."""
    day = week * 7 + series.weekday
    minutes = series.event.minutes
    if generator.random() < 0.1:
        noise = generator.choice((-_STEP, _STEP))
        spans = taken[week * 5 + series.weekday]
        own = (series.start, series.start + minutes)
        others = [span for span in spans if span != own]
        if minutes + noise >= _STEP and not _clashes(others, series.start, series.start + minutes + noise):
            spans[spans.index(own)] = (series.start, series.start + minutes + noise)
            minutes += noise
    return replace(series.event, id=f"{series.event.id}w{week}", day=day, start=series.start, minutes=minutes)
