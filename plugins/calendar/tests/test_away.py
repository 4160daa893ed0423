"""Leave, travel and illness clash with meetings; a birthday doesn't."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from agentfw_calendar.answers import AnswersGiven
from agentfw_calendar.person_file import PersonFile
from agentfw_calendar.session import Session, Wishes
from agentfw_calendar.sources import FileSource
from agentfw_plugins.worlds.calendar.policies import LinearPolicy

IcsFile = Callable[..., Path]

BOARD = """UID:board
DTSTART;TZID=Europe/Berlin:20261125T100000
DURATION:PT1H
SUMMARY:Board meeting
LOCATION:Vienna office
ATTENDEE:mailto:bob@lab.example
ATTENDEE:mailto:ana@lab.example"""


def all_day(title: str, *lines: str) -> str:
    return "\n".join(
        ["UID:away", "DTSTART;VALUE=DATE:20261123", "DTEND;VALUE=DATE:20261128", f"SUMMARY:{title}", *lines]
    )


def played(path: Path, tmp_path: Path, answers: str, since: date = date(2026, 11, 23)) -> Session:
    session = Session.open([FileSource(path)], Wishes(since=since))
    with PersonFile(tmp_path / "hub.db", session.person) as known:
        asyncio.run(session.play(LinearPolicy(), AnswersGiven(answers, "test"), known))
        session.write(known)
    return session


@pytest.mark.parametrize(
    "event",
    [
        all_day("Vacation in Spain", "TRANSP:TRANSPARENT"),
        all_day("Annual leave"),
        all_day("Urlaub"),
        all_day("krank"),
        all_day("Dienstreise Hamburg"),
        all_day("Arrêt maladie"),
        all_day("Congés"),
        all_day("Vacaciones"),
        all_day("Viaje a Madrid"),
        all_day("Lake house", "X-MICROSOFT-CDO-BUSYSTATUS:OOF"),
        all_day("Lake house", "X-GOOGLE-EVENT-TYPE:outOfOffice"),
        all_day("Lake house", "CATEGORIES:Out of office"),
        all_day("Fair", "X-MICROSOFT-CDO-BUSYSTATUS:BUSY"),
    ],
)
def test_who_is_away_is_asked_about_meetings_and_the_leave_is_never_declined(
    ics_file: IcsFile, tmp_path: Path, event: str
) -> None:
    path = ics_file(BOARD, event)

    attended = played(path, tmp_path, "Board meeting\n")
    again = played(path, tmp_path, "")

    assert [outcome.declined for outcome in attended.outcomes] == [()]
    assert [outcome.known for outcome in again.outcomes] == [True]
    assert not path.with_name("my.decided.ics").exists()


def test_a_meeting_is_declined_for_the_sake_of_leave(ics_file: IcsFile, tmp_path: Path) -> None:
    # Nothing is proposed for what is past, so this week lies far ahead; its weekdays are those of 2026.
    events = [event.replace("202611", "209311") for event in (BOARD, all_day("Leave", "TRANSP:TRANSPARENT"))]

    session = played(ics_file(*events), tmp_path, "a\n", since=date(2093, 11, 23))

    (outcome,) = session.outcomes
    assert [one.entry.title for one in outcome.declined] == ["Board meeting"]
    assert outcome.question.proposed == "A", "leave can't be moved"
    (moved,) = session.other_times()
    assert moved["to"][:10] > "2093-11-27"


URGENT = """UID:urgent
DTSTART;TZID=Europe/Berlin:20261124T100000
DURATION:PT1H
SUMMARY:URGENT: contract with Acme, due today
ATTENDEE:mailto:eve@acme.example
ATTENDEE:mailto:ana@lab.example"""


@pytest.mark.parametrize("title", ["Annual leave", "krank", "Viaje a Madrid"])
def test_being_away_is_proposed_until_somebody_has_gone_to_work_in_spite_of_it(
    ics_file: IcsFile, tmp_path: Path, title: str
) -> None:
    events = [URGENT.replace("urgent", f"urgent-{day}").replace("20261124", f"202611{day}") for day in (24, 25, 26)]

    session = played(ics_file(*events, all_day(title)), tmp_path, "a\nb\nb\n")

    reasons = [outcome.question.reason == "you are away then" for outcome in session.outcomes]
    assert [outcome.question.proposed for outcome in session.outcomes][:2] == ["A", "A"]
    assert reasons == [True, True, False], "from then on, the policy proposes"


def test_a_doctor_can_be_seen_on_leave(ics_file: IcsFile, tmp_path: Path) -> None:
    session = played(ics_file(BOARD.replace("Board meeting", "Dentist"), all_day("Annual leave")), tmp_path, "\n")

    assert [outcome.question.proposed for outcome in session.outcomes] == ["B"]


@pytest.mark.parametrize(
    "event",
    [
        all_day("Grandma's birthday"),
        all_day("Geburtstag Oma", "X-MICROSOFT-CDO-BUSYSTATUS:BUSY"),
        all_day("Bank holiday", "CATEGORIES:Holiday"),
        all_day("Bob: vacation"),
        all_day("Leave", "STATUS:CANCELLED"),
        all_day("Trip to Vienna"),
    ],
)
def test_what_is_no_absence_or_is_what_the_trip_is_for_clashes_with_nothing(
    ics_file: IcsFile, tmp_path: Path, event: str
) -> None:
    assert played(ics_file(BOARD, event), tmp_path, "").agenda.next() is None
