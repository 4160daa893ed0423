"""When other people are busy, as far as a calendar or a server tells.

    busy = busy_times({"bob@lab.example": FileSource(Path("bob.ics"))}, first, days, (since, until), home, problems)
    busy["bob@lab.example"]       # spans

A calendar tells it by its events, a free/busy file (VFREEBUSY) by its periods. What isn't plainly free is busy, also
where it is only tentative.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta, tzinfo
from typing import Any

from .calendar_reading import Dates
from .conflicts import Agenda
from .free_times import Span
from .ics_lines import FileLines, Problem
from .people import People
from .sources import Source

__all__ = ["busy_times"]

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
