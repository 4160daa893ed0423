"""A user's year of regular events: 52 weeks without overlaps, and the conflict rounds that are added to it.

Events are made from the templates of a schema, filled from the user's own organisation chart. A title never names
somebody who doesn't attend. A series keeps its weekday, time, people and title all year. Only single dates run over or
end early by a quarter of an hour.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import product
from random import Random
from typing import TypeVar

from agentfw.errors import SettingsError

from .event_attributes import LETTERS, RELATIONS, Event
from .organisation import Organisation, User
from .schema import CADENCES, Meeting, Reason

Key = TypeVar("Key")


def pick(shares: Mapping[Key, float], generator: Random) -> Key:
    """Draw a key with a probability proportional to its share."""
    left = generator.random() * sum(shares.values())
    for key, share in shares.items():
        left -= share
        if left < 0:
            return key
    return key


def one_of(choices: Sequence[Key], generator: Random) -> Key:
    """A faster `generator.choice`; generating rounds calls it a million times."""
    return choices[int(generator.random() * len(choices))]


class Maker:
    """Makes events for one user."""

    def __init__(self, user: User, generator: Random) -> None:
        self.user, self.random = user, generator
        self.organisation: Organisation = user.organisation
        self.schema = user.organisation.schema
        self.circle: dict[str, list[str]] = {name: [] for name in RELATIONS}
        for person, relation in user.relations.items():
            self.circle[relation].append(person)
        self.circle["superior"] = user.organisation.chain(user.person)  # the nearest first

    def possible(self, meeting: Meeting) -> bool:
        """Whether the user has all the people that the meeting needs."""
        needed = {meeting.by, *(name for name, (least, _) in meeting.who.items() if least)} - {"self"}
        return all(self.circle[name] for name in needed)

    def event(self, meeting: Meeting, identity: str, day: int, start: int) -> Event:
        """Make an event from a template, without any conflict."""
        attendees: list[str] = []
        by = self.user.person if meeting.by == "self" else self._one(meeting.by, attendees)
        for relation, (least, most) in meeting.who.items():
            for _ in range(self.random.randint(least, most)):
                self._one(relation, attendees)
        place = pick(meeting.place, self.random)
        title = one_of(meeting.titles, self.random)
        return Event(
            id=identity,
            title=self.filled(title, attendees),
            day=day,
            start=start,
            minutes=pick(meeting.minutes, self.random),
            topic=meeting.topic,
            by=by,
            attendees=tuple(attendees),
            place=place,
            location=self.location(place),
            template=meeting.name,
            series=meeting.cadence,
            hold=meeting.hold,
        )

    def apply(self, reason: Reason, event: Event) -> bool:
        """Turn an event into a competitor. False if people are missing for it or it would contradict itself."""
        if event.topic not in reason.topics:
            return False
        attendees = list(event.attendees)
        named: dict[str, str] = {}
        if reason.only:
            if not self.circle[reason.only]:
                return False
            attendees = []
            named[reason.only] = self._one(reason.only, attendees)
            event.by = one_of([self.user.person, attendees[0]], self.random)
            # The person named in the title may no longer attend.
            event.title = self.filled(
                one_of(("{person} and you", "A word with {person}", "{project}: with {person}"), self.random), attendees
            )
        for relation, (least, most) in reason.adds.items():
            wanted = self.random.randint(least, most)
            free = [person for person in self.circle[relation] if person not in attendees]
            if len(free) < max(1, least):
                return False
            for _ in range(wanted):
                if person := self._one(relation, attendees):
                    named.setdefault(relation, person)
        if event.minutes + reason.longer > 240:
            return False
        event.attendees = tuple(attendees)
        event.minutes += reason.longer
        for attribute, value in reason.sets.items():
            setattr(event, attribute, value)
        if "place" in reason.sets:
            event.location = self.location(event.place)
        if event.notice == "today":
            # An event called today can't belong to a long-standing series.
            event.series = "none"
        words = {name: self.called(person) for name, person in named.items()}
        note = one_of(reason.notes, self.random)
        event.note = note.format(**words, project=one_of(self.schema.projects, self.random))
        event.reasons = (*event.reasons, reason.name)
        return True

    def location(self, place: str) -> str:
        if place in ("room", "onsite"):
            return one_of(self.schema.rooms if place == "room" else self.schema.sites, self.random)
        return "video call" if place == "video" else "by phone"

    def called(self, person: str) -> str:
        """A person's name in a title: the first name, or the firm for people from outside."""
        found = self.organisation.people.get(person) or self.organisation.contacts[person]
        return found.firm or found.name.partition(" ")[0]

    def filled(self, title: str, attendees: Sequence[str]) -> str:
        """Fill the slots of a title."""
        words = {"project": one_of(self.schema.projects, self.random)}
        for person in reversed(attendees):
            words[self.user.relations[person]] = words["person"] = self.called(person)
        return title.format(**words)

    def _one(self, relation: str, attendees: list[str]) -> str:
        """Add one more person of a relation: the nearest superior first, others at random. '' if nobody is left."""
        free = [person for person in self.circle[relation] if person not in attendees]
        if not free:
            return ""
        person = free[0] if relation == "superior" and self.random.random() < 0.7 else one_of(free, self.random)
        attendees.append(person)
        return person


WEEKS = 52
FIRST_DAY = date(2026, 1, 5)  # day 0 of every generated year is this Monday
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

    weekday: int
    start: int
    weeks: tuple[int, ...]
    event: Event  # the event as it is on every date


def make_year(user: User, generator: Random) -> tuple[list[Series], list[Event]]:
    """The series and all their dates, in order of time."""
    maker = Maker(user, generator)
    possible = [meeting for meeting in user.role.meetings if maker.possible(meeting)]
    if sum(meeting.cadence == "weekly" for meeting in possible) < 2:
        raise SettingsError(
            f"{user.organisation.schema.name}: a {user.role.title} of {user.organisation.name} has fewer than two "
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
    options = []
    for weekday, start in product(range(5), range(_OPENS, _CLOSES - event.minutes + 1, 30)):
        is_early = start < _NOON
        broken = ("mornings" in meeting.soft and not is_early) + ("afternoons" in meeting.soft and is_early)
        # No start within the lunch hour unless everything else is taken.
        options.append((broken * 2 + (_NOON <= start < _NOON + 60), generator.random(), weekday, start))
    options.sort()
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
                    return Series(weekday, start, weeks, event)
    problem = f"{meeting.name} finds no free place in the week"
    raise SettingsError(problem, fix="give that role fewer or shorter meetings")


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


PER_WEEK = 2
ROUNDS = WEEKS * PER_WEEK
"""104. The paper samples one round a week but also says 104; two a week give a year of 104 rounds."""


@dataclass(frozen=True, slots=True)
class Round:
    """One conflict and its right answer."""

    number: int  # from 1
    week: int
    day: int
    events: tuple[Event, ...]  # in the order shown: A, B, C ...
    tags: tuple[dict[str, str], ...]
    accepted: int  # index of the event that the user keeps
    anchor: int  # index of the regular event

    @property
    def letters(self) -> str:
        return LETTERS[: len(self.events)]

    @property
    def answer(self) -> str:
        return LETTERS[self.accepted]
