"""Writes the new file: the old one, byte for byte, with marks on what was declined.

Nothing is removed. A single event, or a changed date of a series, is marked in place. One date of a series gets an
event of its own (RECURRENCE-ID) that declines this date.

    data, marks = marked(lines, [occurrence], owner, now)
    data, undone = unmarked(FileLines(data), marks)

A mark is this: the owner's PARTSTAT is DECLINED where they are among the attendees, TRANSP is TRANSPARENT (and
Outlook's X-MICROSOFT-CDO-BUSYSTATUS is FREE) so that the time is free again, and X-AGENTFW-DECLINED is TRUE. It doesn't
say what was kept, because the organiser and other attendees may see it. DTSTAMP, LAST-MODIFIED and SEQUENCE are raised,
as programs ignore an event that isn't newer than theirs. STATUS stays as it is: that somebody doesn't come doesn't
cancel a meeting.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from .ics_events import address_of
from .ics_lines import Block, FileLines, Line
from .occurrences import Occurrence

DECLINED = "X-AGENTFW-DECLINED"
_PARAMETER = re.compile(rb';(?:[^;:"]|"[^"]*")*')
BUSY_STATUS = "X-MICROSOFT-CDO-BUSYSTATUS"
_FREE = frozenset(("TRANSP", BUSY_STATUS))
_REPLACED = _FREE | {"DTSTAMP", "LAST-MODIFIED", "SEQUENCE", DECLINED}
_OF_THE_SERIES = frozenset(("RRULE", "RDATE", "EXDATE", "EXRULE", "DTSTART", "DTEND", "DURATION")) | _REPLACED


@dataclass(frozen=True, slots=True)
class Mark:
    """What was changed in a file for one declined date."""

    key: str
    was: str
    """The event before, as bytes in Latin-1. Empty if it was added, for a date of a series."""
    now: str


def marked(lines: FileLines, declined: Iterable[Occurrence], owner: str, now: datetime) -> tuple[bytes, list[Mark]]:
    """The file with these dates marked, and how to undo that."""
    added: dict[int, list[bytes]] = {}
    removed: set[int] = set()
    marks = []
    for one in declined:
        block = one.entry.block
        assert block.end is not None
        if one.of_series is one.entry:
            contents = _date_of_a_series(one, owner, now)
            added.setdefault(block.end.after, []).extend(contents)
            marks.append(Mark(one.key, "", b"\r\n".join(contents).decode("latin-1")))
            continue
        own = [line for line in block.own if line.name in _REPLACED or (line.name == "ATTENDEE" and _is(line, owner))]
        gone = {place for line in own for place in range(line.first, line.after)}
        attending = [_refusing(line) for line in block.lines_of("ATTENDEE") if _is(line, owner)]
        # Before the first inner block, as RFC 5545 requires properties first.
        place = block.inner[0].begin.first if block.inner else block.end.first
        new = {place: [*_folded(attending), *_folded(_marks(block, now))]}
        first, after = block.begin.first, block.end.after
        changed = b"\n".join(lines.changed(first, after, new, gone))
        marks.append(Mark(one.key, lines.raw(first, after).decode("latin-1"), changed.decode("latin-1")))
        removed |= gone
        added.setdefault(place, []).extend(new[place])
    return lines.with_changes(added, removed), marks


def unmarked(lines: FileLines, marks: Iterable[Mark], owner: str) -> tuple[bytes, list[Mark]]:
    """The file without these marks, and those that were there."""
    declined = [block for block in lines.blocks("VEVENT") if block.lines_of(DECLINED)]
    added: dict[int, list[bytes]] = {}
    restored: dict[int, bytes] = {}
    removed: set[int] = set()
    undone = []
    for mark in marks:
        (then,) = FileLines(mark.now.encode("latin-1")).blocks("VEVENT")
        block = next((block for block in declined if _identity(block) == _identity(then)), None)
        if block is None:
            continue
        assert block.end is not None
        undone.append(mark)
        if _content(block) == _content(then):
            removed.update(range(block.begin.first, block.end.after))
            if mark.was:
                restored[block.begin.first] = mark.was.encode("latin-1")
            continue
        before = FileLines(mark.was.encode("latin-1")).blocks("VEVENT") if mark.was else _master(lines, block)
        for line in block.own:
            attending = line.name == "ATTENDEE" and _is(line, owner) and _refusing(line) == line.content
            if attending or line.name == DECLINED or (line.name in _FREE and _said_by_us(line, then)):
                removed.update(range(line.first, line.after))
        gone = {line.name for line in block.own if line.first in removed}
        back = [
            line.content
            for line in (before[0].own if before else ())
            if line.name in gone and (line.name != "ATTENDEE" or _is(line, owner))
        ]
        added.setdefault(block.end.first if not block.inner else block.inner[0].begin.first, []).extend(_folded(back))
    return lines.with_changes(added, removed, restored), undone


def _identity(block: Block) -> tuple[str, str]:
    return block.first_text("UID"), block.first_text("RECURRENCE-ID")


def _master(lines: FileLines, block: Block) -> list[Block]:
    """The series that a date belongs to."""
    return [one for one in lines.blocks("VEVENT") if _identity(one) == (block.first_text("UID"), "")]


def _content(block: Block) -> tuple[object, ...]:
    """What a block says. Servers fold lines in their own way, and change their order."""
    return block.kind, sorted(line.content for line in block.own), sorted(map(repr, map(_content, block.inner)))


def _said_by_us(line: Line, then: Block) -> bool:
    return line.content in [one.content for one in then.lines_of(line.name)]


def _date_of_a_series(one: Occurrence, owner: str, now: datetime) -> Sequence[bytes]:
    """An event for this date alone, without alarms: nobody needs one for a declined date."""
    block = one.entry.block
    start = block.lines_of("DTSTART")[0].content
    head, value = _split(start)
    zone = one.entry.start.tzinfo if isinstance(one.entry.start, datetime) else None
    in_utc = value.strip().endswith(b"Z")
    begins, ends = _said(one.date_of, zone, in_utc), _said(one.end, zone, in_utc)
    parameters = head[len(b"DTSTART") :]
    contents = [b"BEGIN:VEVENT"]
    for line in block.own:
        if line.name == "ATTENDEE" and _is(line, owner):
            contents.append(_refusing(line))
        elif line.name not in _OF_THE_SERIES:
            contents.append(line.content)
    contents += [
        b"RECURRENCE-ID" + parameters + b":" + begins,
        b"DTSTART" + parameters + b":" + begins,
        b"DTEND" + parameters + b":" + ends,
        *_marks(block, now),
        b"END:VEVENT",
    ]
    return _folded(contents)


def _marks(block: Block, now: datetime) -> list[bytes]:
    stamp, sequence = f"{now:%Y%m%dT%H%M%SZ}", block.first_text("SEQUENCE")
    marks = ["TRANSP:TRANSPARENT", f"{DECLINED}:TRUE", f"DTSTAMP:{stamp}", f"LAST-MODIFIED:{stamp}"]
    marks.append(f"SEQUENCE:{int(sequence) + 1 if sequence.isdecimal() else 1}")
    if block.lines_of(BUSY_STATUS):
        marks.append(f"{BUSY_STATUS}:FREE")
    return [mark.encode() for mark in marks]


def _folded(contents: Sequence[bytes]) -> list[bytes]:
    """Content lines as physical lines of at most 75 octets, none of which splits a character."""
    parts: list[bytes] = []
    for content in contents:
        rest, limit, lead = content, 75, b""
        while len(rest) > limit:
            cut = limit
            while cut > limit - 4 and rest[cut] & 0xC0 == 0x80:
                cut -= 1
            parts.append(lead + rest[:cut])
            rest, limit, lead = rest[cut:], 74, b" "
        parts.append(lead + rest)
    return parts


def _is(line: Line, owner: str) -> bool:
    return bool(owner) and address_of(_split(line.content)[1].decode("utf-8", "replace")) == owner


def _refusing(line: Line) -> bytes:
    """An ATTENDEE line with PARTSTAT=DECLINED."""
    head, value = _split(line.content)
    name = head.partition(b";")[0]
    others = [some for some in _PARAMETER.findall(head[len(name) :]) if not some.upper().startswith(b";PARTSTAT=")]
    return name + b"".join(others) + b";PARTSTAT=DECLINED:" + value


def _split(content: bytes) -> tuple[bytes, bytes]:
    """Split a line at its colon; a quoted colon belongs to a parameter."""
    quoted = False
    for place, letter in enumerate(content):
        if letter == ord('"'):
            quoted = not quoted
        elif letter == ord(":") and not quoted:
            return content[:place], content[place + 1 :]
    return content, b""


def _said(day: date, zone: object, in_utc: bool) -> bytes:
    """A time in the format of the series."""
    assert isinstance(day, datetime)  # an all-day event is in no conflict
    local = day.astimezone(UTC if in_utc else zone)  # type: ignore[arg-type]
    return f"{local:%Y%m%dT%H%M%S}{'Z' if in_utc else ''}".encode()
