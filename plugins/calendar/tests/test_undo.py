"""What was decided holds for the whole series where the person says so, and can be taken back."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from agentfw_calendar.deciding.person_file import PersonFile
from agentfw_calendar.ics.ics_lines import FileLines
from agentfw_calendar.ics.ics_marking import DECLINED, Mark, unmarked

from .events import Calendar, IcsFile, event

# In the far future, because nothing is proposed for what is past.
WEEKLY, JOE = "RRULE:FREQ=WEEKLY", ("ORGANIZER;CN=Joe:mailto:joe@acme.example", "ATTENDEE:mailto:ana@lab.example")
STANDUP = event("standup", "20991104T0900", "Standup", WEEKLY)
CLIENT = event("client", "20991104T0930", "Call with Acme", WEEKLY, *JOE)


def moved(event: str, day: int, line: str) -> str:
    date = f"TZID=Europe/Berlin:2099{day}T"
    return f"UID:{event}\nRECURRENCE-ID;{date}093000\nDTSTART;{date}{line}"


@pytest.fixture
def decide(calendar: Calendar) -> Calendar:
    """Run a session over weeks of November 2099 with these answers, and return its record."""

    def call(path: Path, answers: str, first: str = "2099-11-02", days: int = 14, code: int = 0, *words: str) -> Any:
        return calendar("decide", path, "--days", days, *words, answers=answers, since=first, code=code)

    return call


@pytest.mark.parametrize("answer", ["b, this series", "b always: they pay", "b toujours"])
def test_a_decision_for_a_series_holds_in_later_weeks_too(decide: Calendar, ics_file: IcsFile, answer: str) -> None:
    path = ics_file(STANDUP, CLIENT)

    first = decide(path, f"{answer}\n")
    later = decide(path, "", "2099-11-16")

    assert [one["kept"] for one in first["conflicts"]] == ["B", "B"]
    assert [one["decided_before"] for one in later["conflicts"]] == [True, True]
    assert Path(later["outputs"][0]).read_text().count(DECLINED) == 4
    assert [one["kept"] for one in decide(path, "a series\n", "2099-11-02", 14, 0, "--anew")["conflicts"]] == ["A", "A"]


def test_keep_both_declines_nothing_and_is_not_asked_again(decide: Calendar, ics_file: IcsFile) -> None:
    path = ics_file(STANDUP, CLIENT)

    decide(path, "both\nboth series\n")
    later = decide(path, "", days=28)

    assert [(one["kept"], one["both"], one["decided_before"]) for one in later["conflicts"]] == [("", True, True)] * 4
    assert later["declined"] == 0


def test_a_date_unlike_the_others_is_asked_about_and_replaces_no_decision(decide: Calendar, ics_file: IcsFile) -> None:
    decide(ics_file(STANDUP, CLIENT), "b always\n")
    retitled = moved("client", 1118, "093000\nDURATION:PT1H\nSUMMARY:Crisis call with Acme")
    later = moved("client", 1125, "091500\nDURATION:PT1H\nSUMMARY:Call with Acme")
    longer = moved("client", 1202, "\n".join(("093000\nDURATION:PT2H\nSUMMARY:Call with Acme", *JOE)))

    answer = decide(ics_file(STANDUP, CLIENT, retitled, later, longer), "a always\ns\ns\n", "2099-11-16", 21)
    others = decide(ics_file(STANDUP, CLIENT), "", "2099-12-07", 7)

    assert [(one["decided_before"], one["kept"]) for one in others["conflicts"]] == [(True, "B")]
    assert [one["decided_before"] for one in answer["conflicts"]] == [False] * 3
    changed = [words for one in answer["conflicts"] for words in one["changed"]]
    assert '"Call with Acme" is now called "Crisis call with Acme"' in changed
    assert "Call with Acme is on Wed 25 November, 09:15, unlike the date that you decided about" in changed


def test_always_holds_for_new_events_of_the_same_titles_and_not_for_others(decide: Calendar, ics_file: IcsFile) -> None:
    single = [one.replace("\nRRULE:FREQ=WEEKLY", "") for one in (STANDUP, CLIENT)]
    next_week = [one.replace("UID:", "UID:new-").replace("20991104", "20991111") for one in single]
    other = next_week[1].replace("joe@acme", "mia@acme")
    twins = [event(uid, "20991103T0900", "Review") for uid in ("x", "y")]
    decide(ics_file(*single, *twins), "a always\nb always\n")

    alike = decide(ics_file(*(one.replace("UID:", "UID:new-").replace("1103T", "1110T") for one in twins)), "")
    same = decide(ics_file(*next_week), "")
    different = decide(ics_file(next_week[0], other), "")

    assert [one["decided_before"] for one in same["conflicts"]] == [True]
    assert alike["conflicts"] == different["conflicts"] == [], "asked, and nobody answers"


def test_one_draft_for_a_series_and_none_in_later_sessions_or_for_the_past(decide: Calendar, ics_file: IcsFile) -> None:
    path = ics_file(STANDUP, CLIENT)
    first = decide(path, "a series\n")
    later = decide(path, "", "2099-11-16")

    past = [one.replace("\nRRULE:FREQ=WEEKLY", "").replace("2099", "2020") for one in (STANDUP, CLIENT)]
    long_ago = decide(ics_file(*past), "a\n", "2020-11-02")

    (draft,) = first["other_times"]
    assert draft["message"].count("Call with Acme") == 1
    assert len(draft["dates"]) == 2
    assert (later["declined"], later["other_times"]) == (2, [])
    assert (long_ago["declined"], long_ago["other_times"]) == (1, [])


def test_moving_the_series_asks_for_a_time_that_is_free_every_week(decide: Calendar, ics_file: IcsFile) -> None:
    busy, once = event("x", "20991111T1000", "Visit", length="PT2H"), STANDUP.replace("\nRRULE:FREQ=WEEKLY", "")

    for clash in (STANDUP, once):
        (draft,) = decide(ics_file(clash, CLIENT, busy), "a move\n", days=12)["other_times"]
        assert "Could we move the series to Wednesday, 4 November, 12:00" in draft["message"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [("b always on time", '"always" may be how far it holds'), ("b series", "none of these is part of a series")],
)
def test_what_is_unclear_is_asked_for_again(decide: Calendar, ics_file: IcsFile, answer: str, said: str) -> None:
    single = [one.replace("\nRRULE:FREQ=WEEKLY", "") for one in (STANDUP, CLIENT)]

    assert said in decide(ics_file(*single), f"{answer}\n", code=2)
    (reasoned, *_) = decide(ics_file(STANDUP, CLIENT), "b: series\n")["conflicts"]
    assert not reasoned["scope"], "behind a colon it is a reason"


def test_undoing_one_date_of_a_series_keeps_the_others(decide: Calendar, calendar: Calendar, ics_file: IcsFile) -> None:
    path = ics_file(STANDUP, CLIENT)
    decide(path, "b series\n")

    calendar("undo", "Standup", "--on", "2099-11-11")

    assert [one["decided_before"] for one in decide(path, "s\n", days=28)["conflicts"]] == [True, False, True, True]
    assert decide(path, "u\nq\n", days=28)["undone"] == ["Call with Acme"], "at first, the last answer of before"


# -- undo: the last session, one event, or everything; edits of others stay --------------------------------------------

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


LUNCH, WALK = event("", "20261201T1200", "Lunch"), event("", "20261201T1230", "Walk")
OLD, NEW = (event("call", "20261202T1000", "Call", f"SEQUENCE:{number}") for number in (0, 2))


@pytest.mark.parametrize("events", [(LUNCH, WALK, CALL, GROUP), (event("x", "20261202T0930", "Desk"), OLD, NEW)])
def test_events_without_ids_or_in_several_revisions_are_undone(
    calendar: Calendar, ics_file: IcsFile, events: tuple[str, ...]
) -> None:
    path = ics_file(*events)
    decided = Path(calendar("decide", path, "--days", "10", answers="a\n" * 2)["outputs"][0])

    undone = calendar("undo")

    assert (len(undone["restored"]), undone["gone"]) == (undone["decisions"], [])
    assert decided.read_bytes() == path.read_bytes()


def test_one_event_or_the_last_session_is_undone_and_others_are_not(calendar: Calendar, ics_file: IcsFile) -> None:
    path = ics_file(GROUP, CALL, DENTIST)
    decided = Path(calendar("decide", path, answers="a\nb\n")["outputs"][0])

    calendar("undo", "call with")
    assert decided.read_text().count(DECLINED) == 1
    assert calendar("decide", path)["conflicts"] == [], "the first is asked about, and nobody answers"
    assert calendar("undo", "--list")[0]["title"] == "Group meeting"

    assert calendar("decide", path, answers="a\n")["outputs"] == [str(decided)]
    undone = calendar("undo")
    assert [one["title"] for one in undone["restored"]] == ["Call with Acme"], "what the last session declined"
    assert decided.read_text().count(DECLINED) == 1


def test_two_people_who_share_a_file_decide_and_undo_each_for_themselves(
    calendar: Calendar, calendar_session: Calendar, ics_file: IcsFile
) -> None:
    ana, bob = ics_file(GROUP, CALL), ics_file(GROUP, CALL, head="X-WR-CALNAME:bob@lab.example", name="bob.ics")
    calendar("decide", ana, answers="a\n")

    (theirs,) = calendar("decide", bob, answers="b because of us\n")["conflicts"]
    unsure = calendar_session("undo")
    undone = calendar("undo", "--all", "--me", "bob@lab.example")
    (again,) = calendar("decide", ana)["conflicts"]

    assert (theirs["decided_before"], theirs["kept"]) == (False, "B")
    assert (unsure.code, "pass --me ana@lab.example" in unsure.err) == (2, True)
    assert ([one["title"] for one in undone["restored"]], undone["decisions"]) == (["Group meeting"], 1)
    assert (again["decided_before"], again["kept"]) == (True, "A")


def test_two_sessions_of_one_person_at_once_take_back_each_its_own(
    calendar: Calendar, ics_file: IcsFile, tmp_path: Path
) -> None:
    calendar("decide", ics_file(GROUP, CALL, DENTIST), answers="a\nb\n")
    hub, who = tmp_path / "hub.db", "ana@lab.example"
    with PersonFile(hub, who) as known:
        first, second = ({key: one[key] for key in ("keys", "events", "accepted")} for one in known.decisions)
        known.take_back([one["id"] for one in known.decisions])

    with PersonFile(hub, who) as here, PersonFile(hub, who) as there:
        here.note(first)
        there.note(second)
        here.undo()

    with PersonFile(hub, who, read_only=True) as known:
        assert [one["keys"] for one in known.decisions] == [second["keys"]]


def test_an_event_is_undone_by_its_whole_title_and_the_day_that_is_shown(
    calendar: Calendar, calendar_session: Calendar, ics_file: IcsFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    titles = {24: "Cinema", 25: "Cinema with Mia", 26: "Cinema"}
    late = [event(f"{name} {day}", f"202611{day}T0200Z", name) for day in titles for name in ("A choir", titles[day])]
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        calendar("decide", ics_file(*late, head=""), "--zone", "America/New_York", answers="a\na\na\n")
        listed, which = calendar_session("undo", "--list").out, calendar("undo", "cinema", code=2)
        undone = calendar("undo", "cinema", "--on", "2026-11-23")
    finally:
        monkeypatch.undo()
        time.tzset()

    assert "Mon 23 November 2026   Cinema" in listed
    assert '2 declined events are called "cinema": 2026-11-23 Cinema; 2026-11-25 Cinema' in which
    assert [one["start"][:13] for one in undone["restored"]] == ["2026-11-24T02"], "in UTC it is the next day"


def test_what_others_changed_stays_and_a_date_has_its_alarm_again(calendar: Calendar, ics_file: IcsFile) -> None:
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
    before = decided.read_bytes()
    calendar("decide", path, answers="b\n")
    decided.write_bytes(before)  # as if the second session had been killed just before it wrote
    assert calendar("decide", path)["outputs"] == [str(decided)]
    decided.write_bytes(decided.read_bytes() + b"\r\n")
    theirs = decided.read_bytes()

    (second,) = calendar("decide", path)["outputs"]

    assert decided.read_bytes() == theirs
    assert Path(second).name == "my.decided-2.ics"
    assert Path(second).read_text().count(DECLINED) == 2


@pytest.mark.parametrize(("title", "declined"), [("Acme", 2), ("Acme and the CEO", 1)])
def test_one_file_goes_on_with_earlier_weeks(calendar: Calendar, ics_file: IcsFile, title: str, declined: int) -> None:
    calendar("decide", ics_file(GROUP, CALL, DENTIST), "--days", "5", answers="a\n")
    path = ics_file(GROUP, CALL.replace("Acme", title), DENTIST)

    (written,) = calendar("decide", path, answers="b\n", since="2026-11-28")["outputs"]

    assert Path(written).name == "my.decided.ics"
    assert Path(written).read_text().count(DECLINED) == declined


@pytest.mark.parametrize("uid", ["call", "call\\, of Acme", ""])
def test_marks_stay_in_another_zone_and_without_the_other_calendar(
    calendar: Calendar, ics_file: IcsFile, uid: str
) -> None:
    both = ics_file(CALL.replace("UID:call", f"UID:{uid}"), DENTIST, event("lunch", "20261130T1045", "Lunch"))
    other = ics_file(GROUP.replace("RRULE:FREQ=WEEKLY\n", ""), name="other.ics")
    calendar("decide", both, other, "--days", "5", answers="a\n")

    calendar("decide", both, other, "--zone", "Asia/Tokyo", answers="a\n")
    for _ in range(2):
        calendar("decide", both, "--zone", "Asia/Tokyo", since="2026-11-28")
    decided = both.with_name("my.decided.ics")
    assert decided.read_text().count(DECLINED) == 2

    assert [one["title"] for one in calendar("undo")["restored"]] == ["Lunch"], "what was decided before stays"
    assert decided.read_text().count(DECLINED) == 1


def test_a_mark_that_somebody_else_removed_is_not_undone_again() -> None:
    now = f"BEGIN:VEVENT\r\nUID:a\r\n{DECLINED}:TRUE\r\nEND:VEVENT"
    mark = Mark("a", "BEGIN:VEVENT\r\nUID:a\r\nEND:VEVENT", now)
    data = b"BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:a\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"

    assert unmarked(FileLines(data), [mark], "ana@lab.example") == (data, [])
