"""What a session says at its beginning and at its end: what was found, what came of it, and what to do next."""

from __future__ import annotations

import shutil
import sys
import textwrap
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from agentfw.out import Out, counted

from .ics_events import tidy
from .wording import weighed

if TYPE_CHECKING:
    from .session import Session

__all__ = ["conclude", "introduce", "show_other_times"]

_PROBLEMS = 5
_BACK = (
    "to Google Calendar: Settings, Import & export, Import; choose the calendar that it came from",
    "to Outlook: File, Open & Export, Import/Export, Import an iCalendar (.ics) file, Import",
    "to Apple Calendar: File, Import; choose the calendar that it came from",
)


def _wrapped(text: str, indent: int, stream: TextIO) -> str:
    """A line that is broken between words on a terminal, and stays whole elsewhere."""
    if not stream.isatty():
        return text
    width = max(40, shutil.get_terminal_size().columns)
    return textwrap.fill(text, width, subsequent_indent=" " * indent, replace_whitespace=False, break_on_hyphens=False)


def introduce(session: Session, policy: str, out: Out) -> None:
    """Say what was found, before the first question, and who proposes if the person chose."""
    record = session.record()
    to_come = session.agenda.remaining(200)
    who = record["person"] if session.people.owner else "owner unknown (--me says)"
    facts = [
        ", ".join(record["calendars"]),
        who,
        record["zone"],
        f"{record['from']} to {record['until']}",
    ]
    facts += [f"policy {policy}"] if policy else []
    out.note(_wrapped("   ".join(facts), 2, sys.stderr))
    count = f"{record['events']:,} events, {len(session.found):,} dates in these days"
    conflicts = f"{to_come} conflict{'s' if to_come != 1 else ''}" if to_come else "no conflicts"
    out.note(f"{count}, {conflicts}")
    if session.problems:
        out.note(f"{len(session.problems)} of what is in the file can't be used, and stays as it is:")
        for problem in session.problems[:_PROBLEMS]:
            where = f"line {problem.line}" if problem.line else "everywhere"
            where = f"{problem.file}, {where}" if problem.file else where
            what = f'"{problem.what}": ' if problem.what else ""
            out.note(f"  {where}: {tidy(f'{what}{problem.why}')}")
        if len(session.problems) > _PROBLEMS:
            out.note("  ... (--json lists all)")
    out.note("")


def conclude(record: dict[str, Any], strategies: list[str], written: list[str], out: Out) -> None:
    """Say what came of the session."""
    conflicts = record["conflicts"]
    asked = [one for one in conflicts if not one["decided_before"]]
    if not conflicts:
        out.line("there are no conflicts" if not record["stopped"] else "nothing was decided")
        return
    proposed = sum(one["kept"] == one["proposed"] != "" for one in asked)
    count = f"{len(asked)} conflict{'s' if len(asked) != 1 else ''}"
    parts = [f"{count}: {proposed} as proposed" if asked else "no new conflict"]
    if otherwise := sum(bool(one["kept"]) and one["kept"] != one["proposed"] for one in asked):
        parts.append(f"{otherwise} otherwise")
    if both := sum(one["both"] for one in asked):
        parts.append(f"{both} with all kept")
    if left := sum(not one["kept"] and not one["both"] for one in asked):
        parts.append(f"{left} left for now")
    if known := len(conflicts) - len(asked):
        parts.append(f"{known} more as you decided before")
    said = f"{', '.join(parts)}   {counted(record['declined'], 'event')} declined"
    out.line(_wrapped(said, 2, sys.stdout))
    if strategies:
        out.line(_wrapped(f"learned   {weighed(strategies)}", 10, sys.stdout))
    show_other_times(record, out)
    for title in record["undone"]:
        out.line(f"undone    {title} was kept, and is asked about again")
    if not written:
        out.line("no file is written: nothing is declined")
    else:
        out.line(f"written   {', '.join(written)}")
        if any(Path(place).suffix == ".ics" for place in written):
            for way in _BACK:
                out.note(_wrapped(f"  {way}", 4, sys.stderr))
        out.line("          agentfw calendar undo takes it back")
    if record["stopped"]:
        out.note("there is more: run the same command again to go on")


def show_other_times(record: dict[str, Any], out: Out) -> None:
    """Say when what is declined could be instead."""
    for one in record["other_times"]:
        what = f"{one['title']}, {counted(len(one['dates']), 'date')}" if len(one["dates"]) > 1 else one["title"]
        if one["to"] is None:
            out.line(f"no time   {what}: nothing is free in these days")
            continue
        to = datetime.fromisoformat(one["to"])
        organizer, free = one["organizer"], one["also_free"]
        whom = f"write to {organizer}" if organizer else "yours to move"
        if organizer in free:
            whom += ", who is free then"
        if others := [address for address in free if address != organizer]:
            whom += f"; {' and '.join(others)} free then"
        weekly = " and so on" if one["move"] else ""
        found = f"free      {what}: {to:%a} {to.day} {to:%B}, {to:%H:%M}{weekly}   ({whom})"
        out.line(_wrapped(found, 10, sys.stdout))
        for line in one["message"].splitlines():
            out.line(_wrapped(f"          {line}", 10, sys.stdout))
