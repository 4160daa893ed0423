"""What was decided can be taken back: the last session, one event, or everything. Edits of others stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentfw_calendar.ics.ics_lines import FileLines
from agentfw_calendar.ics.ics_marking import DECLINED, Mark, unmarked

from .events import Calendar, IcsFile, event

GROUP = """UID:group
DTSTART;TZID=Europe/Berlin:20261123T100000
DTEND;TZID=Europe/Berlin:20261123T110000
RRULE:FREQ=WEEKLY
SUMMARY:Group meeting
X-MICROSOFT-CDO-BUSYSTATUS:BUSY
ATTENDEE;PARTSTAT=ACCEPTED:mailto:ana@lab.example
BEGIN:VALARM
ACTION:DISPLAY
TRIGGER:-PT15M
END:VALARM"""
MORE = ("TRANSP:OPAQUE", "SEQUENCE:4", "X-SOMETHING:of another program")
ANA = "ATTENDEE;PARTSTAT=NEEDS-ACTION;CN=Ana:mailto:ana@lab.example"
CALL = event("call", "20261123T0930Z", "Call with Acme", *MORE, ANA)
DENTIST = event("dentist", "20261130T1030", "Dentist")


def test_undo_restores_the_file_byte_for_byte_and_asks_again(calendar: Calendar, ics_file: IcsFile) -> None:
    path = ics_file(GROUP, CALL, DENTIST)
    decided = Path(calendar("decide", path, answers="a\nb\n")["outputs"][0])
    assert decided.read_bytes() != path.read_bytes()

    undone = calendar("undo")
    again = calendar("decide", path, answers="a\n")

    assert [one["title"] for one in undone["restored"]] == ["Call with Acme", "Group meeting"]
    assert undone["decisions"] == 2
    assert [one["decided_before"] for one in again["conflicts"]] == [False]
    calendar("undo", "--all")
    assert decided.read_bytes() == path.read_bytes()


def test_an_event_right_behind_a_series_is_restored_by_itself(calendar: Calendar, ics_file: IcsFile) -> None:
    # The declined date of the group is written between the two.
    path = ics_file(GROUP, CALL, event("lunch", "20261123T0945Z", "Lunch"))
    decided = Path(calendar("decide", path, answers="Lunch\n")["outputs"][0])
    assert decided.read_text().count(DECLINED) == 2

    calendar("undo", "--all")

    assert decided.read_bytes() == path.read_bytes()


def test_one_event_or_the_last_session_is_undone_and_others_are_not(calendar: Calendar, ics_file: IcsFile) -> None:
    path = ics_file(GROUP, CALL, DENTIST)
    decided = Path(calendar("decide", path, answers="a\nb\n")["outputs"][0])

    calendar("undo", "call with")
    assert decided.read_text().count(DECLINED) == 1
    assert calendar("decide", path)["conflicts"] == [], "the first is asked about, and nobody answers"
    assert calendar("undo", "--list")[0]["title"] == "Group meeting"

    calendar("decide", path, answers="a\n")
    undone = calendar("undo")
    assert [one["title"] for one in undone["restored"]] == ["Call with Acme"], "what the last session declined"
    assert decided.read_text().count(DECLINED) == 1


def test_what_others_changed_in_the_new_file_stays_and_a_date_of_a_series_has_its_alarm_again(
    calendar: Calendar, ics_file: IcsFile
) -> None:
    path = ics_file(GROUP, CALL, DENTIST)
    decided = Path(calendar("decide", path, answers="a\nb\n")["outputs"][0])
    text = decided.read_text().replace("SUMMARY:Call with Acme", "SUMMARY:Call with Acme and Mia")
    decided.write_bytes(text.replace("RECURRENCE-ID", "LOCATION:Room 9\nRECURRENCE-ID").replace("\n", "\r\n").encode())

    calendar("undo")

    old, new = path.read_bytes().splitlines(), decided.read_bytes().splitlines()
    assert b"SUMMARY:Call with Acme and Mia" in new
    assert {line for line in old if line not in new} == {b"SUMMARY:Call with Acme", b"SEQUENCE:4"}
    assert not [line for line in new if b"DECLINED" in line or b"TRANSPARENT" in line]
    (date,) = [one for one in FileLines(decided.read_bytes()).blocks("VEVENT") if one.lines_of("RECURRENCE-ID")]
    assert (date.first_text("LOCATION"), date.first_text("TRANSP")) == ("Room 9", "")
    assert [alarm.first_text("TRIGGER") for alarm in date.inner] == ["-PT15M"]


def test_a_file_that_another_program_changed_is_not_overwritten(calendar: Calendar, ics_file: IcsFile) -> None:
    path = ics_file(GROUP, CALL, DENTIST)
    decided = Path(calendar("decide", path, answers="a\n")["outputs"][0])
    decided.write_bytes(decided.read_bytes() + b"\r\n")
    theirs = decided.read_bytes()

    (second,) = calendar("decide", path, answers="b\n")["outputs"]

    assert decided.read_bytes() == theirs
    assert Path(second).name == "my.decided-2.ics"
    assert Path(second).read_text().count(DECLINED) == 2


@pytest.mark.parametrize(("title", "declined"), [("Acme", 2), ("Acme and the CEO", 1)])
def test_one_file_goes_on_with_those_of_earlier_weeks_whose_conflict_is_still_there(
    calendar: Calendar, ics_file: IcsFile, title: str, declined: int
) -> None:
    calendar("decide", ics_file(GROUP, CALL, DENTIST), "--days", "5", answers="a\n")
    path = ics_file(GROUP, CALL.replace("Acme", title), DENTIST)

    (written,) = calendar("decide", path, answers="b\n", since="2026-11-28")["outputs"]

    assert Path(written).name == "my.decided.ics"
    assert Path(written).read_text().count(DECLINED) == declined


def test_a_mark_that_somebody_else_removed_is_not_undone_again() -> None:
    now = f"BEGIN:VEVENT\r\nUID:a\r\n{DECLINED}:TRUE\r\nEND:VEVENT"
    mark = Mark("a", "BEGIN:VEVENT\r\nUID:a\r\nEND:VEVENT", now)
    data = b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:a\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"

    assert unmarked(FileLines(data), [mark], "ana@lab.example") == (data, [])
