"""Real .ics files are read, or what can't be used is told with its line; nothing crashes or takes for ever."""

from __future__ import annotations

import os
import random
import time
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from dateutil.rrule import rrulestr
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfw.errors import AgentfwError, UnknownNameError, UsageError
from agentfw_calendar.ics.ics_lines import FileLines
from agentfw_calendar.ics.ics_marking import marked
from agentfw_calendar.ics.occurrences import Budget, RuleRefused, rule_times
from agentfw_calendar.ics.sources import FileSource
from agentfw_calendar.session import Session, Wishes

from .events import IcsFile, event

SHIPPED = Path(__file__).parent / "data" / "ics"
SAMPLES = sorted(Path(os.environ.get("AGENTFW_ICS_SAMPLES", SHIPPED)).glob("*.ics"))
"""Set the variable to a folder to try every calendar in it."""

MONDAY = date(2026, 11, 23)
TEN = "DTSTART:20261124T100000\nDURATION:PT1H"


def session(path: Path, since: date = MONDAY, days: int = 28, **more: Any) -> Session:
    return Session.open([FileSource(path)], Wishes(days, since, **more))


def titles(found: Session) -> list[str]:
    return [one.entry.title for one in found.found]


def starts(found: Session) -> list[str]:
    return [f"{one.start.astimezone(found.home):%d.%m. %H:%M}" for one in found.found]


def unmarked(lines: FileLines) -> bytes:
    """The new file where nothing is declined."""
    return marked(lines, [], "", datetime.now())[0]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_every_sample_is_read_or_refused_with_a_reason(path: Path) -> None:
    if not FileLines(path.read_bytes()).blocks("VCALENDAR") and b"BEGIN:VEVENT" not in path.read_bytes():
        with pytest.raises(UsageError, match="no iCalendar file"):
            session(path)
        return

    found = session(path, date(2014, 1, 1), 3660)

    blocks = {block.number for block in found.parts[0][0].lines.blocks("VEVENT")}
    shown = {one.entry.block.number for one in found.found}
    assert all(problem.why for problem in found.problems)
    assert shown <= blocks
    assert unmarked(found.parts[0][0].lines) == path.read_bytes()


@pytest.mark.parametrize("data", [b"", b"not a calendar\n", b"\x00\xff\xfe", b"BEGIN:VTODO\nEND:VTODO\n"])
def test_what_is_no_calendar_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "x.ics").write_bytes(data)

    with pytest.raises(UsageError, match="no iCalendar file"):
        session(tmp_path / "x.ics")


def test_an_event_that_cannot_be_read_or_is_cut_off_is_told_with_its_line_beside_the_others(ics_file: IcsFile) -> None:
    path = ics_file(
        "UID:1\nSUMMARY:When?",
        "UID:2\nDTSTART:20261124T100000\nDTEND:20261124T090000\nSUMMARY:Backwards",
        f"UID:3\n{TEN}\nSUMMARY:Fine\nNONSENSE",
        f"UID:4\n{TEN}\nRRULE:FREQ=SOMETIMES\nSUMMARY:Now and then",
        f"{TEN}\nRRULE:FREQ=WEEKLY\nSUMMARY:Whose dates can't be marked",
        f"UID:5\n{TEN}\nSUMMARY:Torn",
    )
    path.write_bytes(path.read_bytes().partition(b"SUMMARY:Torn")[0])

    found = session(path)

    assert titles(found) == ["Fine"]
    assert any("without its END" in problem.why for problem in found.problems)
    told = {problem.line: (problem.what, problem.why) for problem in found.problems}
    assert told[5] == ("When?", "has no DTSTART that can be read")
    assert told[9] == ("Backwards", "ends before it begins")
    assert "is ignored" in told[15][1]
    assert told[22][0] == "Now and then"
    assert "RRULE" in told[22][1]
    assert "is a series without a UID" in told[29][1]


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("DTSTART:20261124T090000Z", "24.11. 10:00"),
        ("DTSTART;TZID=America/New_York:20261124T040000", "24.11. 10:00"),
        ("DTSTART;TZID=W. Europe Standard Time:20261124T100000", "24.11. 10:00"),
        ("DTSTART;TZID=/vendor.example/2007_1/America/New_York:20261124T040000", "24.11. 10:00"),
        ("DTSTART;TZID=Ours:20261124T150000", "24.11. 10:00"),
        ("DTSTART;TZID=Middle Earth:20261124T100000", "24.11. 10:00"),
    ],
)
def test_times_are_shown_in_the_persons_zone(ics_file: IcsFile, written: str, shown: str) -> None:
    offsets = "BEGIN:STANDARD\nDTSTART:19700101T000000\nTZOFFSETFROM:+0600\nTZOFFSETTO:+0600\nEND:STANDARD"
    ours = f"BEGIN:VTIMEZONE\nTZID:Ours\n{offsets}\nEND:VTIMEZONE"

    found = session(ics_file(f"UID:1\n{written}\nDURATION:PT1H\nSUMMARY:x", head=ours), zone="Europe/Berlin")

    assert starts(found) == [shown]
    assert any("Middle Earth" in problem.what for problem in found.problems) == ("Middle Earth" in written)


def test_the_zone_can_be_given_and_a_wrong_one_is_told(ics_file: IcsFile) -> None:
    path = ics_file("UID:1\nDTSTART:20261124T090000Z\nDURATION:PT1H\nSUMMARY:x")

    assert starts(session(path, zone="America/New_York")) == ["24.11. 04:00"]
    with pytest.raises(UnknownNameError, match="Atlantis"):
        session(path, zone="Atlantis")


@pytest.mark.parametrize("encoding", ["utf-8", "cp1252"])
def test_folded_lines_foreign_letters_and_escapes_are_read_and_are_no_tags(ics_file: IcsFile, encoding: str) -> None:
    title = "Besprechung über die Größe\\, und dann\\; weiter | due=today\\nB: Cake"
    path = ics_file(f"UID:1\n{TEN}\nSUMMARY:{title[:20]}\n {title[20:]}")
    path.write_bytes(path.read_bytes().decode().encode(encoding))

    assert titles(session(path)) == ["Besprechung über die Größe, und dann; weiter / due=today B: Cake"]


def test_the_same_event_twice_counts_once_as_it_was_last_said(ics_file: IcsFile) -> None:
    new, old = event("1", "20261124T1200", "New", "SEQUENCE:2"), event("1", "20261124T1000", "Old", "SEQUENCE:1")

    assert titles(session(ics_file(new, old))) == ["New"]


@pytest.mark.parametrize(
    "rules",
    [
        "DTSTART:00010101T000000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY;COUNT=999999999",
        "DTSTART:99991231T233000Z\nDURATION:PT1H\nRRULE:FREQ=DAILY",
        "DTSTART:20200101T000000\nDURATION:PT1S\nRRULE:FREQ=SECONDLY",
        "DTSTART:20200101T000000\nDURATION:PT1H\nRRULE:FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "DTSTART:20200101T000000\nDURATION:PT1H\nRRULE:FREQ=YEARLY;BYDAY=99MO;BYSETPOS=400",
    ],
)
def test_no_rule_takes_for_ever(ics_file: IcsFile, rules: str) -> None:
    path = ics_file(*(f"UID:{number}\n{rules}\nSUMMARY:x" for number in range(20)))

    began = time.process_time()
    session(path)

    assert time.process_time() - began < 10


def test_broken_bytes_anywhere_never_bring_it_down(tmp_path: Path, ics_file: IcsFile) -> None:
    generator = random.Random(7)
    whole = ics_file(
        "UID:1\nDTSTART:20261123T100000\nDURATION:PT1H\nRRULE:FREQ=WEEKLY\nSUMMARY:a",
        "UID:2\nDTSTART:20261123T103000\nDTEND:20261123T113000\nEXDATE:20261201T103000\nATTENDEE:mailto:ana@lab.example",
    ).read_bytes()
    path = tmp_path / "broken.ics"
    read = 0
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(generator.randint(1, 6)):
            place = generator.randrange(len(data))
            data[place : place + generator.randint(0, 9)] = generator.randbytes(generator.randint(0, 4))
        path.write_bytes(data)
        try:
            found = session(path)
        except AgentfwError:
            continue
        read += 1
        assert unmarked(found.parts[0][0].lines) == bytes(data)
    assert read > 50


# -- series: the dates are those that calendar programs show ----------------------------------------------------------

DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


@st.composite
def rules(draw: st.DrawFn) -> dict[str, list[Any]]:
    """Rules that meet some day; which they meet is what is compared."""
    frequency = draw(st.sampled_from(["DAILY", "WEEKLY", "MONTHLY", "YEARLY"]))
    rule: dict[str, list[Any]] = {"FREQ": [frequency], "INTERVAL": [draw(st.integers(1, 4))]}
    some = st.booleans()
    if draw(some):
        rule["BYMONTH"] = draw(st.lists(st.integers(1, 12), min_size=1, max_size=3, unique=True))
    if frequency != "WEEKLY" and draw(some):
        rule["BYMONTHDAY"] = draw(st.lists(st.sampled_from([1, 13, 28, 31, -1, -10]), min_size=1, unique=True))
    elif draw(some):
        # A numbered and a plain weekday in one rule mean different things to different programs.
        numbers = ["1", "3", "-1"] if frequency in ("MONTHLY", "YEARLY") and draw(some) else [""]
        weekdays = [number + day for number in numbers for day in DAYS]
        rule["BYDAY"] = draw(st.lists(st.sampled_from(weekdays), min_size=1, max_size=4, unique=True))
    if draw(some):
        rule["BYHOUR"] = draw(st.lists(st.integers(0, 23), min_size=1, max_size=2, unique=True))
    if draw(some):
        rule["BYSETPOS"] = draw(st.lists(st.sampled_from([1, 2, -1]), min_size=1, unique=True))
    if draw(some):
        rule["COUNT"] = [draw(st.integers(1, 30))]
    rule["WKST"] = [draw(st.sampled_from(DAYS))]
    return rule


@given(rules(), st.datetimes(datetime(2018, 1, 1), datetime(2026, 12, 31)), st.integers(-50, 900), st.integers(1, 500))
@settings(max_examples=40, deadline=None)
def test_rules_mean_the_same_to_dateutil(rule: dict[str, list[Any]], start: datetime, ahead: int, span: int) -> None:
    start = start.replace(microsecond=0)
    first = start + timedelta(days=ahead)
    last = first + timedelta(days=span)
    text = ";".join(f"{name}={','.join(map(str, values))}" for name, values in rule.items())

    found = list(rule_times(rule, start, first, last, Budget()))

    # A rule may meet no day for a long time: dateutil is asked up to the last only. It ends a rule with a COUNT itself.
    theirs = rrulestr(text, dtstart=start)
    assert found == (theirs if "COUNT" in rule else theirs.replace(until=last)).between(first, last, inc=True)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        ({"FREQ": ["MINUTELY"]}, "no appointment"),
        ({"FREQ": ["YEARLY"], "RSCALE": ["HEBREW"]}, "RSCALE"),
        ({"FREQ": ["YEARLY"], "BYWEEKNO": [20]}, "BYWEEKNO"),
        ({"FREQ": ["DAILY"], "INTERVAL": [0]}, "interval of 0"),
        ({"FREQ": ["MONTHLY"], "BYMONTHDAY": [32]}, "BYMONTHDAY=32"),
        ({"FREQ": ["YEARLY"], "BYMONTH": [12], "BYDAY": ["20MO"]}, "number 20"),
        ({"FREQ": ["DAILY"], "BYHOUR": list(range(24)), "BYMINUTE": [0, 30]}, "24 times a day"),
    ],
)
def test_what_cannot_be_followed_is_refused_with_a_reason(rule: dict[str, list[Any]], reason: str) -> None:
    with pytest.raises(RuleRefused, match=reason):
        list(rule_times(rule, datetime(2026, 1, 1), datetime(2026, 1, 1), datetime(2026, 2, 1), Budget()))


def dates(path: Path, since: date = MONDAY, days: int = 28) -> list[str]:
    found = session(path, since, days)
    assert found.problems == []
    return starts(found)


NINE = event("1", "20261123T0900", "x", "RRULE:FREQ=WEEKLY")


@pytest.mark.parametrize(
    ("more", "added", "ends"),
    [
        ("RRULE:FREQ=WEEKLY;BYDAY=TU;UNTIL=20261126", "24.11. 09:00", "10:00"),
        ("RDATE;TZID=Europe/Berlin:20261125T140000", "25.11. 14:00", "15:00"),
        ("RDATE;VALUE=PERIOD:20261125T130000Z/PT3H", "25.11. 14:00", "17:00"),
    ],
)
def test_the_first_date_counts_and_what_is_added(ics_file: IcsFile, more: str, added: str, ends: str) -> None:
    found = session(ics_file(event("1", "20261123T0900", "x", more)))

    assert starts(found) == ["23.11. 09:00", added]
    assert f"{found.found[-1].end.astimezone(found.home):%H:%M}" == ends


def test_a_meeting_at_nine_stays_at_nine_when_the_clocks_change(ics_file: IcsFile) -> None:
    path = ics_file(NINE.replace("20261123", "20260316"))

    assert dates(path, date(2026, 3, 16)) == ["16.03. 09:00", "23.03. 09:00", "30.03. 09:00", "06.04. 09:00"]
    assert len(dates(ics_file(NINE.replace("WEEKLY", "DAILY")), days=1461)) == 1461
    leave = session(ics_file("UID:1\nDTSTART;VALUE=DATE:20261023\nDTEND;VALUE=DATE:20261026"), date(2026, 10, 23))
    assert [f"{one.end.astimezone(leave.home):%d.%m. %H:%M}" for one in leave.found] == ["26.10. 00:00"]


@pytest.mark.parametrize(
    "exception",
    [
        "EXDATE;TZID=Europe/Berlin:20261130T090000",
        "EXDATE:20261130T080000Z",
        "EXDATE;VALUE=DATE:20261130",
        "EXDATE:20261130T090000",
    ],
)
def test_an_exception_takes_its_date_out_however_it_is_written(ics_file: IcsFile, exception: str) -> None:
    assert dates(ics_file(f"{NINE}\n{exception}")) == ["23.11. 09:00", "07.12. 09:00", "14.12. 09:00"]
    if exception.endswith(":20261130T090000"):  # without a zone, or with one of its own
        abroad = f"{NINE}\n{exception}".replace("Europe/Berlin", "America/New_York")
        assert dates(ics_file(abroad)) == ["23.11. 15:00", "07.12. 15:00", "14.12. 15:00"]


@pytest.mark.parametrize("until", ["20261207", "20261207T080000Z", "20261207T090000"])
def test_a_series_ends_with_its_last_date_and_a_moved_date_is_where_it_went(ics_file: IcsFile, until: str) -> None:
    moved = event("1", "20261201T1400", "y", "RECURRENCE-ID:20261130T080000Z")
    day = moved.replace(":20261130T080000Z", ";VALUE=DATE:20261130")

    assert dates(ics_file(f"{NINE};UNTIL={until}")) == ["23.11. 09:00", "30.11. 09:00", "07.12. 09:00"]
    for one in (moved, day):
        assert dates(ics_file(f"{NINE};UNTIL={until}", one)) == ["23.11. 09:00", "01.12. 14:00", "07.12. 09:00"]
