"""Where flexible blocks go: focus time, a habit several times a week, a task until Friday.

    found = Arrangement.of(wanted, there, kept, Rules(limits, home, now, until))
    found.placed, found.changes, found.missing

A block is placed in free time, within its hours, with the ways between places, and a weekly one on a day of its own.
It stays where it is until an appointment takes its time. Then it moves to the nearest free time, and the change says
why. A task is never later than its day: if nothing else is free, a weekly block makes room for it. What the person put
somewhere themselves stays there. Appointments are never moved.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, tzinfo

from ..deciding.free_times import Hours, Merged, Span, Stay, closed, nearest_free
from ..deciding.proposals import Limits
from ..deciding.tagging import whereabouts
from ..ics.occurrences import BLOCK, Occurrence
from ..language.texts import Said

_DAY, _WEEK = timedelta(days=1), timedelta(days=7)
_WORKDAYS = (0, 1, 2, 3, 4)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A block that a person wants, as their file says it."""

    title: str
    length: timedelta
    times: int = 1
    """How often in a week."""
    until: date | None = None
    """The last day of a task, which is done once."""
    hours: Hours | None = None
    """When it is best. Default: in working hours."""
    days: tuple[int, ...] = _WORKDAYS
    place: str = ""

    def id_of(self, person: str, name: str) -> str:
        said = f"{person}\t{self.title.casefold()}\t{name}"
        return BLOCK + hashlib.sha256(said.encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Placed:
    """A block in the calendar."""

    uid: str
    title: str
    start: datetime
    end: datetime
    by_hand: bool = False
    """Whether the person put it there."""

    @property
    def span(self) -> Span:
        return self.start, self.end


@dataclass(frozen=True, slots=True)
class Change:
    """A block that was placed, moved or removed."""

    uid: str
    title: str
    was: Span | None
    now: Span | None
    why: Said | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """When blocks can be."""

    limits: Limits
    home: tzinfo
    now: datetime
    until: datetime
    """The end of the last week that is planned."""
    person: str = ""
    skipped: Collection[str] = ()
    """Ids of blocks that the person doesn't want any more."""


@dataclass(frozen=True, slots=True)
class _Need:
    """One block that has to be somewhere."""

    uid: str
    wanted: Wanted
    begin: datetime
    end: datetime
    near: datetime


@dataclass(slots=True)
class Arrangement:
    """Where all blocks are, and what is different from before."""

    placed: dict[str, Placed] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    missing: list[Said] = field(default_factory=list)
    """What doesn't fit anywhere, and what clashes where the person put it."""

    @classmethod
    def of(
        cls, wanted: Sequence[Wanted], there: Iterable[Placed], kept: Sequence[Occurrence], rules: Rules
    ) -> Arrangement:
        found, calendar = cls(), _Calendar(kept, rules)
        before = {one.uid: one for one in there}
        found.placed = {one.uid: one for one in before.values() if one.start <= rules.now}
        needs = {need.uid: need for one in wanted for need in _needs(one, before, rules)}
        waiting = list[tuple[_Need, Placed | None, Said | None]]()
        ahead = [one for one in before.values() if one.uid not in found.placed]
        for one in sorted(ahead, key=lambda one: (not one.by_hand, _urgency(needs.get(one.uid)), one.start)):
            need = needs.get(one.uid)
            if need is None:
                found.changes.append(Change(one.uid, one.title, one.span, None, Said("block_not_wanted", {})))
                continue
            why = calendar.in_the_way(need, one, found.placed.values())
            if why is None or one.by_hand:
                found.placed[one.uid] = one
                if why is not None and why.fields["by"]:
                    found.missing.append(Said("block_clash", {"title": one.title, "when": one.start, **why.fields}))
            else:
                waiting.append((need, one, why))
        new = [need for need in needs.values() if need.uid not in before and need.uid not in rules.skipped]
        waiting += [(need, None, None) for need in new]
        for each in sorted(waiting, key=lambda each: (_urgency(each[0]), each[1] is None)):
            found._place(*each, needs, calendar)
        found.changes.sort(key=lambda change: (change.now or change.was or (rules.now,))[0])
        return found

    def _place(
        self, need: _Need, was: Placed | None, why: Said | None, needs: Mapping[str, _Need], calendar: _Calendar
    ) -> None:
        """Find a time for a block, and write down what that changes."""
        title, moved = need.wanted.title, list[Placed]()
        start = calendar.free(need, was, self.placed.values())
        if start is None and need.wanted.until is not None:
            fixed = [one for one in self.placed.values() if not calendar.can_move(one, needs)]
            start = calendar.free(need, was, fixed)
            if start is not None:
                span = (start, start + need.wanted.length)
                moved = [one for one in self.placed.values() if one not in fixed and _overlap(one.span, span)]
        for one in moved:
            del self.placed[one.uid]
        if start is None:
            self.missing.append(_no_room(need))
            if was is not None:
                self.changes.append(Change(was.uid, title, was.span, None, why))
            return
        placed = Placed(need.uid, title, start, start + need.wanted.length)
        self.placed[need.uid] = placed
        self.changes.append(Change(need.uid, title, None if was is None else was.span, placed.span, why))
        for one in moved:
            # It may have been placed a moment ago, and then it is as good as new.
            earlier = next((change for change in self.changes if change.uid == one.uid), None)
            if earlier is not None:
                self.changes.remove(earlier)
            before = one if earlier is None else _at(one, earlier.was)
            reason = earlier.why if earlier is not None else Said("block_task_first", {"title": title})
            self._place(needs[one.uid], before, reason, needs, calendar)


class _Calendar:
    """What is taken by appointments."""

    def __init__(self, kept: Sequence[Occurrence], rules: Rules) -> None:
        self.rules = rules
        self._stays = [(Stay.read(one, whereabouts(one.entry)), one.entry.title) for one in kept]
        self._off = Merged(rules.limits.days_off)
        self._by_place: dict[str, Merged] = {}

    def can_move(self, one: Placed, needs: Mapping[str, _Need]) -> bool:
        is_weekly = one.uid in needs and needs[one.uid].wanted.until is None
        return is_weekly and not one.by_hand and one.start > self.rules.now

    def in_the_way(self, need: _Need, one: Placed, others: Iterable[Placed]) -> Said | None:
        """Why a block can't stay where it is."""
        if not self._taken(need.wanted.place).is_free(*one.span):
            spans = [closed(self._stay(need, one.start), [stay], self.rules.limits.travel) for stay, _ in self._stays]
            titles = (title for (_, title), (span,) in zip(self._stays, spans, strict=True) if _overlap(span, one.span))
            return Said("block_taken", {"by": next(titles)})
        if (other := next((other for other in others if _overlap(other.span, one.span)), None)) is not None:
            return Said("block_taken", {"by": other.title})
        if not self._off.is_free(*one.span):
            return Said("block_day_off", {"by": ""})
        fits = one.end - one.start == need.wanted.length and need.begin <= one.start and one.end <= need.end
        return None if fits else Said("block_changed", {"by": ""})

    def free(self, need: _Need, was: Placed | None, others: Iterable[Placed]) -> datetime | None:
        """The nearest free start to where it was, or where such a block is best."""
        rules, wanted = self.rules, need.wanted
        others = list(others)
        taken, placed = self._taken(wanted.place), Merged(one.span for one in others)
        days = set[date]()
        if wanted.until is None:
            same = (one for one in others if one.title == wanted.title and one.uid != need.uid)
            days = {one.start.astimezone(rules.home).date() for one in same}

        def is_free(begin: datetime, end: datetime) -> bool:
            apart = begin.astimezone(rules.home).date() not in days
            return apart and all(some.is_free(begin, end) for some in (taken, placed, self._off))

        within = (max(need.begin, rules.now), need.end)
        near, hours = need.near if was is None else was.start, wanted.hours or rules.limits.hours
        return nearest_free(max(near, within[0]), wanted.length, is_free, hours, rules.home, within, wanted.days)

    def _taken(self, place: str) -> Merged:
        if place not in self._by_place:
            stay = Stay(self.rules.now, self.rules.now, place)
            self._by_place[place] = Merged(closed(stay, [one for one, _ in self._stays], self.rules.limits.travel))
        return self._by_place[place]

    @staticmethod
    def _stay(need: _Need, start: datetime) -> Stay:
        return Stay(start, start + need.wanted.length, need.wanted.place)


def _needs(wanted: Wanted, before: Mapping[str, Placed], rules: Rules) -> Iterator[_Need]:
    """The blocks that have to be somewhere from now on, and those that are."""
    home, now = rules.home, rules.now
    if wanted.until is not None:
        uid, end = wanted.id_of(rules.person, "task"), datetime.combine(wanted.until + _DAY, time(), home)
        if end > now and uid not in rules.skipped:
            yield _Need(uid, wanted, now, end, now)
        return
    today = now.astimezone(home).date()
    monday = today - timedelta(days=today.weekday())
    while (begin := datetime.combine(monday, time(), home)) < rules.until:
        ids = [wanted.id_of(rules.person, f"{monday} {number}") for number in range(wanted.times)]
        known = [uid for uid in ids if uid in before or uid in rules.skipped]
        hours = wanted.hours or rules.limits.hours
        days = [monday + timedelta(days=day) for day in sorted(wanted.days)]
        days = [day for day in days if datetime.combine(day, hours.end, home) - wanted.length >= now]
        ahead = sum(uid in before and before[uid].start > now for uid in known)
        fresh = [uid for uid in ids if uid not in known][: max(0, len(days) - ahead)]
        for uid in ids:
            if uid in before or uid in fresh:
                # Spread over the days that are left.
                day = days[ids.index(uid) * len(days) // wanted.times] if days else monday
                near = datetime.combine(day, hours.begin, home)
                yield _Need(uid, wanted, begin, datetime.combine(monday + _WEEK, time(), home), near)
        monday += _WEEK


def _urgency(need: _Need | None) -> tuple[bool, date]:
    """Tasks come first, the next one before."""
    until = None if need is None else need.wanted.until
    return until is None, until or date.max


def _no_room(need: _Need) -> Said:
    wanted, minutes = need.wanted, need.wanted.length // timedelta(minutes=1)
    if wanted.until is not None:
        return Said("task_no_room", {"title": wanted.title, "minutes": minutes, "date": wanted.until})
    return Said("block_no_room", {"title": wanted.title, "minutes": minutes, "date": need.begin.date()})


def _at(one: Placed, span: Span | None) -> Placed | None:
    return None if span is None else Placed(one.uid, one.title, *span)


def _overlap(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]
