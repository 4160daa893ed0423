"""Which events are in each other's way, what their tags say, and whose calendar it is."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from agentfw.errors import SettingsError
from agentfw_calendar.deciding.people import About, read_people
from agentfw_calendar.deciding.tagging import tags
from agentfw_calendar.ics.sources import FileSource
from agentfw_calendar.session import Session, Wishes
from agentfw_plugins.worlds.calendar.event_attributes import CHOICES, TAGS, event_line, parse_line

from .events import IcsFile


def session(path: Path, relations: dict[str, str] | None = None) -> Session:
    return Session.open([FileSource(path)], Wishes(28, date(2026, 11, 23), about=About(relations or {})))


def at(begin: str, end: str, title: str, *more: str) -> str:
    times = (f"DTSTART:20261124T{begin}00", f"DTEND:20261124T{end}00")
    return "\n".join([f"UID:{title}", *times, f"SUMMARY:{title}", *more])


def groups(found: Session, keep: int = 0) -> list[str]:
    """All groups, by their titles, where of each the same place is kept."""
    shown = []
    while (group := found.agenda.next()) is not None:
        shown.append(" ".join(one.entry.title for one in group))
        found.agenda.keep(group, group[keep])
    return shown


CHAIN = [at("0900", "1000", "a"), at("0930", "1100", "b"), at("1030", "1130", "c")]


@pytest.mark.parametrize(
    ("events", "keep", "asked"),
    [
        ([at("0900", "1000", "a"), at("1000", "1100", "b")], 0, []),  # they only touch
        (CHAIN, 0, ["a b"]),
        (CHAIN, 1, ["a b", "b c"]),
        ([at("0900", "1000", letter) for letter in "abcdefg"], 0, ["a b c d e", "a f g"]),
    ],
)
def test_a_question_depends_on_what_is_kept(ics_file: IcsFile, events: list[str], keep: int, asked: list[str]) -> None:
    assert groups(session(ics_file(*events)), keep) == asked


def test_what_was_left_side_by_side_is_not_asked_about_again(ics_file: IcsFile) -> None:
    found = session(ics_file(*CHAIN))

    first = found.agenda.next()
    assert first is not None
    found.agenda.leave(first)

    assert groups(found) == ["b c"]


@pytest.mark.parametrize(
    "mark",
    [
        "TRANSP:TRANSPARENT",
        "STATUS:CANCELLED",
        "X-MICROSOFT-CDO-BUSYSTATUS:FREE",
        "ATTENDEE;PARTSTAT=DECLINED:mailto:Ana@Lab.example",
    ],
)
def test_what_takes_no_time_of_the_owner_is_in_nobodys_way(ics_file: IcsFile, mark: str) -> None:
    assert groups(session(ics_file(at("0900", "1000", "a"), at("0930", "1030", "b", mark)))) == []


def test_all_day_events_are_the_background(ics_file: IcsFile) -> None:
    trip = "UID:t\nDTSTART;VALUE=DATE:20261123\nDTEND;VALUE=DATE:20261128\nSUMMARY:Fair week"
    found = session(ics_file(trip, at("0900", "1000", "a"), at("0930", "1030", "b"), at("1500", "1600", "c")))

    group = found.agenda.next()

    assert group is not None
    assert [one.entry.title for one in group] == ["a", "b"]
    assert [one.entry.title for one in found.agenda.that_day(group)] == ["Fair week", "c"]


def tagged(found: Session) -> dict[str, str]:
    (one,) = found.found
    return tags(one, found.people, found.home)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((), {"start": "09:00", "min": "60", "by": "self", "who": "nobody", "size": "1", "topic": "delivery"}),
        (("ORGANIZER:mailto:joe@acme.example",), {"by": "partner", "who": "partner"}),
        (("ORGANIZER:mailto:ana@lab.example", "ATTENDEE:mailto:joe@acme.example"), {"by": "self", "who": "partner"}),
        (("ATTENDEE:mailto:maria@lab.example",), {"who": "superior"}),
        (("ATTENDEE:mailto:mia@gmail.com",), {"who": "friend"}),
        (("ATTENDEE:mailto:x@client.example",), {"who": "client"}),
        (("ATTENDEE:mailto:joe@client.example",), {"who": "vendor"}),
        (("ATTENDEE;CUTYPE=ROOM:mailto:room4@lab.example",), {"who": "nobody", "size": "1", "place": "room"}),
        (("ATTENDEE;PARTSTAT=DECLINED:mailto:bob@lab.example",), {"who": "nobody", "size": "1"}),
        (("PRIORITY:1",), {"urgency": "high"}),
        (("CATEGORIES:Social",), {"topic": "social"}),
        (("SUMMARY:Dentist",), {"topic": "personal", "hold": "fixed"}),
        (("SUMMARY:Deadline of the proposal",), {"due": "today"}),
        (("SUMMARY:Residue analysis",), {"due": "none"}),
        (("LOCATION:https://zoom.us/j/1",), {"place": "video"}),
        (("LOCATION:Room 4",), {"place": "room"}),
        (("LOCATION:Hauptstr. 4\\, Berlin",), {"place": "onsite"}),
        (("ATTENDEE;ROLE=OPT-PARTICIPANT:mailto:ana@lab.example",), {"hold": "optional"}),
        (("CREATED:20261124T070000Z",), {"notice": "today"}),
        (("CREATED:20261020T070000Z",), {"notice": "planned"}),
        (("RRULE:FREQ=WEEKLY;INTERVAL=2;COUNT=1",), {"series": "biweekly"}),
    ],
)
def test_tags_follow_from_the_file(ics_file: IcsFile, lines: tuple[str, ...], expected: dict[str, str]) -> None:
    title = () if any(line.startswith("SUMMARY") for line in lines) else ("SUMMARY:Release review",)
    event = "\n".join(["UID:1", "DTSTART:20261124T090000", "DTEND:20261124T100000", *title, *lines])
    known = {"maria@lab.example": "superior", "client.example": "client", "joe@client.example": "vendor"}

    found = tagged(session(ics_file(event), known))

    assert {tag: found[tag] for tag in expected} == expected
    assert tuple(found) == TAGS
    assert all(found[tag] in CHOICES[tag] for tag in CHOICES)
    assert parse_line(event_line("A", "x", found)) == ("A", "x", found)


def test_the_owner_is_who_the_calendar_is_called_after_or_who_is_in_most_of_it(ics_file: IcsFile) -> None:
    pair = ("ORGANIZER:mailto:bob@x.example", "ATTENDEE:mailto:ana@x.example")
    both = [at("0900", "1000", title, *pair) for title in "ab"]
    alone = at("1200", "1300", "c", "ATTENDEE:mailto:ana@x.example", "ATTENDEE:mailto:eve@x.example")

    assert session(ics_file(*both)).people.owner == "ana@lab.example"
    assert session(ics_file(*both, alone, head="")).people.owner == "ana@x.example"
    assert session(ics_file(*both, head="")).people.owner == "", "two that are always together can't be told apart"


def test_a_relation_that_there_is_not_is_told(tmp_path: Path) -> None:
    path = tmp_path / "people.toml"
    path.write_text('"Maria@Lab.example" = "superior"\n')
    assert read_people(path).relations == {"maria@lab.example": "superior"}

    path.write_text('"maria@lab.example" = "boss"\n')
    with pytest.raises(SettingsError, match='"boss" is no relation') as refused:
        read_people(path)
    assert "superior" in refused.value.fix
