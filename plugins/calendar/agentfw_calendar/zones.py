"""Time zones of a calendar file: IANA names, Windows names, and zones that the file defines.

A time zone is found, or its absence is reported; times are never moved by a guess. A name known to the IANA database
takes precedence over the definition in the file, which is often outdated.

    zones = Zones(lines, home=ZoneInfo("Europe/Berlin"))
    zones.find("W. Europe Standard Time")
"""

from __future__ import annotations

import os
import re
from collections import Counter
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from agentfw.errors import UnknownNameError

from .ics_lines import FileLines, Problem

__all__ = ["Zones", "home_of", "named_zone"]

_TZID = re.compile(rb";TZID=\"?([^\":;]+)", re.I)


class Zones:
    """The zones of one file."""

    def __init__(self, lines: FileLines, problems: list[Problem]) -> None:
        self._blocks = {block.first_text("TZID"): block for block in lines.blocks("VTIMEZONE")}
        self._lines, self._problems = lines, problems
        self._found: dict[str, tzinfo | None] = {}

    def find(self, name: str) -> tzinfo | None:
        """The zone of this name, or None if it is neither an IANA nor a Windows name nor defined in the file."""
        if name not in self._found:
            self._found[name] = named_zone(name) or self._defined(name)
            if self._found[name] is None:
                self._problems.append(
                    Problem(0, "its times are read as local times", f'the time zone "{name}" is unknown')
                )
        return self._found[name]

    def _defined(self, name: str) -> tzinfo | None:
        from icalendar import Timezone

        block = self._blocks.get(name)
        if block is None:
            return None
        try:
            component: Any = Timezone.from_ical(self._lines.text(block))
            zone: tzinfo = component.to_tz(lookup_tzid=False)
            zone.utcoffset(datetime(2026, 1, 1))  # a broken definition fails here and not during a question
        except Exception as error:  # icalendar raises many kinds of errors for broken definitions
            self._problems.append(Problem(block.number, f"{type(error).__name__}: {error}", f"time zone {name}"))
            return None
        return zone


def named_zone(name: str) -> tzinfo | None:
    """A zone by its IANA or Windows name, also with a program's prefix (/citadel.org/.../Europe/Rome).

    >>> str(named_zone("W. Europe Standard Time")), named_zone("Middle Earth")
    ('Europe/Berlin', None)
    """
    from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

    # /vendor.example/any/thing/Europe/Rome: the longest suffix that is a name.
    parts = name.split("/") if name.startswith("/") else []
    shorter = ["/".join(parts[place:]) for place in range(1, len(parts))]
    for candidate in (name, WINDOWS_TO_OLSON.get(name, ""), *shorter):
        if not candidate:
            continue
        try:
            return ZoneInfo(candidate)
        except (KeyError, OSError, ValueError):  # missing, a directory of the database, or no valid name
            continue
    return None


def home_of(lines: FileLines, given: str) -> tuple[tzinfo, str]:
    """The person's zone and its name: as given, else the calendar's, else its most frequent, else this machine's."""
    if given:
        zone = named_zone(given)
        if zone is None:
            raise UnknownNameError("time zone", given, (), fix="pass an IANA name such as Europe/Berlin")
        return zone, given
    used = Counter(match[1].decode("utf-8", "replace") for line in lines.physical for match in _TZID.finditer(line))
    said = [block.first_text("X-WR-TIMEZONE") for block in lines.top]
    for name in [*said, *(name for name, _ in used.most_common())]:
        zone = named_zone(name) if name else None
        if zone is not None:
            return zone, str(getattr(zone, "key", name))
    return _machine()


def _machine() -> tuple[tzinfo, str]:
    """This machine's zone: from TZ, else from /etc/localtime, else its current offset."""
    name = os.environ.get("TZ", "").lstrip(":")
    if not name:
        _, _, name = str(Path("/etc/localtime").resolve()).rpartition("zoneinfo/")
    zone = named_zone(name)
    if zone is not None:
        return zone, name
    local = datetime.now().astimezone().tzinfo
    assert local is not None
    return local, str(local)
