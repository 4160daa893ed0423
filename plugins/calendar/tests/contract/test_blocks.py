"""Flexible blocks: placed in free time, moved when something comes up, not placed again once they were deleted."""

from __future__ import annotations

import re
import stat
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import icalendar
import pytest

from ..events import Calendar, IcsFile

FOCUS = '[[block]]\ntitle = "Focus"\nminutes = 90\nhours = "09:00-12:00"\n'
RUN = '[[block]]\ntitle = "Run"\nminutes = 45\ntimes = 3\nhours = "17:00-20:00"\n'
TAX = '[[block]]\ntitle = "Tax return"\nminutes = 120\nuntil = 2026-11-25\n'


def event(uid: str, day: int, clock: str, hours: int = 1) -> str:
    start = f"UID:{uid}\nDTSTART;TZID=Europe/Berlin:202611{day}T{clock}00"
    return f"{start}\nDURATION:PT{hours}H\nSUMMARY:{uid}\nX-WR-TIMEZONE:Europe/Berlin"


def spans(found: Any) -> list[tuple[str, str, str]]:
    """(title, begin, end) of what a run changed."""
    return [(one["title"], one["now"][0][:16], one["now"][1][:16]) for one in found["changes"] if one["now"]]


@pytest.fixture
def blocks(calendar_session: Calendar, tmp_path: Path) -> Calendar:
    """Call `agentfw calendar blocks` for one week with these blocks in the person's file."""

    def call(calendar: object, wanted: str, *words: str, answers: str | None = None) -> Any:
        (tmp_path / "me.toml").write_text(f"\ufeff{wanted}", "utf-8")  # as editors of Windows write it
        given = ("--people", "me.toml", "--me", "ana@lab.example", "--zone", "Europe/Berlin", "--weeks", "1")
        agreed = () if answers is not None or "--history" in words else ("--yes",)
        return calendar_session("blocks", calendar, *given, *words, *agreed, "--json", answers=answers).json

    return call


@pytest.fixture
def path(ics_file: IcsFile) -> Path:
    """A calendar with one event, on Friday morning."""
    return ics_file(event("Review", 27, "0900"))


def events_of(text: str) -> list[Any]:
    return list(icalendar.Calendar.from_ical(text).walk("VEVENT"))


def in_file(path: Path) -> list[tuple[str, str]]:
    events = events_of(path.with_suffix(".blocks.ics").read_text())
    return [(str(one["SUMMARY"]), f"{one['DTSTART'].dt:%d %H:%M}") for one in events]


def test_blocks_are_in_free_time_on_days_of_their_own_beside_the_calendar(blocks: Calendar, ics_file: IcsFile) -> None:
    path = ics_file(event("Review", 23, "0900", 2), event("Talk", 24, "1700", 2) + "\nLOCATION:Ulm")
    before = path.read_bytes()

    placed = spans(blocks(path, FOCUS + RUN + 'place = "Park"\n' + TAX))

    assert path.read_bytes() == before
    assert sorted(title for title, _, _ in placed) == ["Focus", "Run", "Run", "Run", "Tax return"]
    taken = [("2026-11-23T09:00", "2026-11-23T11:00"), ("2026-11-24T17:00", "2026-11-24T19:00")]
    taken += [(begin, end) for _, begin, end in placed]
    assert all(one[1] <= other[0] or other[1] <= one[0] for one in taken for other in taken if one != other)
    runs = [begin for title, begin, _ in placed if title == "Run"]
    assert len({begin[:10] for begin in runs} - {"2026-11-24"}) == 3, "from Ulm to the park it takes a while"
    assert all("17:00" <= begin[11:] <= "19:15" for begin in runs)
    assert all(end <= "2026-11-26" for title, _, end in placed if title == "Tax return")
    files = [path.with_suffix(".blocks.ics"), *path.parent.glob("hub.db*")]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    bob = ics_file(event("Review", 27, "0900"), name="bob.ics")
    theirs = blocks(bob, RUN, "--me", "bob@lab.example")
    assert [one["was"] for one in theirs["changes"]] == [None] * 3, "another's blocks are none of theirs"
    assert [len(run["changes"]) for run in blocks(path, RUN, "--history")] == [5]


def test_what_was_declined_or_somebody_else_goes_to_leaves_room_and_a_holiday_or_what_is_past_does_not(
    blocks: Calendar, calendar: Calendar, ics_file: IcsFile
) -> None:
    off = "UID:{0}\nDTSTART;VALUE=DATE:202611{0}\nSUMMARY:Bank holiday\nCATEGORIES:Holiday\nTRANSP:TRANSPARENT"
    children = [event("Lily swimming", 24, "0900", 3), event("Tom football", 24, "1130")]
    children = [f"{child}\nRRULE:FREQ=WEEKLY" for child in children]
    talk, visit, review = event("Talk", 25, "0900", 4), event("Visit", 25, "1200"), event("Review", 27, "0900", 8)
    path = ics_file(*(week := [off.format(23), *children, talk, visit, review]))
    calendar("decide", path, "--me", "ana@lab.example", answers="n\nVisit\n")
    thrice = FOCUS.replace("90", "60") + "times = 3\n"

    placed = blocks(path, thrice)
    ics_file(*week, off.format(26))
    moved = blocks(path, thrice)

    assert [begin for _, begin, _ in spans(placed)] == [f"2026-11-{day}T09:00" for day in (24, 25, 26)]
    assert [(one["now"], one["why"]) for one in moved["changes"]] == [(None, "a day off")]
    late = blocks(path, FOCUS.replace("Focus", "Walk").replace("09:00-12:00", "13:00-15:00"), "--from", "2026-11-27")
    assert not spans(late), "the rest of the week is past"


def test_only_what_an_appointment_displaces_moves_and_says_why(blocks: Calendar, ics_file: IcsFile, path: Path) -> None:
    (focus,) = [one for one in spans(blocks(path, FOCUS + RUN)) if one[0] == "Focus"]
    imported = re.findall(r"BEGIN:VEVENT\n(.*?)\nEND:VEVENT", path.with_suffix(".blocks.ics").read_text(), re.S)
    audit = event("Audit", int(focus[1][8:10]), focus[1][11:16].replace(":", ""))
    ics_file(event("Review", 27, "0900"), audit, *imported)

    again = blocks(path, FOCUS + RUN)

    (change,) = again["changes"]
    assert (change["title"], change["was"][0][:16], change["why"]) == ("Focus", focus[1], '"Audit" is there')
    assert change["now"][0][:10] == focus[1][:10], "on the same day, as there is room"
    later = blocks(path, FOCUS + RUN)
    assert (later["changes"], later["missing"]) == ([], []), "an old copy in the calendar is no move"
    ((_, begin, end),) = spans(blocks(path, FOCUS.replace("90", "75") + RUN))
    assert datetime.fromisoformat(end) - datetime.fromisoformat(begin) == timedelta(minutes=75)
    assert [(one["title"], one["now"]) for one in blocks(path, RUN)["changes"]] == [("Focus", None)]


def test_a_task_takes_the_time_of_a_weekly_block_and_is_never_late_unsaid(blocks: Calendar, ics_file: IcsFile) -> None:
    busy = [event(f"Busy {day}", day, "1200", 5) for day in (23, 24, 25)]
    busy += [event(f"Early {day}", day, "0900", 3) for day in (23, 24)]
    path = ics_file(*busy)
    wednesday = FOCUS + 'days = ["WE", "FR"]\n'
    assert spans(blocks(path, wednesday)) == [("Focus", "2026-11-25T09:00", "2026-11-25T10:30")]

    urgent = blocks(path, wednesday + TAX)
    ics_file(*busy, event("Early 25", 25, "0900", 3))
    late = blocks(path, wednesday + TAX)

    assert spans(urgent) == [
        ("Tax return", "2026-11-25T09:00", "2026-11-25T11:00"),
        ("Focus", "2026-11-27T09:00", "2026-11-27T10:30"),
    ]
    assert urgent["changes"][1]["why"] == '"Tax return" is due first'
    assert late["missing"] == ["Tax return: 120 minutes aren't free until Wed 25 November"]
    assert [(one["title"], one["now"]) for one in late["changes"]] == [("Tax return", None)]


@pytest.mark.parametrize(
    ("wanted", "answer", "this_week", "wanted_later"),
    [(FOCUS, "", 0, True), (FOCUS, "always", 0, False), (FOCUS, "u", 1, True), (TAX, "", 0, False)],
)
def test_what_was_deleted_is_asked_about_once_and_not_placed_again(
    blocks: Calendar, path: Path, wanted: str, answer: str, this_week: int, wanted_later: bool
) -> None:
    blocks(path, wanted)
    own = path.with_suffix(".blocks.ics")
    own.write_bytes(re.sub(rb"BEGIN:VEVENT.*END:VEVENT\r\n", b"", own.read_bytes(), flags=re.S))

    blocks(path, wanted, answers=f"{answer}\n\n")
    blocks(path, wanted, answers="")

    assert len(in_file(path)) == this_week
    assert bool(spans(blocks(path, wanted, "--weeks", "2"))) == wanted_later
    if not wanted_later:  # then the latest change is that it was deleted
        blocks(path, wanted, "--undo", "1")
        assert bool(spans(blocks(path, wanted, "--weeks", "2"))) == (wanted == FOCUS), "it is wanted again"
        assert in_file(path)[0][0] in wanted, "and stays"


def test_a_block_that_the_person_moved_stays_there_and_a_clash_is_said(
    blocks: Calendar, ics_file: IcsFile, path: Path
) -> None:
    blocks(path, FOCUS)
    own = path.with_suffix(".blocks.ics")
    own.write_bytes(re.sub(rb"(DT(?:START|END)):202611\d\d", rb"\1:20261127", own.read_bytes()))

    found = blocks(path, FOCUS)

    assert found["changes"] == []
    assert found["missing"] == ['Focus, Fri 27 November, 09:00: you put it there, and "Review" is there, too']
    assert blocks(path, FOCUS) == found, "also when it has been there for a while"
    ics_file(*(event(f"Busy {day}", day, "0900", 8) for day in (23, 24, 25, 26)), event("Late", 27, "1030", 7))
    task = blocks(path, FOCUS + TAX.replace("2026-11-25", "2026-11-27").replace("120", "60"))
    assert (task["changes"], task["missing"]) == ([], ["Tax return: 60 minutes aren't free until Fri 27 November"])


def test_moves_are_shown_for_a_month_and_taken_back(blocks: Calendar, ics_file: IcsFile, path: Path) -> None:
    ((_, begin, _),) = spans(blocks(path, FOCUS))
    ics_file(event("Audit", int(begin[8:10]), "0900", 3))
    blocks(path, FOCUS)
    moved = in_file(path)

    history = blocks(path, FOCUS, "--history")
    assert blocks(path, FOCUS, "--undo", "2")["changes"] == [], "it was moved since"
    assert blocks(path, FOCUS, "--undo", "1", "--from", "2026-11-28")["changes"] == [], "what is past stays"
    back = blocks(path, FOCUS, "--undo", "1")

    assert [len(run["changes"]) for run in history] == [1, 1]
    assert history[0]["changes"][0]["was"][0][:16] == begin
    assert spans(back)[0][1] == begin
    assert in_file(path) != moved
    assert blocks(path, FOCUS)["changes"] == [], "what was put back by the person stays"
    journal = path.with_name("hub.db.blocks.jsonl")
    journal.write_text(re.sub(r'("at": ?")\d{4}', r"\g<1>2020", journal.read_text()))
    assert blocks(path, FOCUS, "--history") == []


def test_nothing_is_written_without_a_yes_and_blocks_are_no_conflicts(
    calendar_session: Calendar, blocks: Calendar, ics_file: IcsFile, path: Path
) -> None:
    shown = blocks(path, FOCUS, answers="n\n")
    assert len(shown["changes"]) == 1
    assert (shown["written"], path.with_suffix(".blocks.ics").exists()) == (0, False)

    ((_, begin, _),) = spans(blocks(path, FOCUS))
    own = path.with_suffix(".blocks.ics")
    ics_file(event("Audit", int(begin[8:10]), "0900"))

    assert calendar_session("list", path, own, "--json").json["conflicts"] == []


def test_on_a_server_blocks_are_events_and_what_others_added_to_them_stays(blocks: Calendar, server: Any) -> None:
    server.put("review", event("Review", 27, "0900"))
    server.refuses = 507
    with pytest.raises(AssertionError, match="HTTP 507"):
        blocks(server.address, FOCUS)
    server.refuses = 0
    assert blocks(server.address, FOCUS, answers="\n")["written"] == 1, "what it did not take is written the next time"
    (place,) = [place for place in server.events if "agentfw-block" in place]
    day = events_of(server.events[place])[0]["DTSTART"].dt.day
    server.save(place, server.events[place].replace("SUMMARY:Focus", "SUMMARY:Focus\r\nDESCRIPTION:Chapter 2"))
    server.put("audit", event("Audit", day, "0900", 3))

    moved = blocks(server.address, FOCUS)

    assert len(moved["changes"]) == 1
    (written,) = events_of(server.events[place])
    assert str(written["DESCRIPTION"]) == "Chapter 2"
    assert written["DTSTART"].dt == datetime.fromisoformat(moved["changes"][0]["now"][0])
    assert written["DTEND"].dt - written["DTSTART"].dt == timedelta(minutes=90)

    del server.events[place]  # by the person
    assert blocks(server.address, FOCUS, answers="\n\n")["changes"] == []
    blocks(server.address, "", "--undo", "1")
    assert place in server.events


def test_a_block_that_is_moved_while_a_change_is_not_taken_stays_there(
    blocks: Calendar, server: Any, path: Path
) -> None:
    for calendar in (path, server.address):  # what is in a file wasn't deleted from a server
        blocks(calendar, FOCUS)
    (place,) = server.events
    day = events_of(server.events[place])[0]["DTSTART"].dt.day
    server.put("audit", event("Audit", day, "0900", 3))

    def moved_by_hand(at: str) -> None:
        server.save(place, server.events[place].replace(f"202611{day}T", "20261127T"))

    server.before_write = moved_by_hand
    refused = blocks(server.address, FOCUS)
    server.before_write = lambda at: None
    again = blocks(server.address, FOCUS)

    assert (len(refused["changes"]), refused["written"], again["changes"], again["written"]) == (1, 0, [], 0)
    assert events_of(server.events[place])[0]["DTSTART"].dt.day == 27


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (FOCUS.replace("90", "1"), "minutes = 1 isn't 5 to 720"),
        (RUN + 'days = ["MO"]\n', "times = 3 isn't 1 to 1"),
        (FOCUS.replace("09:00-", "9-"), "hours = '9-12:00' are no hours"),
        (FOCUS + "evry = 2\n", "has the unknown setting evry"),
        (FOCUS + FOCUS, 'several blocks are called "focus"'),
        ("", "there are no blocks in me.toml"),
    ],
)
def test_a_wrong_setting_is_an_error_that_names_it(blocks: Calendar, path: Path, wanted: str, said: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(said)):
        blocks(path, wanted)
