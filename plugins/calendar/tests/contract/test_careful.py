"""What a session doesn't do: learn from itself, show files or titles to others, or decide about what has changed."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_server import completion, serving, tool_call

from ..events import Calendar, IcsFile, event

pytest.importorskip("icalendar")

BOB = ("ORGANIZER:mailto:bob@lab.example", "ATTENDEE:mailto:ana@lab.example")
GROUP = event("group@lab", "20261123T1000", "Group meeting", "SEQUENCE:3", "X-MICROSOFT-CDO-BUSYSTATUS:BUSY", *BOB)
THERAPY = event("therapy", "20261123T1030", "Therapy")
REVIEW = event("review", "20261124T1000", "Review")
DEMO = event("demo", "20261124T1000", "Demo")


@pytest.fixture
def run(calendar_session: Calendar) -> Calendar:
    """Call `agentfw calendar decide`; returns the exit code, stdout and stderr."""
    return lambda *words, answers=None: calendar_session("decide", *words, answers=answers)


@pytest.fixture
def decided(run: Calendar) -> Calendar:
    """What it prints as JSON."""
    return lambda *words, answers=None: run(*words, "--json", answers=answers).json


def test_its_own_decisions_teach_nothing(run: Calendar, decided: Calendar, ics_file: IcsFile, tmp_path: Path) -> None:
    path = ics_file(GROUP, THERAPY, REVIEW, DEMO)

    code, _, err = run(path, "--yes", "--policy", "tiny")
    assert code == 2
    assert 'the policy "tiny" knows generated organisations only' in err
    assert not (tmp_path / "hub.db").exists()

    first, again = (decided(path, "--yes") for _ in range(2))
    assert (first["declined"], first["strategies"]) == (2, [])
    assert (tmp_path / "hub.db.decisions.jsonl").read_text() == ""
    assert not any(conflict["decided_before"] for conflict in again["conflicts"])
    assert [one["proposed"] for one in first["conflicts"]] == [one["proposed"] for one in again["conflicts"]]


def test_what_is_written_is_as_private_as_the_calendar_and_says_what_other_programs_need(
    run: Calendar, decided: Calendar, ics_file: IcsFile, tmp_path: Path
) -> None:
    path = ics_file(GROUP, THERAPY)
    path.chmod(0o600)

    written = Path(decided(path, answers="b\n")["outputs"][0])
    _, _, err = run(path, "--yes")

    assert all(name in err for name in ("Google Calendar", "Outlook", "Apple Calendar")), "how to bring it back"
    if os.name != "nt":
        files = [written, *tmp_path.glob("hub.db*")]
        assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600] * 4
    lines = written.read_text().splitlines()
    assert sum("Therapy" in line for line in lines) == 1, "what is kept is not named in what is declined"
    assert {"X-AGENTFW-DECLINED:TRUE", "X-MICROSOFT-CDO-BUSYSTATUS:FREE", "SEQUENCE:4"} <= set(lines)
    assert not {"X-MICROSOFT-CDO-BUSYSTATUS:BUSY", "SEQUENCE:3"} & set(lines)
    assert sum(line.startswith(("DTSTAMP:", "LAST-MODIFIED:")) for line in lines) == 2


def test_a_server_gets_what_is_shown_and_nothing_else(run: Calendar, ics_file: IcsFile, tmp_path: Path) -> None:
    later = event("x", "20261123T1500", "Pregnancy test")
    decision = completion("", message={"tool_calls": [tool_call("decide", accept="B", reason="mine")]})
    (tmp_path / "people.toml").write_text('"joe@acme.example" = "client"\n[me]\ncountry = "DE"\n')
    path = ics_file(f"{GROUP}\nATTENDEE;CN=Joe Doe:mailto:joe@acme.example\nLOCATION:Ulm", THERAPY, REVIEW, DEMO, later)
    with serving(decision) as (address, server):
        model = ("--policy", "openai", "--set", "policy.model=m", "--set", f"policy.base_url={address}")
        words = [path, "--people", "people.toml", "--busy", f"joe@acme.example={path}", *model]
        code, _, err = run(*words, "--show-what-is-sent", "--quiet", answers="b: the client can wait\nA\n")

    assert code == 0
    shown = [line for line in err.splitlines() if line and not line.startswith("still importing")]
    sent = "\n".join(_texts(server.bodies))
    assert all(line in err for line in sent.splitlines()), "everything that is sent is shown"
    unsent = [line for line in shown if re.sub(r"^sent \w+: ", "", line) not in sent]
    assert unsent == []
    assert all(text in sent for text in ("the client can wait", "B: Therapy | start=10:30", "that day: 15:00 busy"))
    assert not any(word in sent for word in ("joe@", "Joe", "ana@", "bob@", "Ulm", "Pregnancy", "+who=client"))


def _texts(bodies: list[Any]) -> Iterator[str]:
    """Everything in requests that depends on the person: messages, calls and tools."""
    for body in bodies:
        for tool in body["tools"]:
            function = tool["function"]
            yield f"{function['name']}: {function['description']}"
            yield json.dumps(function["parameters"], ensure_ascii=False)
        for message in body["messages"]:
            yield message["content"] or ""
            for call in message.get("tool_calls", ()):
                yield f"{call['function']['name']} {call['function']['arguments']}"


def test_listing_conflicts_changes_nothing(run: Calendar, decided: Calendar, ics_file: IcsFile, tmp_path: Path) -> None:
    path = ics_file(GROUP, THERAPY, REVIEW, DEMO)

    code, out, _ = run(path, "--list")
    answer = decided(path)

    assert code == 0
    assert out.count("proposed: keep") == 2
    assert "Therapy" in out
    assert answer["listed"]
    assert len(answer["conflicts"]) == 2
    assert answer["outputs"] == []
    assert [file.name for file in tmp_path.iterdir()] == ["my.ics"]


def test_an_undone_answer_is_asked_again_and_not_learned_from(decided: Calendar, ics_file: IcsFile) -> None:
    path = ics_file(GROUP, THERAPY, REVIEW, DEMO)

    answer = decided(path, answers="s\nu\nb\nu\nA\nb\n")
    later = decided(path, answers="")

    assert answer["undone"] == ["Therapy"], "to leave all can be undone, and is no decision"
    assert [one["kept"] for one in answer["conflicts"]] == ["A", "B"]
    assert [one["decided_before"] for one in later["conflicts"]] == [True, True]
    assert later["strategies"] == answer["strategies"]
    # All were decided, so nothing was asked and nothing could be undone.
    assert decided(path, answers="u\n")["undone"] == []


@pytest.mark.parametrize(("answers", "told"), [("b\nA\nu\nb\n", False), ("b\nA\nu\n", True)])
def test_only_what_stays_undone_is_told_at_the_end(run: Calendar, ics_file: IcsFile, answers: str, told: bool) -> None:
    next_day = (one.replace("UID:", "UID:next-").replace("20261124", "20261125") for one in (REVIEW, DEMO))

    _, out, _ = run(ics_file(GROUP, THERAPY, REVIEW, DEMO, *next_day), answers=answers)

    assert ("is asked about again" in out) == told


def test_several_calendars_are_one_agenda_and_all_written(run: Calendar, decided: Calendar, ics_file: IcsFile) -> None:
    work, home = ics_file(GROUP, REVIEW, name="work.ics"), ics_file(THERAPY, DEMO, GROUP, name="home.ics")

    refused, _, why = run(work, home, "--output", "x.ics", "--yes")
    answer = decided(work, home, answers="b\nReview\n")

    texts = [Path(path).read_text() for path in answer["outputs"]]
    assert [Path(path).name for path in answer["outputs"]] == ["work.decided.ics", "home.decided.ics"]
    # The group meeting is in both; the demo is at home only.
    assert [text.count("X-AGENTFW-DECLINED") for text in texts] == [1, 2]
    assert refused == 2
    assert "--output is one file" in why


def test_a_file_in_utf_16_is_read_and_written_in_it(decided: Calendar, ics_file: IcsFile) -> None:
    path = ics_file(GROUP, THERAPY.replace("Therapy", "Zahnärztin 👩‍⚕️"))
    path.write_bytes(("\ufeff" + path.read_text()).encode("utf-16-be"))

    answer = decided(path, answers="a: wichtig\n")

    assert answer["conflicts"][0]["events"][1]["title"] == "Zahnärztin 👩‍⚕️"
    written = Path(answer["outputs"][0]).read_bytes().decode("utf-16-be")
    assert written.startswith("\ufeffBEGIN:VCALENDAR")
    assert "X-AGENTFW-DECLINED:TRUE" in written


@pytest.mark.parametrize("answer", ["Keep a, the team needs me", "A the team needs me", "a because of us", "1"])
def test_an_answer_can_be_a_sentence(run: Calendar, decided: Calendar, ics_file: IcsFile, answer: str) -> None:
    code, _, err = run(ics_file(GROUP, THERAPY), answers="a boss matters more")

    assert decided(ics_file(GROUP, THERAPY), answers=answer)["conflicts"][0]["kept"] == "A"
    assert code == 2, "an article is not taken for the letter"
    assert 'may begin with the word "a"' in err


# -- a decision holds for these events at this time with this content --------------------------------------------------

LUNCH = event("lunch", "20260310T1200", "Team lunch", "LOCATION:Canteen", "ATTENDEE:mailto:bob@lab.example")
OPTIONAL = event("demo", "20260310T1230", "Optional demo", length="PT60M")


@pytest.fixture
def decide(calendar: Calendar) -> Calendar:
    """Run a session from March 2026 with these answers, and return its record."""
    return lambda path, answers: calendar("decide", path, answers=answers, since="2026-03-01")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("20260310T", "20260317T", "Team lunch was moved from Tue 10 March, 12:00 to Tue 17 March, 12:00"),
        ("Optional demo", "CRISIS: outage review", '"Optional demo" is now called "CRISIS: outage review"'),
        ("bob@lab", "ceo@lab", "Team lunch: ceo@lab.example came to it"),
        ("\nATTENDEE:mailto:bob@lab.example", "", "Team lunch: bob@lab.example left it"),
        ("Canteen", "Park", "Team lunch: the place is now Park"),
        ("PT60M", "PT150M", "Optional demo lasts 150 minutes and no longer 60"),
    ],
)
def test_what_changed_is_asked_again(decide: Calendar, ics_file: IcsFile, old: str, new: str, said: str) -> None:
    decide(ics_file(LUNCH, OPTIONAL), "a\n")

    answer = decide(ics_file(LUNCH.replace(old, new), OPTIONAL.replace(old, new)), "s\n")

    (conflict,) = answer["conflicts"]
    assert (conflict["decided_before"], conflict["kept"]) == (False, "")
    assert said in conflict["changed"]
    assert answer["declined"] == 0


def test_an_old_decision_is_learned_from_and_asked_again(decide: Calendar, ics_file: IcsFile, tmp_path: Path) -> None:
    path, journal = ics_file(LUNCH, OPTIONAL), tmp_path / "hub.db.decisions.jsonl"
    assert decide(path, "b\n")["strategies"] == [], "one is too few"
    new = json.loads(journal.read_text())
    old = {name: value for name, value in new.items() if name not in ("seen", "id", "at", "session")}
    journal.write_text(f"{json.dumps(old)}\n")

    (asked,) = decide(path, "b\n")["conflicts"]
    again = decide(path, "")

    assert not asked["decided_before"]
    assert asked["changed"] == ["it isn't known when these events were at that time"]
    assert again["conflicts"][0]["decided_before"]
    assert "outreach +0.2" in again["strategies"], "learned from both"


def test_only_what_changed_is_shown_and_asked(decide: Calendar, ics_file: IcsFile, calendar_session: Calendar) -> None:
    decide(ics_file(LUNCH, OPTIONAL), "a\n")
    (unchanged,) = decide(ics_file(LUNCH + "\nDESCRIPTION:Bring a fork", OPTIONAL), "")["conflicts"]
    path = ics_file(LUNCH, OPTIONAL.replace("Optional demo", "Crisis"))

    out = calendar_session("list", path, since="2026-03-01").out

    assert (unchanged["decided_before"], unchanged["kept"]) == (True, "A")
    assert 'you kept Team lunch before; asked again, because\n    "Optional demo" is now called "Crisis"' in out
