"""Reads the dates of calendars: a person's own, and those that tell when others are busy.

    found = Dates.read(parts, (since, until), home)
    found.dated, found.problems
    busy = busy_times({"bob@lab.example": FileSource(Path("bob.ics"))}, first, days, (since, until), home, problems)
    busy["bob@lab.example"]       # spans

A calendar tells when somebody is busy by its events, a free/busy file (VFREEBUSY) by its periods. What isn't plainly
free is busy, also where it is only tentative.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

from agentfw.errors import UsageError
from agentfw.printing.out import Out

from ..ics.ics_events import Entry, Reader, Zones, uid_of
from ..ics.ics_lines import Block, FileLines, Problem
from ..ics.occurrences import Occurrence, occurrences
from ..ics.sources import Part, Source
from .conflicts import Agenda
from .free_times import Span
from .people import People

_MOST_EVENTS = 20_000
"""Maximum number of events near the span that are read in full."""
_DATE, _DAYS = re.compile(rb":(\d{4})(\d{2})(\d{2})"), re.compile(rb":\+?P\d+[WD]")
_MARGIN = timedelta(days=31)
_EARLIEST = datetime.min.replace(tzinfo=UTC) + _MARGIN
_LATEST = datetime.max.replace(tzinfo=UTC) - _MARGIN


@dataclass(frozen=True, slots=True)
class Dates:
    """What calendars have in a span of time."""

    dated: list[tuple[Part, list[Occurrence]]]
    events: int
    """Number of events in the calendars, at any time."""
    problems: list[Problem]

    @classmethod
    def read(cls, parts: Sequence[Part], span: Span, home: tzinfo, only: Collection[str] | None = None) -> Dates:
        """An event that can't be read is a problem; too many events are an error. `only` are the ids to read."""
        since, until = span
        near = (max(since, _EARLIEST) - _MARGIN, min(until, _LATEST) + _MARGIN)
        blocks = [part.lines.blocks("VEVENT") for part in parts]
        if only is not None:
            blocks = [[block for block in some if uid_of(block) in only] for some in blocks]
        read = [[block for block in some if _may_touch(block, near)] for some in blocks]
        if (count := sum(map(len, read))) > _MOST_EVENTS:
            raise UsageError(
                f"{count:,} events may be in these days; at most {_MOST_EVENTS:,} are read",
                fix="pass fewer --days, or a smaller calendar",
            )
        problems: list[Problem] = []
        dated: list[tuple[Part, list[Occurrence]]] = []
        done = 0
        with Out().progress("reading events") as tell:
            for part, some in zip(parts, read, strict=True):
                own = list(part.lines.problems)
                reader = Reader(part.lines, Zones(part.lines, own), home, own)
                entries = []
                for block in some:
                    entries += [] if (entry := reader.entry(block)) is None else [entry]
                    done += 1
                    tell(f"reading events: {done:,} of {count:,}")
                latest = {(entry.uid, entry.instead_of): entry for entry in sorted(entries, key=_revision)}
                dated.append((part, occurrences(list(latest.values()), since, until, home, own)))
                problems += own if len(parts) == 1 else [replace(problem, file=part.name) for problem in own]
        return cls(dated, sum(map(len, blocks)), problems)


def _may_touch(block: Block, near: Span) -> bool:
    """Whether an event must be read: all series, and what reaches into the span. Most of a calendar is long past."""
    said = {line.name: line.content for line in block.own}
    if said.keys() & {"RRULE", "RDATE", "RECURRENCE-ID"} or _DAYS.search(said.get("DURATION", b"")):
        return True
    try:
        begin = _day(said.get("DTSTART", b""))
        return begin <= near[1] and near[0] <= (_day(said["DTEND"]) if "DTEND" in said else begin)
    except ValueError:
        return True  # the reader reports what is wrong with it


def _day(line: bytes) -> datetime:
    match = _DATE.search(line)
    year, month, day = map(int, match.groups()) if match else (0, 0, 0)
    return datetime(year, month, day, tzinfo=UTC)


def _revision(entry: Entry) -> tuple[int, int]:
    """If an event is repeated, the highest SEQUENCE counts, and then the last one."""
    text = entry.texts.get("SEQUENCE", "")
    return (int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0, entry.block.number)


_FREE = re.compile(r";FBTYPE=\"?FREE\b", re.I)


def busy_times(
    sources: Mapping[str, Source], first: date, days: int, span: Span, home: tzinfo, problems: list[Problem]
) -> dict[str, list[Span]]:
    """The busy spans of each person, by address. What can't be read is added to the problems."""
    found: dict[str, list[Span]] = {}
    for address, source in sources.items():
        parts = source.read(first, days)
        dates = Dates.read(parts, span, home)
        problems += [replace(problem, file=source.name) for problem in dates.problems]
        taking_time = Agenda([one for _, some in dates.dated for one in some], People(address, {}), home).kept()
        found[address] = [(one.start, one.end) for one in taking_time]
        for part in parts:
            found[address] += _periods(part.lines, source.name, problems)
    return found


def _periods(lines: FileLines, name: str, problems: list[Problem]) -> Iterator[Span]:
    """The periods of free/busy components, which are in UTC."""
    import icalendar

    period: Any = icalendar.vPeriod  # its methods have no annotations
    for block in lines.blocks("VFREEBUSY"):
        for line in block.lines_of("FREEBUSY"):
            head, _, values = line.text.partition(":")
            for value in values.split(",") if not _FREE.search(head) else ():
                try:
                    begin, end = period.from_ical(value.strip())
                    end = begin + end if isinstance(end, timedelta) else end
                    if not (isinstance(begin, datetime) and begin.tzinfo and isinstance(end, datetime) and end.tzinfo):
                        raise ValueError("it has no time in UTC")
                except (ValueError, TypeError) as error:
                    problems.append(Problem(line.first + 1, f"{value!r} is no period: {error}", "FREEBUSY", name))
                    continue
                yield begin, end
