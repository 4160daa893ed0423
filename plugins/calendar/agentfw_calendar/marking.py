"""Marks what was declined, in each calendar, and takes it back.

A file gets the marks of earlier sessions again, so that one new file has all of them; a mark whose conflict has changed
since is dropped. On a server, earlier marks are in place.

    marking = Marking(session.parts, session.sources, known, session.people, session.home, now)
    marking.decline(outcome)
    marking.write(asked)

To undo takes back the marks, the decisions, and what was learned from them. An event that nobody changed since it was
marked is what it was before, byte for byte. Of one that somebody changed, that edit stays and the mark goes. What is
undone is asked about again.

    undone = undo(known, last_session(known))
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

from agentfw.errors import UsageError
from agentfw.runs import write_whole

from .deciding.calendar_reading import Dates
from .deciding.environment import Outcome
from .deciding.people import People
from .deciding.person_file import Noted, PersonFile, Writing
from .deciding.precedents import Facts, changes, facts
from .ics.caldav_source import CalDavSource
from .ics.ics_lines import FileLines
from .ics.ics_marking import DECLINED, marked, status_before, unmarked
from .ics.occurrences import Occurrence
from .ics.sources import NewFile, Part, Source, digest
from .language.texts import Said

_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A date to mark, and for what."""

    one: Occurrence
    seen: Mapping[str, Facts]
    session: str
    at: str
    calendars: Sequence[str]


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
        self.parts, self.sources, self.known = parts, sources, known
        self.people, self.home, self.now = people, home, now
        self._wanted: dict[Part, list[_Wanted]] = {part: [] for part, _ in parts}
        self._refused: set[str] = set()

    def decline(self, outcome: Outcome) -> None:
        """Mark what was declined. An event that is in two calendars is declined in both."""
        declined = {(one.key, one.start) for one in outcome.declined}
        seen = {each.one.key: facts(each.one, self.people, self.home) for each in outcome.question.candidates}
        for part, found in self.parts:
            for one in found:
                if (one.key, one.start) in declined:
                    before = self.known.written.find(part.source.identity, one.key)
                    session, at = self.known.session, self.now.isoformat()
                    if outcome.known and before is not None and self._same(before.seen, seen):
                        session, at = before.session, before.at
                    calendars = [each.identity for each in self.sources]
                    self._wanted[part].append(_Wanted(one, seen, session, at, calendars))

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
        changed, new, before = [], {}, {}
        for part in parts:
            wanted = {one.one.key: one for one in self._wanted[part]}
            if not wanted and source.in_place:
                continue
            data, marks = marked(part.lines, [one.one for one in wanted.values()], self.people.owner, self.now)
            noted = []
            for mark in marks:
                one, date = wanted[mark.key], wanted[mark.key].one
                about = (date.entry.title, date.start.isoformat(), mark, one.seen, one.session, one.at, one.calendars)
                noted.append(Noted(source.identity, part.name, *about))
            found = [self.known.written.find(*mark.place) for mark in noted]
            new[part], before[part] = noted, [mark for mark in found if mark is not None]
            # On disk before the calendar is changed.
            self.known.written.note(Writing(source.identity, output, digest(data), noted))
            changed.append((part, data))
        saved = source.write(changed)
        self._refused.update(wanted.one.key for part in saved.refused for wanted in self._wanted[part])
        for part in saved.refused:
            # The event is as it was, with the marks that it had before.
            self.known.written.take_back([mark.place for mark in new[part]])
            if before[part]:
                self.known.written.note(Writing(source.identity, output, "", before[part]))
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
            # Nothing is known of what it clashed with in a calendar that isn't read now.
            is_read = {*noted.calendars} <= {source.identity for source in self.sources}
            seen = noted.seen if is_read else {noted.mark.key: noted.seen[noted.mark.key]}
            holds = all(
                any(self._same({key: one}, {key: now}) for now in there.get(key, ())) for key, one in seen.items()
            )
            if noted.mark.key not in asked and holds:
                self._repeat(noted, dates)
            elif noted.mark.key not in {one.one.key for some in self._wanted.values() for one in some}:
                dropped.append(noted)
        return dropped

    def _same(self, then: Mapping[str, Facts], now: Mapping[str, Facts]) -> bool:
        """Whether a decision about these dates still holds, wherever the person is."""
        return then.keys() == now.keys() and not any(changes(one, now[key], self.home) for key, one in then.items())

    def _repeat(self, noted: Noted, dates: Sequence[tuple[Part, Sequence[Occurrence]]]) -> None:
        for part, found in dates:
            if part.source.identity == noted.source:
                self._wanted[part] += [
                    _Wanted(one, noted.seen, noted.session, noted.at, noted.calendars)
                    for one in found
                    if one.key == noted.mark.key and not one.entry.block.lines_of(DECLINED)
                ]


@dataclass(frozen=True, slots=True)
class Choice:
    """What to take back."""

    marks: Sequence[Noted]
    decisions: Sequence[Mapping[str, Any]]


@dataclass(slots=True)
class Undone:
    """What was taken back."""

    restored: list[Noted] = field(default_factory=list)
    gone: list[Noted] = field(default_factory=list)
    """Marks that aren't there any more, because somebody removed them, the event or the file."""
    failed: list[Noted] = field(default_factory=list)
    """Marks in events that were changed at the same moment. They can be undone again."""
    decisions: list[Mapping[str, Any]] = field(default_factory=list)


def everything(known: PersonFile) -> Choice:
    return Choice(known.written.marks, known.decisions)


def last_session(known: PersonFile) -> Choice:
    """What the last session decided or wrote."""
    dated = [(noted.at, noted.session) for noted in known.written.marks]
    dated += [(decision["at"], decision["session"]) for decision in known.decisions if "session" in decision]
    last = max(dated, default=("", ""))[1]
    return Choice(
        [noted for noted in known.written.marks if noted.session == last],
        [decision for decision in known.decisions if last and decision.get("session") == last],
    )


def named_event(known: PersonFile, title: str, day: date | None = None) -> Choice:
    """The declined event of this title, or with these words in it."""
    wanted = title.casefold().strip()
    marks = [noted for noted in known.written.marks if noted.title.casefold() == wanted]
    marks = marks or [noted for noted in known.written.marks if wanted in noted.title.casefold()]
    if day is not None:
        marks = [noted for noted in marks if noted.day == day]
    found = sorted({(noted.start, noted.day, noted.title) for noted in marks})
    if not found:
        raise UsageError(f'no declined event is called "{title}"', fix="agentfw calendar undo --list shows them")
    if len(found) > 1:
        shown = "; ".join(f"{day} {name}" for _, day, name in found[:5])
        raise UsageError(
            f'{len(found)} declined events are called "{title}": {shown}', fix="add the day, with --on YYYY-MM-DD"
        )
    return Choice(marks, [])  # it may be in two calendars


def undo(known: PersonFile, choice: Choice) -> Undone:
    """Take back. The calendars are restored first, so that an interruption loses nothing: run it again."""
    undone = Undone()
    by_file: dict[tuple[str, str], list[Noted]] = {}
    for noted in choice.marks:
        output = known.written.output(noted.source)
        by_file.setdefault((noted.source, str(output[0]) if output else ""), []).append(noted)
    for (source, output_file), marks in by_file.items():
        if output_file:
            _in_file(known, source, Path(output_file), marks, undone)
        else:
            _on_server(known, source, marks, undone)
    done = [*undone.restored, *undone.gone]
    known.written.take_back([noted.place for noted in done])
    _decisions(known, choice.decisions, done, undone)
    return undone


def _in_file(known: PersonFile, source: str, path: Path, marks: Sequence[Noted], undone: Undone) -> None:
    if not path.exists():
        undone.gone += marks
        return
    before = path.read_bytes()
    data, removed = unmarked(FileLines(before), [noted.mark for noted in marks], known.person)
    if data != before:
        # If nobody else changed the file, later sessions go on with it.
        last = known.written.output(source)
        if last is not None and digest(before) in last[1]:
            known.written.note(Writing(source, str(path), digest(data), ()))
        write_whole(path, data)
    undone.restored += [noted for noted in marks if noted.mark in removed]
    undone.gone += [noted for noted in marks if noted.mark not in removed]


def _on_server(known: PersonFile, address: str, marks: Sequence[Noted], undone: Undone) -> None:
    source = CalDavSource(address)
    by_part: dict[str, list[Noted]] = {}
    for noted in marks:
        by_part.setdefault(noted.part, []).append(noted)
    for place, some in by_part.items():
        part = source.part(place)
        if part is None:
            undone.gone += some
            continue
        data, removed = unmarked(part.lines, [noted.mark for noted in some], known.person)
        there = [noted for noted in some if noted.mark in removed]
        undone.gone += [noted for noted in some if noted.mark not in removed]
        is_changed = data != b"\n".join(part.lines.physical)
        if is_changed and not source.put(part, data):
            undone.failed += there
            continue
        # What the server made of it, which may answer invitations in its own way.
        now = source.part(place) if is_changed else part
        for noted in there:
            was, is_now = status_before(noted.mark, (now or part).lines, known.person)
            (undone.restored if was == is_now else undone.failed).append(noted)


def _decisions(
    known: PersonFile, decisions: Sequence[Mapping[str, Any]], done: Sequence[Noted], undone: Undone
) -> None:
    """Take back decisions. One for a series stays, but this date is asked about again."""
    kept = {frozenset(noted.seen) for noted in undone.failed}
    found = {one["id"]: one for one in decisions if frozenset(one["keys"]) not in kept}
    again = []
    for noted in done:
        keys = sorted(noted.seen)
        own = next((one for one in reversed(known.decisions) if one["keys"] == keys and not one.get("again")), None)
        if own is not None and not own.get("scope"):
            found[own["id"]] = own
        elif not any(frozenset(one["keys"]) == frozenset(keys) for one in found.values()):
            again.append(noted)
    if found:
        known.take_back(sorted(found))
    for noted in again:
        known.ask_again(noted.seen, noted.seen)
    undone.decisions += [one for one in found.values() if not one.get("again")]
