"""Reads a VEVENT: when it is and in which time zone, who attends, and everything that its tags are made from.

An event that can't be read is a problem with its line and a reason, never an error of the whole file. It stays in the
file as it is.

    zones = Zones(lines, home=ZoneInfo("Europe/Berlin"))
    entry = Reader(lines, zones, home, problems).entry(block)
    entry.start, entry.title

A time zone is found, or its absence is reported; times are never moved by a guess. Zones have names of the IANA
database, which takes precedence over a definition in the file, names of Windows, or a definition in the file. Times
without a zone are local times of the person; all-day events have dates.
"""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from agentfw.errors import UnknownNameError

from .ics_lines import Block, FileLines, Problem

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


_LONGEST_TITLE = 120
_JOINERS = frozenset(chr(code) for code in (0x200C, 0x200D, *range(0xE0020, 0xE0080)))
"""Invisible characters within emoji and words of some languages. None of them changes the direction of text."""
_DECISIVE = frozenset(("DTSTART", "DTEND", "DURATION", "RRULE", "RDATE", "EXDATE", "RECURRENCE-ID"))
"""If one of these is broken, the time of the event is unknown."""


class Unreadable(ValueError):
    """Why an event can't be used."""


@dataclass(frozen=True, slots=True)
class Party:
    """A person or a room in an event."""

    address: str
    """The mail address in lower case, or another identifier."""
    name: str
    kind: str
    """INDIVIDUAL, ROOM, RESOURCE, GROUP ..."""
    role: str
    """REQ-PARTICIPANT, OPT-PARTICIPANT, CHAIR, NON-PARTICIPANT."""
    status: str
    """NEEDS-ACTION, ACCEPTED, DECLINED, TENTATIVE ..."""


@dataclass(frozen=True, slots=True, eq=False)
class Entry:
    """One VEVENT."""

    block: Block
    uid: str
    start: date
    """A datetime with its zone, or a date for an all-day event."""
    length: timedelta
    title: str
    organizer: Party | None
    attendees: tuple[Party, ...]
    texts: Mapping[str, str]
    """Other properties with one value: LOCATION, DESCRIPTION, STATUS, PRIORITY ... in capitals as in the file."""
    categories: tuple[str, ...]
    created: datetime | None
    rules: tuple[Mapping[str, list[Any]], ...]
    excluded: tuple[date, ...]
    added: tuple[tuple[date, timedelta | None], ...]
    """RDATEs: the start, and the length if given."""
    instead_of: date | None
    """RECURRENCE-ID: the date of a series that this replaces."""

    @property
    def all_day(self) -> bool:
        return not isinstance(self.start, datetime)

    @property
    def repeats(self) -> bool:
        return bool(self.rules or self.added)


class Reader:
    """Reads the events of one file."""

    def __init__(self, lines: FileLines, zones: Zones, home: tzinfo, problems: list[Problem]) -> None:
        self._lines, self._zones, self._home, self._problems = lines, zones, home, problems

    def entry(self, block: Block) -> Entry | None:
        """Read an event. None if it can't be read, with a problem noted."""
        from icalendar import Event

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # icalendar's guesses of zones, which aren't used
                event = Event.from_ical(self._lines.text(block))
            broken = {str(name): str(words) for name, words in event.errors}
            for name in _DECISIVE & broken.keys():
                raise Unreadable(f"{name} can't be read: {broken[name]}")
            found = self._entry(block, event)
        except Unreadable as error:
            self._problems.append(Problem(block.number, str(error), _title_of(block)))
            return None
        except Exception as error:  # icalendar raises many kinds of errors for broken lines
            words = f"{type(error).__name__}: {error}".splitlines()[0]
            self._problems.append(Problem(block.number, words, _title_of(block)))
            return None
        for name, words in broken.items():
            what = "a line" if name == "None" else name
            self._problems.append(Problem(block.number, f"{what} is ignored: {words}", found.title))
        return found

    def _entry(self, block: Block, event: Any) -> Entry:
        self._local = self._home
        start = self._one_time(event, "DTSTART")
        self._local = getattr(start, "tzinfo", None) or self._home
        if start is None:
            raise Unreadable("has no DTSTART that can be read")
        title = tidy(str(_first(event.get("SUMMARY", "")))) or "(no title)"
        if not block.first_text("UID") and any(name in event for name in ("RRULE", "RDATE", "RECURRENCE-ID")):
            raise Unreadable("is a series without a UID, so that none of its dates can be marked")
        organizer = event.get("ORGANIZER")
        return Entry(
            block,
            uid_of(block),
            start,
            self._length(event, start),
            title,
            None if organizer is None else _party(_first(organizer)),
            tuple(_party(one) for one in _listed(event.get("ATTENDEE"))),
            {name: str(_first(value)) for name, value in event.items() if name not in ("ATTENDEE", "ORGANIZER")},
            tuple(str(word) for some in _listed(event.get("CATEGORIES")) for word in getattr(some, "cats", [some])),
            self._moment(event, "CREATED"),
            tuple(_listed(event.get("RRULE"))),
            tuple(time for time, _ in self._times(event, "EXDATE")),
            tuple(self._times(event, "RDATE")),
            self._one_time(event, "RECURRENCE-ID"),
        )

    def _length(self, event: Any, start: date) -> timedelta:
        end, duration = self._one_time(event, "DTEND"), _first(event.get("DURATION"))
        if end is not None:
            if isinstance(end, datetime) != isinstance(start, datetime):
                raise Unreadable("begins with a date and ends with a time, or the other way round")
            length = _since(end, start)
        elif duration is not None:
            length = duration.dt
        else:
            length = timedelta() if isinstance(start, datetime) else timedelta(days=1)
        if not isinstance(length, timedelta) or length < timedelta():
            raise Unreadable("ends before it begins")
        return length

    def _one_time(self, event: Any, name: str) -> date | None:
        found = event.get(name)
        return None if found is None else self._placed(_first(found), getattr(_first(found), "dt", None))

    def _moment(self, event: Any, name: str) -> datetime | None:
        found = self._one_time(event, name)
        return found if isinstance(found, datetime) else None

    def _times(self, event: Any, name: str) -> list[tuple[date, timedelta | None]]:
        """The times of EXDATE and RDATE, with the length of periods."""
        found: list[tuple[date, timedelta | None]] = []
        for some in _listed(event.get(name)):
            for one in getattr(some, "dts", [some]):
                value = getattr(one, "dt", None)
                if isinstance(value, tuple):
                    start = self._placed(some, value[0])
                    end = value[1] if isinstance(value[1], timedelta) else self._placed(some, value[1])
                    if start is not None and end is not None:
                        found.append((start, end if isinstance(end, timedelta) else _since(end, start)))
                else:
                    time = self._placed(some, value)
                    if time is not None:
                        found.append((time, None))
        return found

    def _placed(self, given: Any, value: Any) -> date | None:
        """A time in its zone, or without any in that of the event's start.

        icalendar's own lookup isn't used, because it remembers zones of other files.
        """
        if not isinstance(value, datetime):
            return value if isinstance(value, date) else None
        name = getattr(given, "params", {}).get("TZID")
        zone = self._zones.find(str(name)) if name else None
        if zone is None and (name or value.tzinfo is None):
            zone = self._local
        return value if zone is None else value.replace(tzinfo=zone)


def uid_of(block: Block) -> str:
    """The id of an event, as it is written. One without is known by its title and its start."""
    return block.first_text("UID") or f"{_title_of(block) or '(no title)'} {block.first_text('DTSTART')}"


def address_of(value: object) -> str:
    """A person's identifier: the address without `mailto:`, in lower case.

    >>> address_of("MAILTO:Ana@Lab.example")
    'ana@lab.example'
    """
    text = str(value).strip()
    return (text[7:] if text[:7].lower() == "mailto:" else text).strip().lower()


def _party(value: Any) -> Party:
    params = getattr(value, "params", {})

    def said(name: str, default: str) -> str:
        given = params.get(name, default)
        return str(given[0] if isinstance(given, list) and given else given).upper()

    name, address = tidy(str(params.get("CN", ""))), address_of(value)
    if "@" not in address and params.get("EMAIL"):  # as Apple writes it, with an address of the account before it
        address = address_of(params["EMAIL"])
    return Party(
        address,
        name,
        said("CUTYPE", "INDIVIDUAL"),
        said("ROLE", "REQ-PARTICIPANT"),
        said("PARTSTAT", "NEEDS-ACTION"),
    )


def _since(end: date, start: date) -> timedelta:
    if isinstance(end, datetime) and isinstance(start, datetime):
        # Elapsed time: within one zone, Python would subtract wall-clock times.
        return end.astimezone(UTC) - start.astimezone(UTC)
    return end - start


def _first(value: Any) -> Any:
    """If a property is repeated, the first value counts."""
    return value[0] if isinstance(value, list) and value else value


def _listed(value: Any) -> list[Any]:
    return [] if value is None else value if isinstance(value, list) else [value]


def _title_of(block: Block) -> str:
    return tidy(block.first_text("SUMMARY"))


def printable(text: str) -> str:
    """Text without characters that could command a terminal."""
    return "".join(letter if letter.isprintable() or letter in _JOINERS else " " for letter in text)


def tidy(text: str) -> str:
    """Text for use within a line: no control characters and no separators of tags."""
    words = " ".join(printable(text).replace(" | ", " / ").split())
    return words if len(words) <= _LONGEST_TITLE else words[: _LONGEST_TITLE - 1] + "…"
