"""Groups of a person's events that conflict, in order of time.

The events of a group all share a moment, so only one of them can be kept. A declined event conflicts with nothing any
more, so each answer changes the groups that follow.

    agenda = Agenda(occurrences, people, home)
    for absence in agenda.absences:
        agenda.within(absence)                  # what somebody can't come to, because they are away
    while (group := agenda.next()) is not None:
        agenda.keep(group, group[0])

More than five at once are asked about five at a time; the one that is kept meets the rest.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from copy import copy
from datetime import timedelta, tzinfo

from agentfw_plugins.worlds.calendar.event_attributes import LETTERS

from ..ics.occurrences import Occurrence
from .free_times import is_away
from .people import People
from .trips import Absence, absences

_DAY = timedelta(days=1)
_BACKGROUND = timedelta(hours=12)
"""An event this long says where somebody is; it is no appointment."""


class Agenda:
    """The dates of a span of days, in groups that conflict."""

    def __init__(self, occurrences: Sequence[Occurrence], people: People, home: tzinfo) -> None:
        self.people, self.home = people, home
        seen: set[tuple[str, object]] = set()
        self._busy: list[Occurrence] = []
        self.background: list[Occurrence] = []
        """All-day events and the like: shown beside a conflict but never part of one."""
        self.away: list[Occurrence] = []
        """What says that somebody is away; it is never declined."""
        there: list[Occurrence] = []
        for one in occurrences:
            identity = (one.key, one.start)
            away = identity not in seen and is_away(one)
            if identity in seen or not (away or self._takes_time(one)):
                continue
            seen.add(identity)
            there.append(one)
            if away:
                self.away.append(one)
                continue
            (self.background if one.entry.all_day or one.end - one.start >= _BACKGROUND else self._busy).append(one)
        self.absences: list[Absence] = absences(there, people, home)
        """Leave, travel and illness, in order."""
        self.away += [absence.said_by for absence in self.absences if absence.said_by not in self.away]
        self._starts = [one.start for one in self._busy]
        self._by_end = sorted(self._busy, key=lambda one: (one.end, one.start, one.key))
        self._rank = {id(one): rank for rank, one in enumerate(self._by_end)}
        self._at = 0
        self._declined: set[int] = set()
        self._left: set[frozenset[int]] = set()

    def within(self, absence: Absence) -> list[Occurrence]:
        """What somebody can't come to, or perhaps can't, as they are away, without what was decided already."""
        return [
            one
            for one in self._busy
            if absence.touches(one)
            and id(one) not in self._declined
            and frozenset((id(absence.said_by), id(one))) not in self._left
            and absence.judged(one) != "there"
        ]

    def next(self) -> list[Occurrence] | None:
        """The next group, by start; None if there are no more conflicts."""
        while self._at < len(self._by_end):
            group = self._around(self._by_end[self._at])
            if len(group) > 1:
                return group
            self._at += 1
        return None

    def keep(self, group: Sequence[Occurrence], kept: Occurrence) -> list[Occurrence]:
        """Keep one event of a group. Returns the others, which are declined.

        Who keeps a meeting during their leave goes there, and has their leave all the same.
        """
        others = [one for one in group if one is not kept and not self.is_away(one)]
        self.decline(others)
        self.leave([kept, *(one for one in group if self.is_away(one) and one is not kept)])
        return others

    def decline(self, ones: Sequence[Occurrence]) -> None:
        self._declined.update(id(one) for one in ones)

    def is_away(self, one: Occurrence) -> bool:
        return one in self.away

    def leave(self, group: Sequence[Occurrence]) -> None:
        """Leave all events of a group as they are."""
        ids = [id(one) for one in group]
        self._left.update(frozenset((one, other)) for one in ids for other in ids if one != other)

    def that_day(self, group: Sequence[Occurrence]) -> list[Occurrence]:
        """Other events on the day of a group that don't conflict with it."""
        first, last = min(one.start for one in group), max(one.end for one in group)
        day = first.astimezone(self.home).date()
        near = self._busy[bisect_left(self._starts, first - _DAY) : bisect_left(self._starts, first + _DAY)]
        found = [
            one
            for one in near
            if one.start.astimezone(self.home).date() == day
            and id(one) not in self._declined
            and (one.end <= first or one.start >= last)
        ]
        around = (one for one in (*self.away, *self.background) if one not in group)
        return [*(one for one in around if one.start <= first < one.end), *found]

    def kept(self) -> list[Occurrence]:
        """All dates that take time and aren't declined."""
        some = dict.fromkeys((*self._busy, *self.away, *self.background))
        return [one for one in some if id(one) not in self._declined]

    def ahead(self) -> Agenda:
        """A copy in which nothing that is decided counts here."""
        found = copy(self)
        found._declined, found._left = set(self._declined), set(self._left)
        return found

    def remaining(self, most: int) -> int:
        """Number of questions to come, at most `most`, assuming that nobody goes where they are away from, and that the
        first event of each group is kept."""
        ahead, count = self.ahead(), 0
        for absence in self.absences:
            within = ahead.within(absence)
            count += bool(within)
            ahead.decline([one for one in within if absence.judged(one) == "here"])
        while count < most and (group := ahead.next()) is not None:
            ahead.keep(group, group[0])
            count += 1
        return count

    def _around(self, first: Occurrence) -> list[Occurrence]:
        """The event that ends first and those that overlap its last moment."""
        if id(first) in self._declined:
            return []
        group = [first]
        begin, end = (bisect_left(self._starts, moment) for moment in (first.start - _BACKGROUND, first.end))
        for one in self._busy[begin:end]:
            if len(group) == len(LETTERS):
                break
            if (
                one is not first
                and one.end > first.start
                and self._rank[id(one)] > self._rank[id(first)]
                and id(one) not in self._declined
                and not any(frozenset((id(one), id(other))) in self._left for other in group)
            ):
                group.append(one)
        return sorted(group, key=lambda one: (one.start, one.end, one.key))

    def _takes_time(self, one: Occurrence) -> bool:
        """Whether the file says that the owner is busy then."""
        texts = one.entry.texts
        free = texts.get("TRANSP", "").strip().upper() == "TRANSPARENT"
        free = free or texts.get("X-MICROSOFT-CDO-BUSYSTATUS", "").strip().upper() == "FREE"
        cancelled = texts.get("STATUS", "").strip().upper() == "CANCELLED"
        refused = any(party.status == "DECLINED" and self.people.is_owner(party) for party in one.entry.attendees)
        return one.end > one.start and not (free or cancelled or refused)
