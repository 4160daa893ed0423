"""What is kept of blocks on disk, and how they get into a calendar.

    with BlockFile(Path("calendar.db"), "ana@lab.example") as known:
        there, deleted = known.compared(calendar.read(session), now, until)
        known.note(changes)                  # on disk before the calendar is changed
        calendar.write(known.unwritten())
        known.note_written(...)

In a calendar on a server, blocks are events of their own there. Beside a file, or for one at an address, they are in a
file of their own, NAME.blocks.ics, which the person imports or subscribes to. Only the time of an event is changed;
what the person added to it stays.

A block that isn't where it was put was moved by the person, and stays there. One that is gone was deleted by them. A
copy that was imported earlier may be older than the file, so in a calendar that isn't written directly, a time at which
the block has been before says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from agentfw.runs import Journal, make_private, read_journal, write_whole

from ..deciding.calendar_reading import Dates
from ..deciding.free_times import Span
from ..ics.caldav_source import CalDavSource
from ..ics.ics_lines import FileLines
from ..ics.ics_marking import folded
from ..ics.occurrences import BLOCK
from ..ics.sources import FileSource, NewFile, Source
from ..language.texts import Said
from ..session import Session
from .arranging import Change, Placed

_TIMES = frozenset(("DTSTART", "DTEND", "DURATION", "DTSTAMP", "SEQUENCE"))
_EMPTY = b"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//agentfw//calendar//EN\r\nEND:VCALENDAR\r\n"


@dataclass(frozen=True, slots=True)
class Run:
    """What was changed at once."""

    at: datetime
    changes: Sequence[Change]


@dataclass(frozen=True, slots=True)
class Read:
    """The blocks in a calendar, by their ids."""

    calendar: Mapping[str, Span]
    own: Mapping[str, Span] | None
    """In the file of blocks, if there is one."""
    server: str
    """The address of a calendar that is written directly; empty for others."""


@dataclass(slots=True)
class _State:
    """Replayed from the journal."""

    placed: dict[str, Placed] = field(default_factory=dict)
    earlier: dict[str, set[Span]] = field(default_factory=dict)
    """All times at which a block was put by us."""
    seen: set[tuple[str, str]] = field(default_factory=set)
    """Blocks that were in a calendar itself: its address if it is on a server, and their ids."""
    unwritten: dict[str, Change] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)
    never: set[str] = field(default_factory=set)
    runs: list[Run] = field(default_factory=list)


class BlockFile:
    """One person's blocks."""

    def __init__(self, hub: Path, person: str, *, read_only: bool = False) -> None:
        path, self.person, self._state = hub.with_name(f"{hub.name}.blocks.jsonl"), person, _State()
        for record in read_journal(path):
            if record["person"] == person:
                self._take(record)
        self._journal: Journal | None = None
        if not read_only:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            make_private(path)
            self._journal = Journal.open(path)

    def __enter__(self) -> BlockFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._journal is not None:
            self._journal.close()

    @property
    def placed(self) -> Mapping[str, Placed]:
        """Where all blocks are."""
        return self._state.placed

    @property
    def skipped(self) -> set[str]:
        """Ids of single blocks that the person doesn't want."""
        return self._state.skipped

    @property
    def never(self) -> set[str]:
        """Titles, in lower case, of blocks that the person doesn't want any more."""
        return self._state.never

    @property
    def runs(self) -> list[Run]:
        """What was changed, in order of time."""
        return self._state.runs

    @property
    def unwritten(self) -> list[Change]:
        """What isn't in the calendar yet."""
        return list(self._state.unwritten.values())

    def compared(self, found: Read, now: datetime, until: datetime) -> tuple[list[Placed], list[Placed]]:
        """Where the blocks of a span are by what the calendar says, and which the person deleted."""
        there, deleted = list[Placed](), list[Placed]()
        for uid, one in self.placed.items():
            if one.start >= until:
                continue
            span, imported = found.calendar.get(uid), (found.server, uid) in self._state.seen
            waits = self._state.unwritten.get(uid)
            if not found.server and (span in self._state.earlier[uid] or (span is None and not imported)):
                span = one.span if found.own is None else found.own.get(uid)
            is_as_left = waits is not None and (span in self._state.earlier[uid] if span else waits.was is None)
            if one.start <= now or is_as_left or span == one.span:
                there.append(one)
            elif span is not None:
                there.append(Placed(uid, one.title, *span, by_hand=True))
            elif imported or not found.server:  # else it was in another calendar
                deleted.append(one)
        return there, deleted

    def note(self, changes: Sequence[Change]) -> None:
        """Save changes that are about to be written."""
        if changes:
            self._append(at=datetime.now(UTC).isoformat(), changes=[_as_plain(change) for change in changes])

    def note_written(self, changes: Iterable[Change], found: Read) -> None:
        if uids := [change.uid for change in changes]:
            self._append(written=uids, seen=uids if found.server else [], server=found.server)

    def note_found(self, there: Iterable[Placed], found: Read) -> None:
        """Save what the person moved, and what they have in their calendar by now."""
        moved = [one for one in there if one.by_hand and self.placed[one.uid] != one]
        new = sorted(uid for uid in found.calendar.keys() & self.placed if (found.server, uid) not in self._state.seen)
        if moved or new:
            plain = [[one.uid, one.start.isoformat(), one.end.isoformat()] for one in moved]
            self._append(by_hand=plain, seen=new, server=found.server)

    def skip(self, uids: Sequence[str], never: Sequence[str] = ()) -> None:
        """Save which blocks aren't wanted: single ones, and all of a title."""
        self._append(skip=list(uids), never=list(never))

    def want(self, uids: Sequence[str]) -> None:
        """Save that deleted blocks are to be placed again."""
        self._append(want=list(uids))

    def _append(self, **values: Any) -> None:
        assert self._journal is not None
        self._take(self._journal.append({"person": self.person, **values}))

    def _take(self, record: Mapping[str, Any]) -> None:
        state = self._state
        changes = [_from_plain(one) for one in record.get("changes", ())]
        for change in changes:
            # In the calendar it is as before the first change that isn't written.
            state.unwritten[change.uid] = replace(change, was=state.unwritten.get(change.uid, change).was)
            if change.now is None:
                state.placed.pop(change.uid, None)
            else:
                by_hand = change.why is not None and change.why.name == "block_taken_back"
                state.placed[change.uid] = Placed(change.uid, change.title, *change.now, by_hand=by_hand)
                state.earlier.setdefault(change.uid, set()).add(change.now)
                state.skipped.discard(change.uid)
                state.never.discard(change.title.casefold())
        if changes:
            state.runs.append(Run(datetime.fromisoformat(record["at"]), changes))
        for uid in record.get("written", ()):
            state.unwritten.pop(uid, None)
        for uid, start, end in record.get("by_hand", ()):
            span = (datetime.fromisoformat(start), datetime.fromisoformat(end))
            state.placed[uid] = Placed(uid, state.placed[uid].title, *span, by_hand=True)
            state.unwritten.pop(uid, None)
        state.seen.update((record.get("server", ""), uid) for uid in record.get("seen", ()))
        for uid in (*record.get("skip", ()), *record.get("want", ())):
            state.placed.pop(uid, None)
            state.seen = {one for one in state.seen if one[1] != uid}
        state.skipped.update(record.get("skip", ()))
        state.never.update(record.get("never", ()))


class BlockCalendar:
    """The calendar that blocks are written to."""

    def __init__(self, source: Source) -> None:
        self._server = source if isinstance(source, CalDavSource) else None
        self.file: Path | None = None
        if isinstance(source, NewFile):
            self.file = source.file.with_name(f"{source.file.stem}.blocks.ics")

    def read(self, session: Session) -> Read:
        own = None
        if self.file is not None and self.file.exists():
            parts = FileSource(self.file).read(session.since.date(), 1)
            dates = Dates.read(parts, (session.since, session.until), session.home).dated
            own = {one.entry.uid: (one.start, one.end) for _, found in dates for one in found}
        blocks = {one.entry.uid: (one.start, one.end) for one in session.found if one.entry.uid.startswith(BLOCK)}
        return Read(blocks, own, "" if self._server is None else self._server.identity)

    def write(self, changes: Sequence[Change], places: Mapping[str, str]) -> tuple[list[Change], Said | str]:
        """Write changes. Returns those that are in the calendar now, and where that is. What somebody else changed at
        the same moment stays as it is."""
        if self.file is not None:
            data = self.file.read_bytes() if self.file.exists() else _EMPTY
            write_whole(self.file, applied(data, changes, places), mode=0o600)
            return list(changes), str(self.file)
        assert self._server is not None
        written = [change for change in changes if self._on_server(self._server, change, places)]
        return written, Said("on_server", {"name": self._server.name, "count": len(written)})

    @staticmethod
    def _on_server(server: CalDavSource, change: Change, places: Mapping[str, str]) -> bool:
        name = f"{change.uid}.ics"
        part = server.part(f"{server.base}{name}")
        if part is None:
            return change.now is None or server.add(name, applied(_EMPTY, [change], places))
        if change.now is None:
            return server.delete(part)
        return server.put(part, applied(b"\n".join(part.lines.physical), [change], places))


def applied(data: bytes, changes: Sequence[Change], places: Mapping[str, str]) -> bytes:
    """A calendar with these changes. Of an event that is there only its time is changed."""
    lines, left = FileLines(data), {change.uid: change for change in changes}
    added: dict[int, list[bytes]] = {}
    removed: set[int] = set()
    for block in lines.blocks("VEVENT"):
        change = left.pop(block.first_text("UID"), None)
        if change is None or block.end is None:
            continue
        if change.now is None:
            removed.update(range(block.begin.first, block.end.after))
            continue
        number = block.first_text("SEQUENCE")
        times = _times(change.now, int(number) + 1 if number.isdecimal() else 1)
        removed |= {place for line in block.own if line.name in _TIMES for place in range(line.first, line.after)}
        added.setdefault((block.inner[0].begin if block.inner else block.end).first, []).extend(times)
    end = next(block.end for block in lines.top if block.kind == "VCALENDAR")
    assert end is not None
    for change in left.values():
        if change.now is not None:
            place = places.get(change.title, "")
            said = [b"BEGIN:VEVENT", f"UID:{change.uid}".encode(), *_times(change.now, 0)]
            said += [_text("SUMMARY", change.title), *([_text("LOCATION", place)] if place else []), b"END:VEVENT"]
            added.setdefault(end.first, []).extend(folded(said))
    return lines.with_changes(added, removed)


def _times(span: Span, sequence: int) -> list[bytes]:
    start, end, stamp = (f"{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}" for moment in (*span, datetime.now(UTC)))
    return [line.encode() for line in (f"DTSTART:{start}", f"DTEND:{end}", f"DTSTAMP:{stamp}", f"SEQUENCE:{sequence}")]


def _text(name: str, value: str) -> bytes:
    from icalendar import vText

    return f"{name}:".encode() + bytes(vText(value).to_ical())


def _as_plain(change: Change) -> dict[str, Any]:
    spans = {
        name: None if span is None else [moment.isoformat() for moment in span]
        for name, span in (("was", change.was), ("now", change.now))
    }
    why = None if change.why is None else [change.why.name, dict(change.why.fields)]
    return {"uid": change.uid, "title": change.title, "why": why, **spans}


def _from_plain(given: Mapping[str, Any]) -> Change:
    def span(found: Sequence[str] | None) -> Span | None:
        return None if found is None else (datetime.fromisoformat(found[0]), datetime.fromisoformat(found[1]))

    why = None if given["why"] is None else Said(*given["why"])
    return Change(given["uid"], given["title"], span(given["was"]), span(given["now"]), why)
