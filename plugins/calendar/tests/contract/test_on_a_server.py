"""On servers that write events in their own way: undo gives back what was, and what isn't taken is told as that."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import icalendar
import pytest

from agentfw.errors import EndpointError
from agentfw_calendar.ics.caldav_source import CalDavSource, calendars_at

from ..events import Calendar, event

MAIL, DECLINED = "ana@lab.example", "X-AGENTFW-DECLINED"
GOOGLE = """UID:invited@google.com
DTSTAMP:20260101T000000Z
DTSTART:20261123T093000Z
DTEND:20261123T103000Z
SUMMARY:Review with Acme
ORGANIZER;CN=eve@acme.example:mailto:eve@acme.example
ATTENDEE;CUTYPE=INDIVIDUAL;ROLE=REQ-PARTICIPANT;PARTSTAT={status};CN=eve@acme.example;X-NUM-GUESTS=0:mailto:eve@acme.example
ATTENDEE;CUTYPE=INDIVIDUAL;ROLE=REQ-PARTICIPANT;PARTSTAT={status};RSVP=TRUE;CN=ana@lab.example;X-NUM-GUESTS=0:mailto:ana@lab.example
SEQUENCE:0
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
SEQUENCE:0
TRANSP:OPAQUE
X-MICROSOFT-CDO-BUSYSTATUS:BUSY
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
SEQUENCE:1
TRANSP:OPAQUE
X-APPLE-TRAVEL-ADVISORY-BEHAVIOR:AUTOMATIC"""
OWN = ("DTSTAMP:20260101T000000Z", "X-OF-ANOTHER:kept", f"ATTENDEE:mailto:{MAIL}")
GROUP = event("group", "20261123T0900Z", "Group meeting", *OWN, "DESCRIPTION:Grüße\\, of another program")
CALL = event("call", "20261123T0930Z", "Call with Acme", *OWN, "ORGANIZER:mailto:eve@acme.example")


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
        lines.append("\r\n ".join(re.findall(".{1,40}", f"{head}{colon}{value}")))
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
        "times": (event["DTSTART"].dt, event["DTEND"].dt),
        "free": str(event.get("TRANSP", "OPAQUE")).upper(),
        "title": str(event["SUMMARY"]),
        "alarms": [alarm["TRIGGER"].dt for alarm in event.walk("VALARM")],
    }


@pytest.fixture
def command(calendar_session: Calendar, server: Any) -> Calendar:
    """`agentfw calendar decide` of this server, or another of the commands."""

    def call(word: str, *words: str, **more: Any) -> Any:
        place = (server.address, "--me", MAIL, "--zone", "Europe/Berlin") if word != "undo" else ()
        return calendar_session(word, *place, *words, "--json", **more)

    return call


def marked(server: Any) -> list[str]:
    return [place for place, text in server.events.items() if DECLINED in text]


INVITATIONS = {"google": GOOGLE, "outlook": OUTLOOK, "apple": APPLE}
STATUSES, FORMS = ("NEEDS-ACTION", "ACCEPTED", "TENTATIVE"), (same, written_anew, without_unknown)
# Each invitation with two forms and two statuses, each form with two invitations.
PAIRS = [
    pytest.param(invitation, FORMS[form], STATUSES[(row + form) % 3], id=f"{name}-{FORMS[form].__name__}")
    for row, (name, invitation) in enumerate(INVITATIONS.items())
    for form in (row, (row + 1) % 3)
]


@pytest.mark.parametrize(("invitation", "serialised", "status"), PAIRS)
def test_the_own_status_is_what_it_was_also_beside_what_somebody_else_changed(
    command: Calendar, server: Any, invitation: str, serialised: Callable[[str], str], status: str
) -> None:
    server.written = serialised
    server.put("group", GROUP)
    place = server.put("invited", invitation.format(status=status))
    before = said(server.events[place])

    assert command("decide", answers="Group meeting\n").json["declined"] == 1
    declined = said(server.events[place])
    assert len(command("undo").json["restored"]) == 1

    assert (declined["status"], declined["free"]) == ("DECLINED", "TRANSPARENT")
    assert said(server.events[place]) == before

    command("decide", answers="Group meeting\n")
    text = server.events[place].replace("Review with Acme", "Review with Acme and Mia")
    server.save(place, text.replace("END:VEVENT", "ATTENDEE:mailto:mia@acme.example\r\nEND:VEVENT"))
    changed = {name: said(server.events[place])[name] for name in ("title", "guests")}

    assert len(command("undo").json["restored"]) == 1
    after = said(server.events[place])
    assert (after["status"], after["free"]) == (status, "OPAQUE")
    assert {name: after[name] for name in changed} == changed
    assert "X-AGENTFW" not in server.events[place]


@pytest.mark.parametrize(("told", "status"), [("gone", "ACCEPTED"), ("failed", "DECLINED"), ("gone", "")])
def test_what_was_accepted_elsewhere_or_stays_declined_is_not_said_to_be_restored(
    command: Calendar, server: Any, told: str, status: str
) -> None:
    server.put("group", GROUP)
    place = server.put("invited", GOOGLE.format(status="NEEDS-ACTION" if told == "gone" else "ACCEPTED"))
    command("decide", answers="Group meeting\n")
    if not status:
        del server.events[place]
    elif told == "gone":
        server.save(place, server.events[place].replace("PARTSTAT=DECLINED", "PARTSTAT=ACCEPTED"))
    else:
        server.written = lambda text: text.replace("PARTSTAT=ACCEPTED;RSVP", "PARTSTAT=DECLINED;RSVP")

    undone = command("undo").json

    assert not status or said(server.events[place])["status"] == status
    assert (undone["restored"], len(undone[told])) == ([], 1)


@pytest.mark.parametrize("status", [404, 412, 507])
def test_a_kept_mark_is_undone_later(command: Calendar, calendar_session: Calendar, server: Any, status: int) -> None:
    for name, text in (("group", GROUP), ("call", CALL)):
        server.put(name, text)
    before = dict(server.events)
    command("decide", answers="a\n")

    server.refuses = status
    told, refused = calendar_session("undo"), command("undo")
    kept = marked(server)
    server.refuses = 0
    again = command("undo").json

    assert "restored" not in told.out.lower()
    if status == 507:
        assert refused.code == told.code == 1, "the server forbids it"
    else:
        assert "again" in (told.out + told.err).lower()
        assert (refused.json["restored"], len(refused.json["failed"])) == ([], 1)
        assert refused.json["decisions"] == 0, "the decision stands as long as its mark does"
    assert len(kept) == 1
    assert [row["title"] for row in again["restored"]] == ["Call with Acme"]
    assert again["decisions"] == 1
    assert server.events == before


def test_what_the_server_does_not_take_is_not_said_to_be_declined(command: Calendar, server: Any) -> None:
    for name, text in (("group", GROUP), ("call", CALL)):
        server.put(name, text)
        server.put(f"next-{name}", text.replace("UID:", "UID:next-").replace("20261123", "20261124"))
    before = dict(server.events)
    server.refuses = 409

    decided = command("decide", answers="a\na\n")
    listed = command("undo", "--list")
    server.refuses = 0
    again = command("list").json

    assert [text.rpartition(" to ")[0] for text in decided.json["outputs"]] == ["2 not written"]
    assert server.events == before
    assert listed.json == []
    assert len(again["conflicts"]) == 2


def test_a_password_is_not_sent_to_another_host_that_an_account_names(server: Any) -> None:
    account = CalDavSource(server.address.removesuffix("ana/work/"))
    assert [one.address for one in calendars_at(account)] == [server.address]

    server.home = server.home.replace("127.0.0.1", "localhost")
    with pytest.raises(EndpointError, match="there is no calendar at"):
        calendars_at(account)


def test_what_somebody_else_changed_at_that_moment_stays(command: Calendar, server: Any) -> None:
    places = [server.put(name, text) for name, text in (("group", GROUP), ("call", CALL))]

    def edit(place: str) -> None:
        server.before_write = lambda place: None
        for one in places:
            server.save(one, server.events[one].replace("SUMMARY:", "SUMMARY:Edited "))

    server.before_write = edit
    decided = command("decide", answers="a\n")

    assert [text.partition(" to ")[0] for text in decided.json["outputs"]] == ["1 not written"]
    assert marked(server) == []
    assert all("SUMMARY:Edited " in text for text in server.events.values())
