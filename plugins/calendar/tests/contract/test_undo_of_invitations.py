"""Undo on servers that write events anew in their own way, with invitations as Google, Outlook and Apple write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import icalendar
import pytest

CalendarSession = Callable[..., Any]

MAIL = "ana@lab.example"
GOOGLE = """UID:invited@google.com
DTSTAMP:20260101T000000Z
DTSTART:20261123T093000Z
DTEND:20261123T103000Z
SUMMARY:Review with Acme
ORGANIZER;CN=eve@acme.example:mailto:eve@acme.example
ATTENDEE;CUTYPE=INDIVIDUAL;ROLE=REQ-PARTICIPANT;PARTSTAT={status};CN=eve@acme.example;X-NUM-GUESTS=0:mailto:eve@acme.example
ATTENDEE;CUTYPE=INDIVIDUAL;ROLE=REQ-PARTICIPANT;PARTSTAT={status};RSVP=TRUE;CN=ana@lab.example;X-NUM-GUESTS=0:mailto:ana@lab.example
X-MICROSOFT-CDO-OWNERAPPTID:1
SEQUENCE:0
STATUS:CONFIRMED
TRANSP:OPAQUE
BEGIN:VALARM
ACTION:DISPLAY
DESCRIPTION:This is an event reminder
TRIGGER:-P0DT0H10M0S
END:VALARM"""
OUTLOOK = """UID:040000008200E00074C5B7101A82E00800000000
DTSTAMP:20260101T000000Z
DTSTART;TZID=W. Europe Standard Time:20261123T103000
DTEND;TZID=W. Europe Standard Time:20261123T113000
SUMMARY;LANGUAGE=en-us:Review with Acme
ORGANIZER;CN="Acme, Eve":MAILTO:eve@acme.example
ATTENDEE;ROLE=REQ-PARTICIPANT;PARTSTAT={status};RSVP=TRUE;CN="Costa, Ana":MAILTO:Ana@Lab.example
CLASS:PUBLIC
PRIORITY:5
SEQUENCE:0
TRANSP:OPAQUE
STATUS:CONFIRMED
X-MICROSOFT-CDO-BUSYSTATUS:BUSY
X-MICROSOFT-CDO-IMPORTANCE:1
BEGIN:VALARM
DESCRIPTION:REMINDER
TRIGGER;RELATED=START:-PT15M
ACTION:DISPLAY
END:VALARM"""
APPLE = """UID:6F1A2B3C-0000-4000-8000-000000000001
DTSTAMP:20260101T000000Z
DTSTART;TZID=Europe/Berlin:20261123T103000
DTEND;TZID=Europe/Berlin:20261123T113000
SUMMARY:Review with Acme
ORGANIZER;CN="Eve";EMAIL="eve@acme.example":/aMTIzNDU2Nzg5MDEyMzQ1/principal/
ATTENDEE;CN="Ana";CUTYPE=INDIVIDUAL;EMAIL="ana@lab.example";PARTSTAT={status};ROLE=REQ-PARTICIPANT:/aOTg3NjU0MzIx/principal/
CREATED:20260101T000000Z
SEQUENCE:1
TRANSP:OPAQUE
X-APPLE-TRAVEL-ADVISORY-BEHAVIOR:AUTOMATIC"""
GROUP = """UID:group
DTSTAMP:20260101T000000Z
DTSTART:20261123T090000Z
DURATION:PT1H
SUMMARY:Group meeting"""
ME = ("--me", MAIL, "--zone", "Europe/Berlin")


def same(text: str) -> str:
    return text


def written_anew(text: str) -> str:
    """Properties and parameters in order of the alphabet, folded elsewhere, some in lower case."""
    found = icalendar.Calendar.from_ical(text).to_ical(sorted=True).decode()
    lines = []
    for line in found.replace("\r\n ", "").split("\r\n"):
        head, colon, value = line.partition(":")
        if line.startswith(("ATTENDEE", "ORGANIZER")) and '"' not in line:
            name, *given = head.split(";")
            head, value = ";".join([name, *sorted(given, reverse=True)]), value.lower()
        lines += re.findall(".{1,40}", f"{head}{colon}{value}")[:1] or [""]
        lines += [f" {part}" for part in re.findall(".{1,40}", f"{head}{colon}{value}")[1:]]
    return "\r\n".join(lines)


def without_unknown(text: str) -> str:
    """Like a server that drops what it doesn't know."""
    return re.sub(r"X-AGENTFW[^\r]*\r\n", "", text)


def said(text: str) -> dict[str, Any]:
    """What the event says: the owner's status, times and alarms, read by another library."""
    event: Any
    (event,) = icalendar.Calendar.from_ical(text).walk("VEVENT")
    given = event.get("ATTENDEE", [])
    attendees = given if isinstance(given, list) else [given]
    (own,) = [one for one in attendees if MAIL in f"{one} {one.params.get('EMAIL', '')}".lower()]
    return {
        "status": str(own.params.get("PARTSTAT", "NEEDS-ACTION")).upper(),
        "guests": len(attendees),
        "start": event["DTSTART"].dt,
        "end": event["DTEND"].dt,
        "free": str(event.get("TRANSP", "OPAQUE")).upper(),
        "title": str(event["SUMMARY"]),
        "alarms": [alarm["TRIGGER"].dt for alarm in event.walk("VALARM")],
    }


@pytest.fixture
def decide(calendar_session: CalendarSession, server: Any) -> Callable[[], Any]:
    return lambda: calendar_session("decide", server.address, *ME, "--json", answers="Group meeting\n").json


INVITATIONS = {"google": GOOGLE, "outlook": OUTLOOK, "apple": APPLE}
STATUSES, FORMS = ("NEEDS-ACTION", "ACCEPTED", "TENTATIVE"), (same, written_anew, without_unknown)
# Each invitation with each form and each status, and each form with each status.
PAIRS = [
    pytest.param(invitation, FORMS[form], STATUSES[(row + form) % 3], id=f"{name}-{FORMS[form].__name__}")
    for row, (name, invitation) in enumerate(INVITATIONS.items())
    for form in range(3)
]


@pytest.mark.parametrize(("invitation", "serialised", "status"), PAIRS)
def test_the_own_status_is_what_it_was(
    decide: Callable[[], Any],
    calendar_session: CalendarSession,
    server: Any,
    invitation: str,
    serialised: Callable[[str], str],
    status: str,
) -> None:
    server.written = serialised
    server.put("group", GROUP)
    place = server.put("invited", invitation.format(status=status))
    before = said(server.events[place])

    assert decide()["declined"] == 1
    declined = said(server.events[place])
    undone = calendar_session("undo", "--json").json

    assert (declined["status"], declined["free"]) == ("DECLINED", "TRANSPARENT")
    assert said(server.events[place]) == before
    assert len(undone["restored"]) == 1


@pytest.mark.parametrize(
    ("invitation", "serialised"), [(GOOGLE, written_anew), (OUTLOOK, without_unknown), (APPLE, same)]
)
def test_what_somebody_else_changed_stays_and_the_status_comes_back(
    decide: Callable[[], Any],
    calendar_session: CalendarSession,
    server: Any,
    invitation: str,
    serialised: Callable[[str], str],
) -> None:
    server.written = serialised
    server.put("group", GROUP)
    place = server.put("invited", invitation.format(status="ACCEPTED"))
    decide()
    text = server.events[place].replace("Review with Acme", "Review with Acme and Mia")
    server.save(place, text.replace("END:VEVENT", "ATTENDEE:mailto:mia@acme.example\r\nEND:VEVENT"))
    guests = said(server.events[place])["guests"]

    undone = calendar_session("undo", "--json").json

    after = said(server.events[place])
    assert (after["status"], after["free"]) == ("ACCEPTED", "OPAQUE")
    assert (after["title"], after["guests"]) == ("Review with Acme and Mia", guests)
    assert len(undone["restored"]) == 1
    assert "X-AGENTFW" not in server.events[place]


def test_who_has_accepted_elsewhere_since_keeps_that_and_is_told(
    decide: Callable[[], Any], calendar_session: CalendarSession, server: Any
) -> None:
    server.put("group", GROUP)
    place = server.put("invited", GOOGLE.format(status="NEEDS-ACTION"))
    decide()
    server.save(place, server.events[place].replace("PARTSTAT=DECLINED", "PARTSTAT=ACCEPTED"))

    undone = calendar_session("undo", "--json").json

    assert said(server.events[place])["status"] == "ACCEPTED"
    assert (undone["restored"], len(undone["gone"])) == ([], 1)


def test_a_server_that_keeps_the_refusal_is_not_said_to_have_restored_it(
    decide: Callable[[], Any], calendar_session: CalendarSession, server: Any
) -> None:
    server.put("group", GROUP)
    place = server.put("invited", GOOGLE.format(status="ACCEPTED"))
    decide()
    server.written = lambda text: text.replace("PARTSTAT=ACCEPTED;RSVP", "PARTSTAT=DECLINED;RSVP")

    undone = calendar_session("undo", "--json").json

    assert said(server.events[place])["status"] == "DECLINED"
    assert (undone["restored"], len(undone["failed"])) == ([], 1)
