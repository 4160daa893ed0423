"""A generated user's year as an iCalendar file (RFC 5545), for trying `agentfw calendar`.

It contains what an invitation contains: no answers, no weights. Regular meetings are confirmed and have a recurrence
rule; competing events are tentative. Times are floating local times, as a generated organisation has no time zone.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, time

from agentfw_plugins.worlds.calendar.dataset import Calendar
from agentfw_plugins.worlds.calendar.event_attributes import Event
from agentfw_plugins.worlds.calendar.organisation import User
from agentfw_plugins.worlds.calendar.regular_year import Series, date_of
from agentfw_plugins.worlds.calendar.schema import CADENCES

_STAMP = "20260101T000000Z"
"""Time stamp of the file; fixed, so that one seed gives the same bytes."""


def ics_of(calendar: Calendar) -> bytes:
    """The whole file."""
    user = calendar.user
    lines = [
        "BEGIN:VCALENDAR",
        "VERSION:2.0",
        "PRODID:-//agentfw//calendar//EN",
        "CALSCALE:GREGORIAN",
        f"X-WR-CALNAME:{escaped(f'{user.name}, {user.organisation.name}')}",
    ]
    by_id = {event.id: event for event in calendar.events}
    for series in calendar.series:
        lines += _series(series, by_id, user)
    for shown in calendar.rounds:
        for event in shown.events:
            if event is not shown.events[shown.anchor]:
                lines += _event(event, user, f"{event.id}@{_host(user)}", status="TENTATIVE")
    lines.append("END:VCALENDAR")
    return b"".join(part + b"\r\n" for line in lines for part in folded(line.encode()))


def _series(series: Series, by_id: dict[str, Event], user: User) -> Iterable[str]:
    """The meeting with its recurrence rule, and each date that differs."""
    first = by_id[f"{series.event.id}w{series.weeks[0]}"]
    uid = f"{series.event.id}@{_host(user)}"
    rule = f"RRULE:FREQ=WEEKLY;INTERVAL={CADENCES[series.meeting.cadence]};COUNT={len(series.weeks)}"
    yield from _event(first, user, uid, extra=(rule,))
    for week in series.weeks[1:]:
        event = by_id[f"{series.event.id}w{week}"]
        if event.minutes != first.minutes:
            yield from _event(event, user, uid, extra=(f"RECURRENCE-ID:{_when(event.day, event.start)}",))


def _event(
    event: Event, user: User, uid: str, *, status: str = "CONFIRMED", extra: tuple[str, ...] = ()
) -> Iterable[str]:
    yield "BEGIN:VEVENT"
    yield f"UID:{uid}"
    yield f"DTSTAMP:{_STAMP}"
    yield f"DTSTART:{_when(event.day, event.start)}"
    yield f"DTEND:{_when(event.day, event.end)}"
    yield from extra
    yield f"SUMMARY:{escaped(event.shown)}"
    yield f"LOCATION:{escaped(event.location)}"
    yield f"STATUS:{status}"
    yield f"CATEGORIES:{event.topic.upper()}"
    if event.urgency == "high":
        yield "PRIORITY:1"
    if event.attendees:
        yield f"ORGANIZER{_party(event.by, user)}"
        for person in (user.person, *event.attendees):
            if person != event.by:
                yield f"ATTENDEE;ROLE={'OPT' if event.hold == 'optional' else 'REQ'}-PARTICIPANT{_party(person, user)}"
    yield "END:VEVENT"


def _party(person: str, user: User) -> str:
    # Parameter values have no escapes, and people's names contain neither quotes nor line breaks.
    return f';CN="{user.organisation.person(person).name}":mailto:{person}@{_host(user)}'


def _host(user: User) -> str:
    return f"{user.id}.example"


def _when(day: int, minute: int) -> str:
    moment = datetime.combine(date_of(day), time(minute // 60, minute % 60))
    return moment.strftime("%Y%m%dT%H%M%S")


def escaped(value: str) -> str:
    """A text as the value of a property."""
    return value.replace("\\", "\\\\").replace(";", "\\;").replace(",", "\\,").replace("\n", "\\n")


def folded(content: bytes) -> list[bytes]:
    """Fold a content line into physical lines of at most 75 octets, without splitting a character."""
    parts: list[bytes] = []
    limit, lead = 75, b""
    while len(content) > limit:
        cut = limit
        while cut > limit - 4 and content[cut] & 0xC0 == 0x80:
            cut -= 1
        parts.append(lead + content[:cut])
        content, limit, lead = content[cut:], 74, b" "
    return [*parts, lead + content]
