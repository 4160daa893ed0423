"""Writes the new file: the old one, byte for byte, with marks on what was declined.

Nothing is removed. A single event, or a changed date of a series, is marked in place. One date of a series gets an
event of its own (RECURRENCE-ID) that declines this date.

    marked(lines, [occurrence], owner, now)

A mark is this: the owner's PARTSTAT is DECLINED where they are among the attendees, TRANSP is TRANSPARENT (and
Outlook's X-MICROSOFT-CDO-BUSYSTATUS is FREE) so that the time is free again, and X-AGENTFW-DECLINED is TRUE. It doesn't
say what was kept, because the organiser and other attendees may see it. DTSTAMP, LAST-MODIFIED and SEQUENCE are raised,
as programs ignore an event that isn't newer than theirs. STATUS stays as it is: that somebody doesn't come doesn't
cancel a meeting.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime

from ..worlds.calendar.ics_export import folded
from .ics_events import address_of
from .ics_lines import Block, FileLines, Line
from .occurrences import Occurrence

__all__ = ["DECLINED", "marked"]

DECLINED = "X-AGENTFW-DECLINED"
_PARAMETER = re.compile(rb';(?:[^;:"]|"[^"]*")*')
_BUSY = "X-MICROSOFT-CDO-BUSYSTATUS"
_REPLACED = frozenset(("TRANSP", _BUSY, "DTSTAMP", "LAST-MODIFIED", "SEQUENCE", DECLINED))
_OF_THE_SERIES = frozenset(("RRULE", "RDATE", "EXDATE", "EXRULE", "DTSTART", "DTEND", "DURATION")) | _REPLACED


def marked(lines: FileLines, declined: Iterable[Occurrence], owner: str, now: datetime) -> bytes:
    """The file with these dates marked."""
    added: dict[int, list[bytes]] = {}
    removed: set[int] = set()
    for one in declined:
        block = one.entry.block
        assert block.end is not None
        if one.of_series is one.entry:
            added.setdefault(block.end.after, []).extend(_date_of_a_series(one, owner, now))
            continue
        for line in block.own:
            if line.name in _REPLACED or (line.name == "ATTENDEE" and _is(line, owner)):
                removed.update(range(line.first, line.after))
        attending = [_refusing(line) for line in block.lines_of("ATTENDEE") if _is(line, owner)]
        # Before the first inner block, as RFC 5545 requires properties first.
        place = block.inner[0].begin.first if block.inner else block.end.first
        added.setdefault(place, []).extend([*_folded(attending), *_folded(_marks(block, now))])
    return lines.with_changes(added, frozenset(removed))


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
    if block.lines_of(_BUSY):
        marks.append(f"{_BUSY}:FREE")
    return [mark.encode() for mark in marks]


def _folded(contents: Sequence[bytes]) -> list[bytes]:
    return [part for content in contents for part in folded(content)]


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
