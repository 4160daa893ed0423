"""Another time for each event that was declined, and what to write to whoever called it.

    other_times(declined, kept, people, home, (since, until), Limits())

The first of the declined events is placed first, and takes its time from the next. A series gets one draft, however
many of its dates are declined. Nothing is proposed for what is past.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from typing import Any

from agentfw.printing.out import Out

from ..ics.occurrences import Occurrence
from ..language.correspondence import Correspondence
from ..language.texts import Texts
from ..language.words import named
from .free_times import Hours, Merged, Span, Stay, closed, nearest_free, usual_times
from .people import TRAVEL, People
from .tagging import party_addresses, whereabouts


@dataclass(frozen=True, slots=True)
class Limits:
    """Where other times can't be."""

    hours: Hours = field(default_factory=lambda: Hours.parse("09:00-17:00"))
    travel: timedelta = TRAVEL
    """Time between events at different places."""
    days_off: Sequence[Span] = ()
    others: Mapping[str, Sequence[Span]] = field(default_factory=dict)
    """When other people are busy, by address."""


@dataclass(frozen=True, slots=True)
class Declined:
    """A date that was declined."""

    one: Occurrence
    move: bool = False
    """Whether its whole series is to be moved."""
    away: bool = False
    """Whether the person is away then."""

    def has_another_time(self, since: datetime) -> bool:
        """A concert takes place then, a choir has its evening, and who is away misses their stand-up."""
        entry, is_date = self.one.entry, self.one.of_series is not None and not self.move
        is_theirs = is_date and (self.away or (entry.organizer is None and not entry.attendees))
        return self.one.end > since and not is_theirs and "public" not in named(entry.title, "titles")


def other_times(
    declined: Sequence[Declined],
    kept: Sequence[Occurrence],
    people: People,
    home: tzinfo,
    within: Span,
    limits: Limits,
) -> list[dict[str, Any]]:
    """The proposals as plain values."""
    by_series: dict[str, list[Declined]] = {}
    for each in sorted(declined, key=lambda each: each.one.start):
        if each.has_another_time(within[0]):
            by_series.setdefault(each.one.entry.uid, []).append(each)
    languages = Correspondence(one.entry.title for one in kept)
    called_by: dict[str, dict[str, Occurrence]] = {}
    for one in (*kept, *(each.one for each in declined)):
        if one.entry.organizer is not None:
            called_by.setdefault(one.entry.organizer.address, {})[one.entry.title] = one
    diary = _Diary([_stay(one) for one in kept], limits)
    found: list[dict[str, Any]] = []
    with Out().progress("looking for other times") as tell:
        for some in by_series.values():
            tell(f"looking for other times: {len(found):,} of {len(by_series):,}")
            ones, move = [each.one for each in some], any(each.move for each in some)
            first, organizer, own_dates = ones[0], ones[0].entry.organizer, set[datetime]()
            asked = sorted(limits.others.keys() & party_addresses(first.entry))
            dates = [first.start]
            if move:
                # A series that is moved isn't in its own way.
                own_dates = {one.start for one in kept if one.entry.uid == first.entry.uid and one.start >= first.start}
                dates = sorted({*own_dates, *(one.start for one in ones)})
            stay = _stay(first)
            usual, days = usual_times(first, limits.hours, home)
            to = nearest_free(
                first.start,
                first.end - first.start,
                diary.free_for(stay, [date - first.start for date in dates], own_dates, asked),
                usual,
                home,
                within,
                days,
            )
            message = ""
            if to is not None and organizer is not None and not people.is_owner(organizer):
                texts = Texts.of(languages.of(called_by[organizer.address].values()))
                message = draft(ones, to, home, texts, move=move)
            if to is not None:
                diary.add([stay.at(to + (date - first.start)) for date in dates])
            found.append(
                {
                    "title": first.entry.title,
                    "start": first.start.astimezone(home).isoformat(),
                    "dates": [one.start.astimezone(home).isoformat() for one in ones],
                    "move": move,
                    "to": None if to is None else to.astimezone(home).isoformat(),
                    "organizer": "" if organizer is None or people.is_owner(organizer) else organizer.address,
                    "also_free": asked,
                    "message": message,
                }
            )
    return found


class _Diary:
    """When somebody can be where. It is worked out once for each place."""

    def __init__(self, stays: list[Stay], limits: Limits) -> None:
        self._stays, self._limits = stays, limits
        self._off, self._others = Merged(limits.days_off), {who: Merged(some) for who, some in limits.others.items()}
        self._by_place: dict[tuple[str, timedelta], Merged] = {}

    def add(self, stays: Sequence[Stay]) -> None:
        self._stays += stays
        for (place, way), busy in self._by_place.items():
            at = replace(stays[0], place=place, way=way)
            self._by_place[place, way] = Merged([*busy, *closed(at, stays, self._limits.travel)])

    def free_for(
        self, stay: Stay, offsets: Sequence[timedelta], without: Collection[datetime], asked: Sequence[str]
    ) -> Callable[[datetime, datetime], bool]:
        """Whether all dates of an event can be so, each with its distance from the first."""
        if without:
            own = Merged(closed(stay, [one for one in self._stays if one.begin not in without], self._limits.travel))
        else:
            own = self._by_place.get((stay.place, stay.way)) or Merged(closed(stay, self._stays, self._limits.travel))
            self._by_place[stay.place, stay.way] = own
        busy = [own, self._off, *(self._others[address] for address in asked)]
        return lambda begin, end: all(one.is_free(begin + away, end + away) for away in offsets for one in busy)


def _stay(one: Occurrence) -> Stay:
    return Stay.read(one, whereabouts(one.entry))


def draft(ones: Sequence[Occurrence], to: datetime, home: tzinfo, texts: Texts, *, move: bool = False) -> str:
    """What to write about these dates of one event. With `move`, that the whole series should be at another time."""
    entry = ones[0].entry
    name = entry.organizer.name if entry.organizer is not None else ""
    dates = texts("semicolon").join(texts.date("draft_date", one.start.astimezone(home)) for one in ones)
    kind = "draft_move" if move else "draft_one" if len(ones) == 1 else "draft_several"
    text = texts(kind, title=entry.title, date=dates, to=texts.date("draft_date", to.astimezone(home)))
    return f"{texts('draft_hello', name=name) if name else texts('draft_hello_nobody')}\n{text}"
