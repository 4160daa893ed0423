"""Time zones of a calendar file: names of the IANA database, names that Windows gives, and zones that the file defines.

The one rule: a time zone is found or it is said that it wasn't; nobody's nine o'clock is moved by a guess. A name that
is known to the IANA database wins over the definition in the file, which is often old.

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
        """The zone of this name; None where neither the IANA database, nor Windows, nor the file knows it."""
        if name not in self._found:
            self._found[name] = named_zone(name) or self._defined(name)
            if self._found[name] is None:
                self._problems.append(
                    Problem(0, "times in it are taken as local times", f'the time zone "{name}" is unknown')
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
            zone.utcoffset(datetime(2026, 1, 1))  # a broken one fails here, and not in the middle of a question
        except Exception as error:  # the library raises whatever a broken definition leads it to
            self._problems.append(Problem(block.number, f"{type(error).__name__}: {error}", f"time zone {name}"))
            return None
        return zone


def named_zone(name: str) -> tzinfo | None:
    """A zone by its IANA or Windows name; also with a prefix as some programs write it (/citadel.org/.../Europe/Rome).

    >>> str(named_zone("W. Europe Standard Time")), named_zone("Middle Earth")
    ('Europe/Berlin', None)
    """
    from icalendar.timezone.windows_to_olson import WINDOWS_TO_OLSON

    # /vendor.example/any/thing/Europe/Rome: whatever of the end is a name.
    parts = name.split("/") if name.startswith("/") else []
    shorter = ["/".join(parts[place:]) for place in range(1, len(parts))]
    for candidate in (name, WINDOWS_TO_OLSON.get(name, ""), *shorter):
        if not candidate:
            continue
        try:
            return ZoneInfo(candidate)
        except (KeyError, OSError, ValueError):  # not there, a folder of the database, or no name at all
            continue
    return None


def home_of(lines: FileLines, given: str) -> tuple[tzinfo, str]:
    """The person's zone and its name: as given, as the calendar says, the one most of it is in, or this machine's."""
    if given:
        zone = named_zone(given)
        if zone is None:
            raise UnknownNameError("time zone", given, (), fix="give an IANA name such as Europe/Berlin")
        return zone, given
    used = Counter(match[1].decode("utf-8", "replace") for line in lines.physical for match in _TZID.finditer(line))
    said = [block.first_text("X-WR-TIMEZONE") for block in lines.top]
    for name in [*said, *(name for name, _ in used.most_common())]:
        zone = named_zone(name) if name else None
        if zone is not None:
            return zone, str(getattr(zone, "key", name))
    return _machine()


def _machine() -> tuple[tzinfo, str]:
    """This machine's zone: by TZ, by what /etc/localtime points to, or else its offset of now."""
    name = os.environ.get("TZ", "").lstrip(":")
    if not name:
        _, _, name = str(Path("/etc/localtime").resolve()).rpartition("zoneinfo/")
    zone = named_zone(name)
    if zone is not None:
        return zone, name
    local = datetime.now().astimezone().tzinfo
    assert local is not None
    return local, str(local)
