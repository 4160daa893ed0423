"""A decision holds for these events at this time with this content; what has changed is asked again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("icalendar")

IcsFile = Callable[..., Path]
Decide = Callable[..., Any]
CalendarSession = Callable[..., Any]

LUNCH = """UID:lunch
DTSTART;TZID=Europe/Berlin:20260310T120000
DTEND;TZID=Europe/Berlin:20260310T130000
SUMMARY:Team lunch
LOCATION:Canteen
ATTENDEE:mailto:bob@lab.example"""
DEMO = """UID:demo
DTSTART;TZID=Europe/Berlin:20260310T123000
DTEND;TZID=Europe/Berlin:20260310T133000
SUMMARY:Optional demo"""


@pytest.fixture
def decide(calendar_session: CalendarSession) -> Decide:
    """Run a session from March 2026 with these answers, and return its record."""

    def call(path: Path, answers: str) -> Any:
        said = calendar_session("decide", path, "--json", answers=answers, since="2026-03-01")
        assert said.err == ""
        return said.json

    return call


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("20260310T", "20260317T", "Team lunch was moved from Tue 10 March, 12:00 to Tue 17 March, 12:00"),
        ("Optional demo", "CRISIS: outage review", '"Optional demo" is now called "CRISIS: outage review"'),
        ("Canteen", "Paris", "Team lunch: the place is now Paris"),
        ("bob@lab", "ceo@lab", "Team lunch: ceo@lab.example came to it"),
        ("T133000", "T150000", "Optional demo lasts 150 minutes and no longer 60"),
    ],
)
def test_what_changed_since_it_was_decided_is_asked_again_with_what_changed(
    decide: Decide, ics_file: IcsFile, old: str, new: str, said: str
) -> None:
    decide(ics_file(LUNCH, DEMO), "a\n")

    answer = decide(ics_file(LUNCH.replace(old, new), DEMO.replace(old, new)), "s\n")

    (conflict,) = answer["conflicts"]
    assert (conflict["decided_before"], conflict["kept"]) == (False, "")
    assert said in conflict["changed"]
    assert answer["declined"] == 0


def test_what_did_not_change_is_not_asked_again(decide: Decide, ics_file: IcsFile) -> None:
    decide(ics_file(LUNCH, DEMO), "a\n")

    (conflict,) = decide(ics_file(LUNCH + "\nDESCRIPTION:Bring a fork", DEMO), "")["conflicts"]

    assert (conflict["decided_before"], conflict["kept"]) == (True, "A")


def test_a_decision_of_the_version_before_is_learned_from_and_asked_again(
    decide: Decide, ics_file: IcsFile, tmp_path: Path
) -> None:
    path, journal = ics_file(LUNCH, DEMO), tmp_path / "hub.db.decisions.jsonl"
    assert decide(path, "b\n")["strategies"] == [], "one is too few"
    new = json.loads(journal.read_text())
    journal.write_text(
        json.dumps({name: new[name] for name in new if name not in ("seen", "id", "at", "session")}) + "\n"
    )

    (asked,) = decide(path, "b\n")["conflicts"]
    again = decide(path, "")

    assert not asked["decided_before"]
    assert asked["changed"] == ["it isn't known when these events were at that time"]
    assert again["conflicts"][0]["decided_before"]
    assert "outreach +0.2" in again["strategies"], "learned from both"


def test_a_person_is_shown_what_changed(decide: Decide, ics_file: IcsFile, calendar_session: CalendarSession) -> None:
    decide(ics_file(LUNCH, DEMO), "a\n")
    path = ics_file(LUNCH, DEMO.replace("Optional demo", "Crisis"))

    out = calendar_session("list", path, since="2026-03-01").out

    assert 'you kept Team lunch before; asked again, because\n    "Optional demo" is now called "Crisis"' in out
