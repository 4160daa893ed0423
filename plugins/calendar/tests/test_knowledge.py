"""What is known of a person: in sentences, with the decisions behind them; and what is assumed at first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentfw_calendar.deciding.people import People
from agentfw_calendar.ics.ics_events import Party

IcsFile = Callable[..., Path]
Calendar = Callable[..., Any]


def event(uid: str, day: int, clock: str, title: str, *lines: str) -> str:
    start = f"UID:{uid}\nDTSTART;TZID=Europe/Berlin:202611{day}T{clock}00"
    return "\n".join([start, "DURATION:PT1H", f"SUMMARY:{title}", *lines])


BOSS = ("ORGANIZER:mailto:maria@lab.example", "ATTENDEE:mailto:ana@lab.example")
CLIENT = ("ORGANIZER:mailto:joe@acme.example", "ATTENDEE:mailto:ana@lab.example")


@pytest.fixture
def decide(calendar: Calendar, tmp_path: Path) -> Calendar:
    (tmp_path / "people.toml").write_text('"maria@lab.example" = "superior"\n"acme.example" = "client"\n')
    return lambda *words, answers="": calendar("decide", *words, "--people", "people.toml", answers=answers)


def clashes(count: int) -> list[str]:
    days = range(23, 23 + count)
    boss = [event(f"a{day}", day, "1000", f"Talk {day}", *BOSS) for day in days]
    return [*boss, *(event(f"b{day}", day, "1030", f"Acme {day}", *CLIENT) for day in days)]


def test_what_is_known_is_said_with_the_decisions_behind_it(
    calendar: Calendar, decide: Calendar, ics_file: IcsFile
) -> None:
    decide(ics_file(*clashes(5)), answers="b\nb: they pay\na\nb\nb\n")

    known = calendar("me")

    first = next(one for one in known["sentences"] if (one["first"], one["second"]) == ("who=client", "who=superior"))
    assert first["sentence"] == "clients before superiors: 4 of 5 times"
    assert first["decisions"][1].endswith('Acme 24, and not Talk 24. "they pay"')
    assert sum(week["proposed"] for week in known["weeks"]) == 5


def test_a_sentence_is_pinned_corrected_and_forgotten(calendar: Calendar, decide: Calendar, ics_file: IcsFile) -> None:
    decide(ics_file(*clashes(3)), answers="b\nb\nb\n")
    number = next(one["number"] for one in calendar("me")["sentences"] if one["first"] == "who=client")

    pinned = calendar("me", "--pin", number)["sentences"][0]
    corrected = calendar("me", "--correct", 1)["sentences"]
    forgotten = calendar("me", "--forget", 1)

    assert pinned["sentence"] == "clients before superiors: pinned, 3 of 3 times"
    assert corrected[0]["sentence"] == "superiors before clients: pinned, not decided yet"
    assert sum(one["pinned"] for one in corrected) == 1
    assert forgotten["sentences"] == []
    assert "there is no sentence 9" in calendar("me", "--forget", 9, code=2)


def listed(calendar: Calendar, path: Path, *words: str) -> list[str]:
    return [
        next(event["title"] for event in one["events"] if event["letter"] == one["proposed"])
        for one in calendar("list", path, "--people", "people.toml", *words)["conflicts"]
    ]


def test_a_pinned_sentence_decides_what_is_proposed(calendar: Calendar, decide: Calendar, ics_file: IcsFile) -> None:
    decide(ics_file(*clashes(3)), answers="b\nb\nb\n")
    new = ics_file(*(text.replace("UID:", "UID:new").replace("202611", "202612") for text in clashes(1)))

    before = listed(calendar, new, "--days", "60")
    number = next(one["number"] for one in calendar("me")["sentences"] if one["first"] == "who=client")
    calendar("me", "--correct", number)

    assert (before, listed(calendar, new, "--days", "60")) == (["Acme 23"], ["Talk 23"])


ONE_TO_ONE = event("o", 23, "1000", "1:1 with Maria", "RRULE:FREQ=WEEKLY", *BOSS)


@pytest.mark.parametrize(
    ("title", "lines"),
    [
        ("Dentist", ()),
        ("Zahnarzt", ()),
        ("Rendez-vous chez le médecin", ()),
        ("Médico", ()),
        ("Parents evening", ()),
        ("Kita: Elternabend", ()),
        ("Réunion parents professeurs", ()),
        ("Cumpleaños de mi hija", ()),
        ("Dinner", ("ORGANIZER;CN=Rui Costa:mailto:rui@gmail.com", "ATTENDEE:mailto:ana.costa@lab.example")),
    ],
)
@pytest.mark.usefixtures("decide")
@pytest.mark.parametrize("other", [ONE_TO_ONE, event("c", 23, "1000", "Review with Acme", *CLIENT)])
def test_health_and_family_come_first_until_somebody_says_otherwise(
    calendar: Calendar,
    ics_file: IcsFile,
    title: str,
    lines: tuple[str, ...],
    other: str,
) -> None:
    path = ics_file(event("p", 23, "1030", title, *lines), other)
    owner = "ana.costa@lab.example" if lines else "ana@lab.example"

    assert listed(calendar, path, "--days", "5", "--me", owner) == [title]


@pytest.mark.parametrize(
    ("address", "name", "relation"),
    [
        ("rui@gmail.com", "Rui Costa", "family"),
        ("rui.costa@gmx.de", "", "family"),
        ("mia@gmail.com", "Mia Lang", "friend"),
        ("joe@acme.example", "Joe Costa", "partner"),
        ("bob@lab.example", "Bob", "peer"),
    ],
)
def test_a_private_mailbox_is_no_partner(address: str, name: str, relation: str) -> None:
    party = Party(address, name, "INDIVIDUAL", "REQ-PARTICIPANT", "ACCEPTED")

    assert People("ana.costa@lab.example", {}).relation(party) == relation
