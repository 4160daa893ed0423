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
from typing import NamedTuple

from .ics_events import address_of, named_zone, uid_of
from .ics_lines import Block, FileLines, Line, decoded
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
        attending = [_answering(line, "DECLINED") for line in block.lines_of("ATTENDEE") if _is(line, owner)]
        # Before the first inner block, as RFC 5545 requires properties first.
        place = block.inner[0].begin.first if block.inner else block.end.first
        new = {place: [*folded(attending), *folded(_marks(block, now))]}
        first, after = block.begin.first, block.end.after
        changed = b"\n".join(lines.changed(first, after, new, gone))
        marks.append(Mark(one.key, lines.raw(first, after).decode("latin-1"), changed.decode("latin-1")))
        removed |= gone
        added.setdefault(place, []).extend(new[place])
    return lines.with_changes(added, removed), marks


def unmarked(lines: FileLines, marks: Iterable[Mark], owner: str) -> tuple[bytes, list[Mark]]:
    """The file without these marks, and those after which the event says of the owner what it said before.

    Events are compared by what they say, because servers sort, fold and spell in their own way, and some drop what they
    don't know. Of an event that somebody changed meanwhile, only the marks go.
    """
    blocks = lines.blocks("VEVENT")
    added: dict[int, list[bytes]] = {}
    restored: dict[int, bytes] = {}
    removed: set[int] = set()
    undone = []
    for mark in marks:
        (then,) = FileLines(mark.now.encode("latin-1")).blocks("VEVENT")
        before = FileLines(mark.was.encode("latin-1")).blocks("VEVENT") if mark.was else _master(lines, then)
        same = (block for block in blocks if _identity(block) == _identity(then))
        block = next((one for one in same if _is_marked(one, before, owner)), None)  # of several revisions
        if block is None:
            continue
        assert block.end is not None
        was = own_status(before[0], owner) if before else ""
        if _content(block) == _content(then):
            undone.append(mark)
            removed.update(range(block.begin.first, block.end.after))
            if mark.was:
                restored[block.begin.first] = mark.was.encode("latin-1")
            continue
        if own_status(block, owner) in ("DECLINED", was):
            undone.append(mark)  # else they have answered otherwise since, and that stays
        back: list[bytes] = []
        for line in block.own:
            if line.name == "ATTENDEE" and _is(line, owner) and own_status(block, owner) == "DECLINED":
                back.append(_answered_before(line, before, owner))
            elif line.name in _FREE and _parsed(line.content) in [_parsed(one.content) for one in then.own]:
                back += [old.content for old in (before[0].lines_of(line.name) if before else ())]
            elif line.name != DECLINED:
                continue
            removed.update(range(line.first, line.after))
        if not mark.was and not block.inner:  # a date that was declined had no alarms of its own
            alarms = [inner for master in before for inner in master.inner if inner.kind == "VALARM"]
            back += [content for alarm in alarms for content in _contents(alarm)]
        added.setdefault(block.end.first if not block.inner else block.inner[0].begin.first, []).extend(folded(back))
    return lines.with_changes(added, removed, restored), undone


def status_before(mark: Mark, lines: FileLines, owner: str) -> tuple[str, str]:
    """What the owner had answered before a mark, and what the calendar says now."""
    (then,) = FileLines(mark.now.encode("latin-1")).blocks("VEVENT")
    now = [block for block in lines.blocks("VEVENT") if _identity(block) == _identity(then)] or _master(lines, then)
    before = FileLines(mark.was.encode("latin-1")).blocks("VEVENT") if mark.was else _master(lines, then)
    was, is_now = (own_status(some[0], owner) if some else "" for some in (before, now))
    return was, is_now


def own_status(block: Block, owner: str) -> str:
    """The owner's PARTSTAT; NEEDS-ACTION if it isn't said, and empty if they aren't among the attendees."""
    line = next((line for line in block.lines_of("ATTENDEE") if _is(line, owner)), None)
    if line is None:
        return ""
    return dict(_parsed(line.content).parameters).get("PARTSTAT", "needs-action").upper()


def _is_marked(block: Block, before: Sequence[Block], owner: str) -> bool:
    """Whether an event has a mark, also where a server dropped the property that says so."""
    if block.lines_of(DECLINED):
        return True
    status, was = own_status(block, owner), own_status(before[0], owner) if before else ""
    if status or was:
        return status == "DECLINED" and was != "DECLINED"
    return block.first_text("TRANSP").upper() == "TRANSPARENT" and (
        not before or before[0].first_text("TRANSP").upper() != "TRANSPARENT"
    )


def _identity(block: Block) -> tuple[str, object]:
    dated = block.lines_of("RECURRENCE-ID")
    return uid_of(block), _moment(dated[0]) if dated else ""


def _moment(line: Line) -> object:
    """A time that is the same in all zones, or else as it is written."""
    said = _parsed(line.content)
    text, zone = said.value.strip().upper(), named_zone(_zone_of(line))
    try:
        if text.endswith("Z"):
            return datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        if zone is not None:
            return datetime.strptime(text, "%Y%m%dT%H%M%S").replace(tzinfo=zone).astimezone(UTC)
    except ValueError:
        pass
    return text


def _zone_of(line: Line) -> str:
    head = decoded(_split(line.content)[0])
    return next((part[5:].strip('"') for part in head.split(";") if part.upper().startswith("TZID=")), "")


def _master(lines: FileLines, block: Block) -> list[Block]:
    """The series that a date belongs to."""
    return [one for one in lines.blocks("VEVENT") if _identity(one) == (uid_of(block), "")]


class _Said(NamedTuple):
    """A content line, by what it says."""

    name: str
    parameters: frozenset[tuple[str, str]]
    """Without those that say what holds anyway."""
    value: str


_ANYWAY = {"ROLE": "req-participant", "PARTSTAT": "needs-action", "CUTYPE": "individual", "RSVP": "false"}
_OF_A_SERVER = frozenset(("DTSTAMP", "LAST-MODIFIED", "CREATED", "SEQUENCE"))
_FREE_TEXT = frozenset(("SUMMARY", "DESCRIPTION", "LOCATION", "COMMENT", "UID"))


def _parsed(content: bytes) -> _Said:
    head, value = _split(content)
    name = head.partition(b";")[0]
    given = [decoded(some[1:]).partition("=") for some in _PARAMETER.findall(head[len(name) :])]
    parameters = {(key.upper(), text.replace('"', "").casefold()) for key, _, text in given}
    text = re.sub(r"\\([nN,;\\])", lambda match: "\n" if match[1] in "nN" else match[1], decoded(value))
    named = decoded(name).upper()
    return _Said(
        named,
        frozenset((key, text) for key, text in parameters if text != _ANYWAY.get(key)),
        text if named in _FREE_TEXT else text.strip().casefold(),
    )


def _content(block: Block) -> tuple[object, ...]:
    """What a block says, without what every server notes in its own way."""
    own = [_parsed(line.content) for line in block.own if line.name not in _OF_A_SERVER | {DECLINED}]
    return (
        block.kind,
        sorted((one.name, sorted(one.parameters), one.value) for one in own),
        sorted(map(repr, map(_content, block.inner))),
    )


def _contents(block: Block) -> list[bytes]:
    """The content lines of a block that has no inner ones."""
    assert block.end is not None
    return [line.content for line in (block.begin, *block.own, block.end)]


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
            contents.append(_answering(line, "DECLINED"))
        elif line.name not in _OF_THE_SERIES:
            contents.append(line.content)
    contents += [
        b"RECURRENCE-ID" + parameters + b":" + begins,
        b"DTSTART" + parameters + b":" + begins,
        b"DTEND" + parameters + b":" + ends,
        *_marks(block, now),
        b"END:VEVENT",
    ]
    return folded(contents)


def _marks(block: Block, now: datetime) -> list[bytes]:
    stamp, sequence = f"{now:%Y%m%dT%H%M%SZ}", block.first_text("SEQUENCE")
    marks = ["TRANSP:TRANSPARENT", f"{DECLINED}:TRUE", f"DTSTAMP:{stamp}", f"LAST-MODIFIED:{stamp}"]
    marks.append(f"SEQUENCE:{int(sequence) + 1 if sequence.isdecimal() else 1}")
    if block.lines_of(BUSY_STATUS):
        marks.append(f"{BUSY_STATUS}:FREE")
    return [mark.encode() for mark in marks]


def folded(contents: Sequence[bytes]) -> list[bytes]:
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
    head, value = _split(line.content)
    # Apple has an address of the account in the value, and the mail address in a parameter.
    mail = next((part[6:] for part in decoded(head).split(";") if part.upper().startswith("EMAIL=")), "")
    return bool(owner) and owner in (address_of(decoded(value)), mail.strip('"').lower())


def _answered_before(line: Line, before: Sequence[Block], owner: str) -> bytes:
    """The owner's line with the answer that it had: as it was, unless somebody changed something else of it."""
    old = next((one for block in before for one in block.lines_of("ATTENDEE") if _is(one, owner)), None)
    if old is None:
        return _answering(line, "")
    if _parsed(_answering(old, "")) == _parsed(_answering(line, "")):
        return old.content
    return _answering(line, dict(_parsed(old.content).parameters).get("PARTSTAT", "").upper())


def _answering(line: Line, status: str) -> bytes:
    """An ATTENDEE line with this PARTSTAT, or with none."""
    head, value = _split(line.content)
    name = head.partition(b";")[0]
    others = [some for some in _PARAMETER.findall(head[len(name) :]) if not some.upper().startswith(b";PARTSTAT=")]
    said = f";PARTSTAT={status}".encode() if status else b""
    return name + b"".join(others) + said + b":" + value


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
