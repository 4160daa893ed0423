"""When somebody is away, and what belongs to a trip.

Leave, travel and illness keep somebody away from what happens at home. A trip is more than its all-day event: flights
and hotels belong to it, visits at the place that it goes to, and dinners with the people who are visited there. Where
nobody noted the trip as such, it lasts from one journey to the next.

    for absence in absences(agenda_dates, people, home):
        absence.judged(one)          # HERE, THERE or UNCLEAR

What stays unclear is shown and left alone. Nothing here is decided: the person is asked once about an absence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, time, timedelta, tzinfo
from typing import Literal

from agentfw_plugins.worlds.calendar.event_attributes import PRIVATE

from ..ics.occurrences import Occurrence
from ..language.words import named, unknown_words
from .free_times import is_away
from .people import People
from .tagging import FLIGHT, party_addresses, tags

Judged = Literal["here", "there", "unclear"]
_DAY = timedelta(days=1)
_CHANGE = timedelta(hours=8)
"""Between two flights of one journey."""
_LONGEST = timedelta(days=21)
_EVENING = time(18)
_OFTEN = 3
"""A place that is named so often while nobody is away is at home."""


@dataclass(frozen=True, eq=False)
class Absence:
    """A time that somebody spends elsewhere."""

    said_by: Occurrence
    """The event that stands for it in a question: leave, a trip, a hotel, or the first journey."""
    own: tuple[Occurrence, ...]
    """Everything that says that somebody is away then."""
    begin: datetime
    end: datetime
    is_trip: bool
    """Whether somebody travels, and doesn't rest: who travels takes calls."""
    places: frozenset[str]
    home_places: frozenset[str]
    met: frozenset[str]
    """Addresses of people from outside who are met there."""
    people: People
    home: tzinfo

    def touches(self, one: Occurrence) -> bool:
        return one.start < self.end and one.end > self.begin and one not in self.own

    def judged(self, one: Occurrence) -> Judged:
        """Whether an event is where somebody is then."""
        where, said = _places(one.entry.texts.get("LOCATION", "")), _places(one.entry.title)
        known = tags(one, self.people, self.home)
        if one in self.own or is_journey(one) or "travel" in named(one.entry.title, "titles"):
            return "there"
        if where & self.places or (said & self.places and not where & self.home_places):
            return "there"
        if where & self.home_places:
            return "here"
        is_private = not set(known["who"].split(",")).isdisjoint(PRIVATE) or known["topic"] in ("personal", "social")
        if not self.is_trip:
            # Who is on leave may well see a dentist or a friend.
            return "unclear" if is_private else "here"
        if known["place"] in ("video", "phone") or party_addresses(one.entry) & self.met:
            return "there"
        is_evening = one.start.astimezone(self.home).time() >= _EVENING
        if one.of_series is None and (known["place"] == "onsite" or (is_evening and not where and not is_private)):
            return "unclear"
        return "unclear" if is_evening and known["topic"] == "social" and one.of_series is None else "here"


def is_journey(one: Occurrence) -> bool:
    """Whether it is a flight, a train or the like, by its words or its number."""
    words = named(one.entry.title, "titles")
    return "travel" in words or FLIGHT.search(one.entry.title) is not None


def _carries_far(one: Occurrence) -> bool:
    words = named(one.entry.title, "titles")
    return "hold=fixed" in words or FLIGHT.search(one.entry.title) is not None


def absences(dates: Sequence[Occurrence], people: People, home: tzinfo) -> list[Absence]:
    """The times that somebody is away, in order. Those that overlap are one."""
    said = [one for one in dates if is_away(one)]
    journeys = _journeys([one for one in dates if is_journey(one) and not is_away(one)])
    spans = [(one.start, one.end, [one]) for one in said]
    # A taxi by itself is no journey that somebody stays away for.
    free = [some for some in journeys if any(map(_carries_far, some)) and not any(_touch(some, span) for span in spans)]
    while len(free) > 1:
        first, last = free[0], free[1]
        if timedelta() < last[0].start - first[-1].end <= _LONGEST and _overnight(first[-1], last[0], home):
            spans.append((first[0].start, last[-1].end, [*first, *last]))
            free = free[2:]
        else:
            free = free[1:]
    merged: list[tuple[datetime, datetime, list[Occurrence]]] = []
    for begin, end, ones in sorted(spans, key=lambda span: (span[0], span[1])):
        if merged and begin < merged[-1][1]:
            before = merged[-1]
            merged[-1] = (before[0], max(before[1], end), [*before[2], *ones])
        else:
            merged.append((begin, end, ones))
    home_places, ordinary = _home_places(dates, merged, home), _ordinary(dates, merged)
    return [_absence(span, journeys, dates, home_places, ordinary, people, home) for span in merged]


def _absence(
    span: tuple[datetime, datetime, list[Occurrence]],
    journeys: Sequence[Sequence[Occurrence]],
    dates: Sequence[Occurrence],
    home_places: frozenset[str],
    ordinary: frozenset[str],
    people: People,
    home: tzinfo,
) -> Absence:
    begin, end, ones = span
    within = [some for some in journeys if _touch(some, span)]
    titles = [named(one.entry.title, "titles") for one in ones]
    is_leave = any("day off" in words or (words.get("away") == 0 and "trip" not in words) for words in titles)
    is_trip = not is_leave and (bool(within) or any({"trip", "travel"} & words.keys() for words in titles))
    if within and is_trip:
        # Before the first journey and after the last, somebody is at home.
        if within[0][0].start < begin + _DAY:
            begin = within[0][0].start
        if len(within) > 1 and within[-1][-1].end > end - _DAY:
            end = within[-1][-1].end
    own = [*ones, *(one for some in within for one in some)]
    places = frozenset[str]().union(
        *(_places(one.entry.title) - ordinary for one in own),
        *(_places(one.entry.texts.get("LOCATION", "")) for one in own),
    )
    places -= home_places
    if not is_leave and places:
        is_trip = is_trip or any(_places(one.entry.texts.get("LOCATION", "")) & places for one in ones)
    first = max(ones, key=lambda one: (one.entry.all_day, one.end - one.start))
    found = Absence(
        first, tuple(dict.fromkeys(own)), begin, end, is_trip, places, home_places, frozenset(), people, home
    )
    there = [one for one in dates if found.touches(one) and found.judged(one) == "there"]
    domain = people.owner.rpartition("@")[2]
    met = {
        address
        for one in there
        if (_places(one.entry.title) | _places(one.entry.texts.get("LOCATION", ""))) & places
        for address in party_addresses(one.entry)
        if address != people.owner and address.rpartition("@")[2] != domain
    }
    return Absence(first, found.own, begin, end, is_trip, places, home_places, frozenset(met), people, home)


def _journeys(ones: Iterable[Occurrence]) -> list[list[Occurrence]]:
    """Flights that follow one another closely are one journey. Hotels and taxis are none."""
    found: list[list[Occurrence]] = []
    for one in sorted(ones, key=lambda one: one.start):
        if found and one.start - found[-1][-1].end < _CHANGE:
            found[-1].append(one)
        else:
            found.append([one])
    return found


def _touch(some: Sequence[Occurrence], span: tuple[datetime, datetime, list[Occurrence]]) -> bool:
    return some[0].start < span[1] and some[-1].end > span[0]


def _overnight(first: Occurrence, last: Occurrence, home: tzinfo) -> bool:
    return last.start.astimezone(home).date() > first.end.astimezone(home).date()


def _places(text: str) -> frozenset[str]:
    """The words of a text that no list knows: names of places, people and companies."""
    return unknown_words(text)


def _home_places(
    dates: Sequence[Occurrence], spans: Sequence[tuple[datetime, datetime, list[Occurrence]]], home: tzinfo
) -> frozenset[str]:
    """The city of the time zone, and what is named as a place while nobody is away."""
    counted: Counter[str] = Counter()
    for one in dates:
        if not is_journey(one) and not any(one.start < end and one.end > begin for begin, end, _ in spans):
            counted.update(_places(one.entry.texts.get("LOCATION", "")))
    city = str(getattr(home, "key", "")).rpartition("/")[2].replace("_", " ")
    return frozenset(place for place, count in counted.items() if count >= _OFTEN) | _places(city)


def _ordinary(
    dates: Sequence[Occurrence], spans: Sequence[tuple[datetime, datetime, list[Occurrence]]]
) -> frozenset[str]:
    """Words of several titles while nobody is away: "meeting" is no place, even if no list has it."""
    titles = {
        one.entry.title
        for one in dates
        if not is_journey(one) and not any(one.start < end and one.end > begin for begin, end, _ in spans)
    }
    counted = Counter(word for title in titles for word in _places(title))
    return frozenset(word for word, count in counted.items() if count > 1)
