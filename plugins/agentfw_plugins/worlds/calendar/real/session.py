"""One session: reads a file, proposes and asks about its conflicts, and writes the new file.

All errors in what was given are reported before the first question, and the new file is written as a whole or not at
all.

    session = Session.open(Wishes(path), out)
    asyncio.run(session.play(policy, person, known))
    session.write()
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentfw import Engagement, Episode, Policy, PolicyAgent, Sampling, Task
from agentfw.errors import MissingExtraError, UsageError
from agentfw.runs import write_whole

from .answers import Person
from .conflicts import Agenda
from .environment import Outcome, RealConflicts
from .ics_events import Reader
from .ics_lines import Block, FileLines, Problem
from .ics_marking import marked
from .occurrences import Occurrence, occurrences
from .people import People, owner_of
from .person_file import PersonFile
from .zones import Zones, home_of

__all__ = ["Session", "Wishes", "output_path"]

_LARGEST = 100_000_000
"""Maximum size in bytes; people's largest calendars have a tenth of it."""
_MOST_EVENTS = 20_000
"""Maximum number of events near the span that are read in full."""
_DATE = re.compile(rb":(\d{4})(\d{2})(\d{2})")
_MARGIN = timedelta(days=31)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the person wants to look at."""

    file: Path
    days: int = 28
    since: date | None = None
    """First day. Default: today."""
    owner: str = ""
    zone: str = ""
    relations: Mapping[str, str] = field(default_factory=dict)
    """Relations of people to the person, by address or domain."""


class Session:
    """A calendar file and the decisions about it."""

    def __init__(
        self,
        wishes: Wishes,
        lines: FileLines,
        people: People,
        home: tuple[tzinfo, str],
        span: tuple[datetime, datetime],
        found: Sequence[Occurrence],
        events: int,
        problems: list[Problem],
    ) -> None:
        self.wishes, self.lines, self.people, self.problems = wishes, lines, people, problems
        self.home, self.zone = home
        self.since, self.until = span
        self.events = events
        self.found = found
        self.agenda = Agenda(found, people, self.home)
        self.outcomes: list[Outcome] = []
        self.stopped = False

    @classmethod
    def open(cls, wishes: Wishes) -> Session:
        """Read the file. A file that is no calendar is an error; an event that can't be read is a problem."""
        if find_spec("icalendar") is None:
            raise MissingExtraError("reading .ics files", "calendar", module="icalendar")
        lines = FileLines(_read(wishes.file))
        blocks = lines.blocks("VEVENT")
        if not blocks and not any(block.kind == "VCALENDAR" for block in lines.top):
            raise UsageError(
                f"{wishes.file} is no iCalendar file: it has no BEGIN:VCALENDAR",
                fix="export the calendar as .ics and pass that file",
            )
        problems = list(lines.problems)
        home, zone = home_of(lines, wishes.zone)
        first = wishes.since or datetime.now(home).date()
        try:
            since = datetime.combine(first, time(), home).astimezone(UTC)
            until = datetime.combine(first + timedelta(days=wishes.days), time(), home).astimezone(UTC)
            near = (since - _MARGIN, until + _MARGIN)
        except OverflowError:
            raise UsageError(
                f"{wishes.days} days from {first} go beyond the year 9999", fix="choose another --from"
            ) from None
        read = [block for block in blocks if _may_touch(block, near)]
        if len(read) > _MOST_EVENTS:
            raise UsageError(
                f"{len(read):,} events of {wishes.file} may be in these days; at most {_MOST_EVENTS:,} are read",
                fix="pass fewer --days, or a smaller file",
            )
        reader = Reader(lines, Zones(lines, problems), home, problems)
        entries = [entry for block in read if (entry := reader.entry(block)) is not None]
        latest = {(entry.uid, entry.instead_of): entry for entry in sorted(entries, key=_revision)}
        found = occurrences(list(latest.values()), since, until, home, problems)
        people = People(owner_of(lines, wishes.owner), wishes.relations)
        return cls(wishes, lines, people, (home, zone), (since, until), found, len(blocks), problems)

    @property
    def person(self) -> str:
        """Name of the person's hub."""
        return self.people.owner or "me"

    async def play(
        self,
        policy: Policy,
        person: Person,
        known: PersonFile,
        *,
        sampling: Sampling | None = None,
        window: int | None = None,
        anew: bool = False,
    ) -> Episode:
        """Play all conflicts. Each answer is on disk before the next question."""
        environment = RealConflicts(self.agenda, person, known, self.home, anew=anew)
        self.outcomes = environment.outcomes
        agent = PolicyAgent(policy, memories=[known.memory], sampling=sampling, window=window)
        try:
            return await Engagement(environment, agent).run(Task(0, 0, self.person))
        finally:
            self.stopped = environment.stopped
            await policy.close()

    def result(self) -> bytes:
        """Write the new file."""
        kept: dict[Occurrence, str] = {}
        for outcome in self.outcomes:
            for one in outcome.declined:
                assert outcome.kept is not None
                kept[one] = outcome.kept.entry.title
        return marked(self.lines, kept, self.people.owner)

    def write(self, path: Path) -> None:
        write_whole(path, self.result())

    def record(self) -> dict[str, Any]:
        """Everything found and decided, as plain values."""
        return {
            "file": str(self.wishes.file),
            "person": self.person,
            "zone": self.zone,
            "from": self.since.astimezone(self.home).date().isoformat(),
            "until": self.until.astimezone(self.home).date().isoformat(),
            "events": self.events,
            "conflicts": [_recorded(outcome, self.home) for outcome in self.outcomes],
            "declined": sum(len(outcome.declined) for outcome in self.outcomes),
            "stopped": self.stopped,
            "problems": [{"line": one.line, "event": one.what, "why": one.why} for one in self.problems],
        }


def output_path(file: Path, given: Path | None) -> Path:
    """Path of the new file: as given, or a free name beside the old one."""
    if given is None:
        numbered = (f"{file.stem}.decided{f'-{number}' if number > 1 else ''}.ics" for number in range(1, 10_000))
        return next(path for name in numbered if not (path := file.with_name(name)).exists())
    if given.exists() and given.samefile(file):
        raise UsageError(f"{given} is the calendar itself, which is never changed", fix="choose another --output")
    if not given.parent.is_dir():
        raise UsageError(f"there is no directory {given.parent}", fix="create it, or choose another --output")
    return given


def _read(path: Path) -> bytes:
    try:
        size = path.stat().st_size
        if size > _LARGEST:
            raise UsageError(
                f"{path} has {size:,} bytes; at most {_LARGEST:,} are read", fix="export a smaller part of it"
            )
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"can't read {path}: {error.strerror}", fix="pass the path of an .ics file") from None


def _may_touch(block: Block, near: tuple[datetime, datetime]) -> bool:
    """Whether an event must be read: all series, and events near the span. Most of a calendar is long past."""
    names = {line.name for line in block.own}
    if names & {"RRULE", "RDATE", "RECURRENCE-ID"}:
        return True
    match = next((_DATE.search(line.content) for line in block.own if line.name == "DTSTART"), None)
    try:
        year, month, day = map(int, match.groups()) if match else (0, 0, 0)
        return near[0] <= datetime(year, month, day, tzinfo=UTC) <= near[1]
    except ValueError:
        return True  # the reader reports what is wrong with it


def _revision(entry: Any) -> tuple[int, int]:
    """If an event is repeated, the highest SEQUENCE counts, and then the last one."""
    text = entry.texts.get("SEQUENCE", "")
    return (int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0, entry.block.number)


def _recorded(outcome: Outcome, home: tzinfo) -> dict[str, Any]:
    question = outcome.question
    return {
        "events": [
            {
                "letter": each.letter,
                "title": each.title,
                "start": each.one.start.astimezone(home).isoformat(),
                "end": each.one.end.astimezone(home).isoformat(),
                "key": each.one.key,
                "tags": each.tags,
            }
            for each in question.candidates
        ],
        "proposed": question.proposed,
        "reason": question.reason,
        "kept": next((each.letter for each in question.candidates if each.one is outcome.kept), ""),
        "why": outcome.why,
        "decided_before": outcome.known,
    }
