"""The dates that are read from real calendars, beside those that a second library reads.

    python plugins/calendar/benchmarks/calendar_dates.py FOLDER

FOLDER has .ics files, such as the test calendars of the library icalendar. The second reader is recurring-ical-events.
For each file, all dates in the year after each of its events are compared: which event, and when it begins. Where the
two differ, the reason is what the reader says of the file, or that two of its events share a UID.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import icalendar
import recurring_ical_events

from agentfw.errors import AgentfwError
from agentfw_benchmarks import Options, print_aligned, tell
from agentfw_calendar.session import Session, Wishes
from agentfw_calendar.sources import FileSource

YEAR = timedelta(days=365)
SAME, REFUSED, FAILED = "same", "refused by name", "the second library can't read it"
REASONS = {
    "without a UID": "a series without a UID, which can't be marked and is left out",
    "time zone": "an unknown time zone, whose times are read as local",
}
SHARED, UNEXPLAINED = "events that share a UID", "unexplained"

Dates = set[tuple[str, datetime]]


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    parser = Options(__doc__)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    found: dict[str, list[str]] = {}
    count = 0
    for path in sorted(options.folder.glob("*.ics")):
        outcome, dates = compared(path)
        found.setdefault(outcome, []).append(path.name)
        count += dates
    return tell({"dates": count, "files": found}, options.json, show)


def compared(path: Path) -> tuple[str, int]:
    """How the two readings of a file differ, and how many dates were compared."""
    try:
        calendars = calendars_of(path)
    except Exception:  # whatever its parser raises
        calendars = []
    events = [event for calendar in calendars for event in calendar.walk("VEVENT")]
    days = sorted({day for event in events if (day := day_of(event))}) or [date(2026, 1, 1)]
    since, count, outcome = date.min, 0, SAME
    for day in days:
        if day < since + YEAR:
            continue
        since = day - timedelta(days=1)
        try:
            session = Session.open([FileSource(path)], Wishes(YEAR.days, since, "", "UTC"))
        except AgentfwError:
            return REFUSED, count
        try:
            theirs = {date for calendar in calendars for date in dates_of(calendar, since)}
        except Exception:  # whatever the library raises
            return FAILED, count
        if not calendars:
            return FAILED, count
        named = {uid for uid, _ in theirs}
        ours: Dates = {(one.entry.uid if one.entry.uid in named else "", one.start) for one in session.found}
        count += len(ours | theirs)
        if ours != theirs and outcome == SAME:
            outcome = reason(session, calendars)
    return outcome, count


def reason(session: Session, calendars: Sequence[icalendar.Calendar]) -> str:
    told = " ".join(f"{problem.what} {problem.why}" for problem in session.problems)
    for words, explained in REASONS.items():
        if words in told:
            return explained
    events = [event for calendar in calendars for event in calendar.walk("VEVENT")]
    shared = Counter((str(event.get("UID", "")), str(event.get("RECURRENCE-ID", ""))) for event in events)
    return SHARED if max(shared.values(), default=0) > 1 else UNEXPLAINED


def calendars_of(path: Path) -> list[icalendar.Calendar]:
    """The calendars of a file, without events whose beginning can't be read, at which the second library stops."""
    calendars = []
    for found in icalendar.Calendar.from_ical(path.read_bytes(), multiple=True):
        calendar = icalendar.Calendar()
        for one in found.subcomponents if found.name == "VCALENDAR" else [found]:  # some files are one bare event
            if one.name == "VTIMEZONE" or (one.name == "VEVENT" and day_of(one)):
                calendar.add_component(one)
        calendars.append(calendar)
    return calendars


def day_of(event: icalendar.Component) -> date | None:
    try:
        start = event["DTSTART"].dt
    except (KeyError, AttributeError, ValueError):
        return None
    return start.date() if isinstance(start, datetime) else start


def dates_of(calendar: icalendar.Calendar, since: date) -> Iterator[tuple[str, datetime]]:
    begin = datetime.combine(since, time(), UTC)
    for event in recurring_ical_events.of(calendar, skip_bad_series=True).between(begin, begin + YEAR):
        start = event.start if isinstance(event.start, datetime) else datetime.combine(event.start, time())
        yield str(event.get("UID", "")), start.replace(tzinfo=start.tzinfo or UTC).astimezone(UTC)


def show(result: dict[str, Any]) -> None:
    files = result["files"]
    rows = [
        [outcome, str(len(names)), "" if outcome == SAME else ", ".join(names[:3])] for outcome, names in files.items()
    ]
    print_aligned(["", "files", "such as"], sorted(rows, key=lambda row: -int(row[1])))
    print(f"{result['dates']:,} dates")


if __name__ == "__main__":
    main()
