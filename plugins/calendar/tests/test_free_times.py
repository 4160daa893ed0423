"""Other times for what is declined: free, within working hours, and the nearest such."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from agentfw.errors import SettingsError, UsageError
from agentfw_calendar.deciding.environment import Outcome
from agentfw_calendar.deciding.free_times import Hours, Merged, Span, Stay, closed, nearest_free
from agentfw_calendar.deciding.people import About
from agentfw_calendar.ics.sources import FileSource
from agentfw_calendar.session import Session, Wishes

from .events import IcsFile

BERLIN = ZoneInfo("Europe/Berlin")
STEP = timedelta(minutes=5)
"""Everything here begins and ends at a multiple of it."""
TRAVEL = timedelta(minutes=30)
DAY = timedelta(days=1)


def is_right(meeting: Stay, stays: list[Stay], closed_to_all: list[Span], until: datetime) -> bool:
    """Whether the person is at work, free and not on the way, looked at step by step and event by event."""
    steps = [meeting.begin + STEP * number for number in range(int((meeting.end - meeting.begin) / STEP))]
    local = [step.astimezone(BERLIN) for step in steps]
    at_work = all(each.weekday() < 5 and 9 <= each.hour < 17 and each.date() == local[0].date() for each in local)
    spans = [*((stay.begin, stay.end) for stay in stays), *closed_to_all]
    if not at_work or steps[-1] >= until or any(begin <= each < end for begin, end in spans for each in steps):
        return False
    for stay in stays:
        first, second = sorted((meeting, stay), key=lambda one: one.begin)
        apart = first.place and second.place and first.place != second.place
        if second.begin - first.end < max(second.way, TRAVEL if apart else timedelta()):
            return False
    return True


def test_in_generated_weeks_it_is_free_within_hours_and_the_nearest() -> None:
    some = random.Random(7)
    none = 0
    for week in range(250):
        # Some of the weeks have a change of the clock.
        monday = datetime(2026, 3, 2, tzinfo=BERLIN) + timedelta(weeks=week % 40)
        since, until = monday.astimezone(UTC), (monday + timedelta(days=5)).astimezone(UTC)

        def spans(most: int, since: datetime = since) -> list[Span]:
            begins = [since + STEP * some.randrange(12 * 24 * 5) for _ in range(some.randrange(most))]
            return [(begin, begin + STEP * some.randrange(1, 60)) for begin in begins]

        def stay(begin: datetime, end: datetime) -> Stay:
            way = timedelta(minutes=some.choice((0, 0, 0, 20, 45)))
            return Stay(begin, end, some.choice(("", "room", "Lyon", "Ulm")), way)

        stays = [stay(begin, end) for begin, end in spans(30)]
        midnight = monday + DAY * some.randrange(5)
        holiday = [(midnight.astimezone(UTC), (midnight + DAY).astimezone(UTC))] if some.random() < 0.5 else []
        closed_to_all = [*holiday, *spans(15)]
        near, length = some.choice([since, *(each.begin for each in stays)]), STEP * some.choice((3, 5, 12, 18))
        meeting = stay(near, near + length)

        is_free = Merged([*closed(meeting, stays, TRAVEL), *closed_to_all]).is_free
        found = nearest_free(near, length, is_free, Hours.parse("09:00-17:00"), BERLIN, (since, until))

        quarters = [since + timedelta(minutes=15) * number for number in range(4 * 24 * 5)]
        if found is None:
            none += 1
            assert not any(is_right(meeting.at(start), stays, closed_to_all, until) for start in quarters)
        else:
            assert is_right(meeting.at(found), stays, closed_to_all, until)
            nearer = [start for start in quarters if abs(start - near) < abs(found - near)]
            assert not any(is_right(meeting.at(start), stays, closed_to_all, until) for start in nearer)
    assert none < 125, "most weeks have room"


MONDAY = datetime(2099, 11, 23, tzinfo=UTC)
BY_JOE = "ORGANIZER;CN=Joe:mailto:joe@acme.example"


def event(uid: str, begin: str, end: str, *more: str) -> str:
    times = (f"DTSTART:20991123T{begin}00Z", f"DTEND:20991123T{end}00Z")
    return "\n".join([f"UID:{uid}", *times, f"SUMMARY:{uid}", *more])


def proposed(files: list[Path], *, days: int = 1, hours: str = "09:00-15:00", **more: Any) -> list[dict[str, Any]]:
    """The proposals if of the first conflict the event "kept" is kept."""
    wishes = Wishes(days, MONDAY.date(), zone="UTC", hours=Hours.parse(hours), **more)
    session = Session.open([FileSource(path) for path in files], wishes)
    group = session.agenda.next() or []
    (kept,) = (one for one in group if one.entry.uid == "kept")
    declined = session.agenda.keep(group, kept)
    session.outcomes = [Outcome(None, kept, tuple(declined), "", False)]  # type: ignore[arg-type]
    return session.other_times()


def test_the_way_to_an_event_is_not_free_and_no_time_is_given_twice(ics_file: IcsFile) -> None:
    visit = event("visit", "1100", "1200", "X-APPLE-TRAVEL-DURATION;VALUE=DURATION:PT45M")
    calls = (event("kept", "0900", "1000"), event("call", "0900", "1000", BY_JOE), event("own", "0900", "1000"))

    call, own = proposed([ics_file(*calls, visit)])

    assert [each["to"][11:16] for each in (call, own)] == ["12:00", "13:00"]
    assert call["organizer"] == "joe@acme.example"
    assert call["message"].startswith('Hello Joe,\nI can\'t come to "call" on Monday, 23 November, 09:00.')
    assert "Monday, 23 November, 12:00 instead?" in call["message"]
    assert own["message"] == "", "nobody has to be asked"


@pytest.mark.parametrize(
    ("here", "there", "minutes", "to"),
    [
        ("Hauptstr. 4\\, Ulm", "Room 5", 30, "10:30"),
        ("Hauptstr. 4\\, Ulm", "Room 5", 45, "10:45"),
        ("Hauptstr. 4\\, Ulm", "Hauptstr. 4\\, Ulm", 30, "10:00"),
        ("Raum 3", "Salle Pasteur", 30, "10:00"),
        ("Hauptstr. 4\\, Ulm", "https://zoom.us/j/1", 30, "10:00"),
    ],
)
def test_there_is_time_between_two_places(ics_file: IcsFile, here: str, there: str, minutes: int, to: str) -> None:
    path = ics_file(event("kept", "0900", "1000", f"LOCATION:{here}"), event("x", "0930", "1000", f"LOCATION:{there}"))

    (found,) = proposed([path], about=About(travel=timedelta(minutes=minutes)))

    assert found["to"][11:16] == to


def test_when_others_are_busy_counts_and_nobody_is_written_to_about_their_own_meeting(
    ics_file: IcsFile, tmp_path: Path
) -> None:
    mine = ("ORGANIZER:mailto:ana@lab.example", "ATTENDEE:mailto:joe@acme.example")
    times = ("FBTYPE=BUSY:20991123T100000Z/PT1H", "FBTYPE=FREE:20991123T110000Z/PT1H", "X=Y:20991123T120000Z/PT30M")
    lines = "".join(f"FREEBUSY;{each}\n" for each in times)
    (tmp_path / "joe.ifb").write_text(f"BEGIN:VCALENDAR\nBEGIN:VFREEBUSY\n{lines}END:VFREEBUSY\nEND:VCALENDAR\n")

    day = "DTSTART;VALUE=DATE:20991123\nTRANSP:TRANSPARENT\nSUMMARY:"
    no_days_off = [f"UID:v\n{day}Bob: vacation", f"UID:h\n{day}Bank holiday\nCATEGORIES:Holiday\nSTATUS:CANCELLED"]
    path = ics_file(event("kept", "0900", "1000"), event("call", "0900", "1000", *mine), *no_days_off)
    (found,) = proposed([path], busy={"joe@acme.example": FileSource(tmp_path / "joe.ifb")})

    assert (found["to"][11:16], found["also_free"]) == ("11:00", ["joe@acme.example"])
    assert (found["message"], found["organizer"]) == ("", "")


def test_public_holidays_of_ones_country_are_days_off_and_hours_that_are_none_are_refused(ics_file: IcsFile) -> None:
    path = ics_file(
        "UID:kept\nDTSTART:20991231T090000Z\nDTEND:20991231T150000Z\nSUMMARY:kept",
        "UID:x\nDTSTART:20991231T140000Z\nDTEND:20991231T150000Z\nSUMMARY:x",
    )
    wishes: dict[str, Any] = {"days": 40, "hours": "09:00-15:00"}

    (anywhere,) = proposed([path], **wishes)
    (germany,) = proposed([path], about=About(country="DE-BY"), **wishes)

    # The first of January 2100 is a Friday.
    assert anywhere["to"][:16] == "2100-01-01T09:00"
    assert germany["to"][:16] == "2099-12-30T14:00"
    with pytest.raises(SettingsError, match='no public holidays are known for "QQ"'):
        proposed([path], about=About(country="QQ"), **wishes)
    for hours in ("9-17", "17:00-09:00", "09:00-24:00"):
        with pytest.raises(UsageError, match="no working hours"):
            Hours.parse(hours)
