"""Marks what was declined, in each calendar, and what earlier sessions declined there.

A file gets the marks of earlier sessions again, so that one new file has all of them; a mark whose conflict has changed
since is dropped. On a server, earlier marks are in place.

    marking = Marking(session.parts, session.sources, known, session.people, session.home, now)
    marking.decline(outcome)
    marking.write(asked)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from .calendar_reading import Dates
from .environment import Outcome
from .ics_marking import DECLINED, marked
from .occurrences import Occurrence
from .people import People
from .person_file import Noted, PersonFile, Writing
from .precedents import Facts, facts
from .sources import NewFile, Part, Source, digest
from .texts import Said

__all__ = ["Marking"]

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A date to mark, and for what."""

    one: Occurrence
    seen: Mapping[str, Facts]
    session: str
    at: str


class Marking:
    """The dates to mark in each part of the calendars."""

    def __init__(
        self,
        parts: Sequence[tuple[Part, Sequence[Occurrence]]],
        sources: Sequence[Source],
        known: PersonFile,
        people: People,
        home: tzinfo,
        now: datetime,
    ) -> None:
        self.parts, self.sources, self.known, self.people, self.home, self.now = (
            parts, sources, known, people, home, now
        )  # fmt: skip
        self._wanted: dict[Part, list[_Wanted]] = {part: [] for part, _ in parts}
        self._refused: set[str] = set()

    def decline(self, outcome: Outcome) -> None:
        """Mark what was declined. An event that is in two calendars is declined in both."""
        declined = {(one.key, one.start) for one in outcome.declined}
        seen = self._facts([each.one for each in outcome.question.candidates])
        for part, found in self.parts:
            for one in found:
                if (one.key, one.start) in declined:
                    before = self.known.written.find(part.source.identity, one.key)
                    session, at = self.known.session, self.now.isoformat()
                    if outcome.known and before is not None and before.seen == seen:
                        session, at = before.session, before.at
                    self._wanted[part].append(_Wanted(one, seen, session, at))

    def write(self, asked: Collection[str]) -> list[Said | str]:
        """Write all calendars. `asked` are the keys of events that this session asked about."""
        dropped = self._go_on(asked)
        written: list[Said | str] = []
        for source in self.sources:
            own = [part for part in self._wanted if part.source is source]
            if any(self._wanted[part] for part in own) or any(noted.source == source.identity for noted in dropped):
                written += self._write(source, own)
        if dropped:
            self.known.written.take_back([noted.place for noted in dropped])
        return written

    def _write(self, source: Source, parts: Sequence[Part]) -> list[Said | str]:
        if isinstance(source, NewFile):
            source.go_on(self.known.written.output(source.identity))
        output = str(source.output.absolute()) if isinstance(source, NewFile) and source.output else ""
        changed = []
        for part in parts:
            wanted = {one.one.key: one for one in self._wanted[part]}
            if not wanted and source.in_place:
                continue
            data, marks = marked(part.lines, [one.one for one in wanted.values()], self.people.owner, self.now)
            noted = [
                Noted(
                    source.identity,
                    part.name,
                    wanted[mark.key].one.entry.title,
                    wanted[mark.key].one.start.isoformat(),
                    mark,
                    wanted[mark.key].seen,
                    wanted[mark.key].session,
                    wanted[mark.key].at,
                )
                for mark in marks
            ]
            # On disk before the calendar is changed.
            self.known.written.note(Writing(source.identity, output, digest(data), noted))
            changed.append((part, data))
        saved = source.write(changed)
        self._refused.update(wanted.one.key for part in saved.refused for wanted in self._wanted[part])
        return saved.told

    def refused(self, outcome: Outcome) -> bool:
        """Whether something of it couldn't be written, because somebody changed it at this moment."""
        return not self._refused.isdisjoint(one.key for one in outcome.declined)

    def _go_on(self, asked: Collection[str]) -> list[Noted]:
        """Add the marks of earlier sessions in files. Returns those that don't hold any more."""
        identities = {source.identity for source in self.sources if not source.in_place}
        earlier = [noted for noted in self.known.written.marks if noted.source in identities]
        if not earlier:
            return []
        starts = [datetime.fromisoformat(one["start"]) for noted in earlier for one in noted.seen.values()]
        uids = {one["uid"] for noted in earlier for one in noted.seen.values()}
        span = (min(starts) - _DAY, max(starts) + _DAY)
        dates = Dates.read([part for part, _ in self.parts], span, self.home, uids).dated
        there: dict[str, list[Facts]] = {}
        for _, found in dates:
            for one in found:
                there.setdefault(one.key, []).append(facts(one, self.people, self.home))
        dropped = []
        for noted in earlier:
            holds = all(one in there.get(key, ()) for key, one in noted.seen.items())
            if noted.mark.key not in asked and holds:
                self._repeat(noted, dates)
            elif noted.mark.key not in {one.one.key for some in self._wanted.values() for one in some}:
                dropped.append(noted)
        return dropped

    def _repeat(self, noted: Noted, dates: Sequence[tuple[Part, Sequence[Occurrence]]]) -> None:
        for part, found in dates:
            if part.source.identity == noted.source:
                self._wanted[part] += [
                    _Wanted(one, noted.seen, noted.session, noted.at)
                    for one in found
                    if one.key == noted.mark.key and not one.entry.block.lines_of(DECLINED)
                ]

    def _facts(self, group: Sequence[Occurrence]) -> dict[str, Facts]:
        return {one.key: facts(one, self.people, self.home) for one in group}
