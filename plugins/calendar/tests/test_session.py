"""A whole session: proposals, answers, what is learned and kept, and the new file beside the old one."""

from __future__ import annotations

import itertools
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from agentfw.boundary.metadata import entry_points
from agentfw.testing import check_component
from agentfw_calendar.deciding.answers import TakesProposals
from agentfw_calendar.deciding.environment import RealConflicts
from agentfw_calendar.deciding.person_file import PersonFile
from agentfw_calendar.ics.ics_lines import FileLines
from agentfw_calendar.ics.ics_marking import DECLINED
from agentfw_calendar.ics.sources import FileSource
from agentfw_calendar.session import Session, Wishes
from agentfw_memory import StrategyHubs
from agentfw_plugins.plugin import CALENDAR

from .events import Calendar, IcsFile, event

ROOT = Path(__file__).parents[3]

GROUP = """UID:group@lab
DTSTART;TZID=Europe/Berlin:20261005T100000
DTEND;TZID=Europe/Berlin:20261005T110000
RRULE:FREQ=WEEKLY
SUMMARY:Group meeting
X-SOMETHING:of another program
ATTENDEE;CN="Ana; the boss: me";PARTSTAT=ACCEPTED:mailto:ana@lab.example
ATTENDEE:mailto:bob@lab.example
BEGIN:VALARM
ACTION:DISPLAY
TRIGGER:-PT15M
END:VALARM"""
LONG = "Call with Acme, about a contract whose name is so long that its line has to be folded"
JOE = ("ORGANIZER:mailto:joe@acme.example", "ATTENDEE;PARTSTAT=NEEDS-ACTION:mailto:ana@lab.example")
CALL = event("call@acme", "20261123T0930Z", LONG, *JOE)
DENTIST = event("dentist", "20261130T1030", "Dentist", "TRANSP:OPAQUE")


@pytest.fixture
def decided(calendar: Calendar) -> Calendar:
    """What a session prints as JSON; what is answered is said in a file, if anything."""
    return lambda file, *words: calendar("decide", file, *words, answers=None)


def events(path: Path) -> list[tuple[Any, ...]]:
    """What a reader sees of every date of a file."""
    found = Session.open([FileSource(path)], Wishes(60, date(2026, 11, 1)))
    return [(one.entry.uid, one.start, one.end, one.entry.title) for one in found.found]


def test_declined_events_are_marked_and_nothing_else_is(decided: Calendar, tmp_path: Path, ics_file: IcsFile) -> None:
    path = ics_file(GROUP, CALL, DENTIST)
    before = path.read_bytes()
    (tmp_path / "answers.txt").write_text(f"\ufeff# first the call\n{LONG}\na: we decide\u2028there\n", "utf-8")

    answer = decided(path, "--answers", str(tmp_path / "answers.txt"))

    assert path.read_bytes() == before
    written = Path(answer["outputs"][0])
    assert [conflict["kept"] for conflict in answer["conflicts"]] == ["B", "A"]
    old, new = before.splitlines(), written.read_bytes().splitlines()
    gone = [line for line in old if line not in new]
    assert gone == [b"TRANSP:OPAQUE"]
    added = b"\n".join(line for line in new if line not in old)
    assert b"RECURRENCE-ID;TZID=Europe/Berlin:20261123T100000" in added
    assert b"DTEND;TZID=Europe/Berlin:20261123T110000" in added
    assert b'ATTENDEE;CN="Ana; the boss: me";PARTSTAT=DECLINED:mailto:ana@lab.example' in added
    assert new.count(b"X-SOMETHING:of another program") == 2
    assert added.count(DECLINED.encode()) == 2
    assert all(len(line) <= 75 for line in added.splitlines())
    assert events(written) == events(path)


def test_a_changed_date_is_marked_where_it_is_and_lines_end_as_they_did(decided: Calendar, ics_file: IcsFile) -> None:
    date_of = "RECURRENCE-ID;TZID=Europe/Berlin:20261123T100000"
    path = ics_file(GROUP, f"UID:group@lab\n{date_of}\nDTSTART:20261123T093000Z\nDURATION:PT1H\nSUMMARY:Moved", CALL)
    path.write_bytes(path.read_bytes().replace(b"\r\n", b"\n").rstrip())

    written = Path(decided(path, "--yes", "--days", "7")["outputs"][0])

    text = written.read_bytes()
    assert (text.count(b"BEGIN:VEVENT"), text.count(b"TRANSP:TRANSPARENT"), text.count(b"\r")) == (3, 1, 0)
    assert FileLines(text).problems == []
    assert events(written) == events(path)


def test_what_was_answered_is_learned_and_not_asked_again(decided: Calendar, tmp_path: Path, ics_file: IcsFile) -> None:
    noons = [f"202611{23 + n}T1200" for n in range(7)]
    lunches = [event(f"l{noon}", noon, "Lunch", "ATTENDEE:mailto:bob@lab.example") for noon in noons]
    forms = [event(f"f{noon}", noon, "Expenses") for noon in noons]
    first, second = ics_file(*lunches[:6], *forms[:6]), ics_file(*lunches, *forms, name="more.ics")
    assert decided(second, "--answers", os.devnull)["conflicts"] == [], "without an answer, nothing is decided"
    with StrategyHubs.open(tmp_path / "hub.db") as hubs:
        hubs.hub("ana@lab.example").update(["Her boss goes first, whatever it is"])
    (tmp_path / "answers").write_text(json.dumps([{"keep": "Expenses", "why": "money first"}] * 6))

    decided(first, "--answers", "answers")
    later = decided(second, "--yes")

    assert [conflict["decided_before"] for conflict in later["conflicts"]] == [True] * 6 + [False]
    fresh = later["conflicts"][-1]
    kept = next(event["title"] for event in fresh["events"] if event["letter"] == fresh["proposed"])
    assert kept == "Expenses"
    assert "get-together" in fresh["reason"], "what speaks against lunch"
    assert any(strategy.startswith("admin +") for strategy in later["strategies"])
    assert "Her boss goes first, whatever it is" in later["strategies"], "what a model wrote stays"
    with StrategyHubs.open(tmp_path / "hub.db") as hubs:
        changed = [change.round for change in hubs.hub("ana@lab.example").history()]
    assert changed == sorted(set(changed))
    assert changed[-1] <= 7
    anew = decided(second, "--yes", "--anew")
    assert not any(conflict["decided_before"] for conflict in anew["conflicts"])


@pytest.mark.parametrize(
    ("policy", "proposes"),
    [
        (("rules", "--set", "policy.rule=earliest"), {"A", "B"}),
        (("random",), {"A", "B", ""}),  # chance may name an event that isn't there; then nothing is proposed
        (("scripted", "--set", 'policy.replies=["I don\'t know."]'), {""}),
    ],
)
def test_any_policy_of_the_benchmark_proposes_and_what_it_does_not_decide_is_left(
    decided: Calendar, ics_file: IcsFile, policy: Sequence[str], proposes: set[str]
) -> None:
    answer = decided(ics_file(GROUP, CALL, DENTIST), "--yes", "--policy", *policy)

    assert answer["policy"] == policy[0]
    assert {conflict["proposed"] for conflict in answer["conflicts"]} <= proposes
    assert [one["kept"] for one in answer["conflicts"]] == [one["proposed"] for one in answer["conflicts"]]
    assert answer["declined"] == sum(bool(one["proposed"]) for one in answer["conflicts"])


def test_a_wrong_answer_costs_no_other_one(decided: Calendar, calendar_session: Calendar, ics_file: IcsFile) -> None:
    path = ics_file(GROUP, CALL, DENTIST)

    done = calendar_session("decide", path, answers="b\nperhaps\n")

    assert done.code == 2
    assert 'stdin, line 2: "perhaps" is no answer: answer one of A, B, s or q' in done.err
    assert not path.with_name("my.decided.ics").exists()
    assert decided(path, "--yes")["conflicts"][0]["decided_before"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no terminal to ask on"),
        (("--yes", "--answers", "x"), "can't be combined"),
        (("--yes", "--output", "my.ics"), "never changed"),
        (("--yes", "--output", "nowhere/x.ics"), "there is no directory"),
        (("--yes", "--from", "9999-12-31"), "go beyond the year 9999"),
        (("--yes", "--hub", "my.ics"), "can't keep what is learned"),
        (("--yes", "--policy", "liner"), 'did you mean "linear"?'),
    ],
)
def test_what_cannot_be_done_is_refused(
    calendar_session: Calendar, ics_file: IcsFile, words: Sequence[str], message: str
) -> None:
    path = ics_file(GROUP, CALL, DENTIST)
    before = path.read_bytes()

    done = calendar_session("decide", path, *words)

    assert done.code == 2
    assert message in done.err
    assert path.read_bytes() == before
    assert not path.with_name("my.decided.ics").exists()


def test_a_second_session_goes_on_with_the_file_and_output_takes_another(decided: Calendar, ics_file: IcsFile) -> None:
    path = ics_file(GROUP, CALL, DENTIST)
    other = path.parent / ".." / path.parent.name / path.name

    calls = ((path,), (other,), (path, "--output", "given.ics"))
    names = [decided(*words, "--yes")["outputs"][0] for words in calls]

    assert [Path(name).name for name in names] == ["my.decided.ics", "my.decided.ics", "given.ics"]
    # What changed says when, to the second.
    whole = [re.sub(rb"(DTSTAMP|LAST-MODIFIED):[0-9TZ]+", rb"\1:", Path(name).read_bytes()) for name in names]
    assert whole[0] == whole[1] == whole[2]


def test_a_bare_series_at_the_very_end_of_a_file_is_marked(decided: Calendar, tmp_path: Path) -> None:
    path = tmp_path / "bare.ics"
    head = "ATTENDEE:mailto:ana@lab.example"
    events_of = [f"UID:{n}\nDTSTART:20261123T0{n}0000Z\nDURATION:PT2H\nRRULE:FREQ=WEEKLY\n{head}" for n in (8, 9)]
    path.write_text("\n".join(f"BEGIN:VEVENT\n{event}\nEND:VEVENT" for event in events_of))
    (tmp_path / "answers").write_text("a\nb\n")

    answer = decided(path, "--days", "14", "--answers", "answers", "--me", "ana@lab.example")

    written = Path(answer["outputs"][0])
    assert written.read_bytes().startswith(path.read_bytes().partition(b"END:VEVENT")[0])
    assert written.read_text().count("PARTSTAT=DECLINED") == 2
    assert decided(written, "--days", "14", "--yes", "--anew")["conflicts"] == []


def test_what_a_broken_file_says_cannot_command_the_terminal(calendar_session: Calendar, ics_file: IcsFile) -> None:
    done = calendar_session("decide", ics_file("UID:1\nSUMMARY:\x1b]0;owned\x07\nDTSTART:never\x1b[2J"), "--yes")

    assert done.code == 0
    assert "line 5" in done.err
    assert not {"\x1b", "\x07"} & set(done.out + done.err)


class Typed:
    """A session on a terminal of its own."""

    def __init__(self, file: Path) -> None:
        self.terminal, other = pty.openpty()
        words = ("decide", str(file), "--from", "2026-11-23", "--hub", str(file.with_name("hub.db")))
        command = [sys.executable, "-m", "agentfw_cli.main", "calendar", *words]
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
        self.process = subprocess.Popen(
            command, stdin=other, stdout=other, stderr=other, env=environment, start_new_session=True
        )
        os.close(other)
        self.seen = ""

    def until(self, text: str) -> None:
        limit = time.monotonic() + 300
        while text not in self.seen:
            assert time.monotonic() < limit, self.seen
            try:
                self.seen += re.sub(r"\x1b\[[0-9;]*m", "", os.read(self.terminal, 4096).decode(errors="replace"))
            except OSError:
                break
        assert text in self.seen, self.seen

    def says(self, text: str) -> None:
        self.seen = ""
        os.write(self.terminal, text.encode())


def test_on_a_terminal_a_person_is_shown_everything_and_asked_and_a_kill_loses_no_answer(
    decided: Calendar, ics_file: IcsFile
) -> None:
    leave = "UID:leave\nDTSTART;VALUE=DATE:20261203\nDTEND;VALUE=DATE:20261205\nSUMMARY:Annual leave"
    path = ics_file(GROUP, CALL, DENTIST, leave, event("board", "20261204T1000", "Board meeting"))
    typed = Typed(path)

    typed.until("q stop, ? help)")
    head = " ".join(typed.seen.split())  # where lines break depends on the length of the folder's name
    assert "ana@lab.example Europe/Berlin 23 November 2026 to 20 December 2026" in head
    assert "policy" not in head, "it matters to whoever chose one"
    assert "1 of 3   Fri 4 December 2026" in typed.seen
    assert "A  Thu 3 December to Fri 4 December  Annual leave" in typed.seen
    assert "B  10:00 - 11:00 " in typed.seen
    typed.says("Familie geht vor\n")
    typed.until("a reason goes behind the letter")
    typed.says("?\n")
    typed.until("leave all of them as they are")
    typed.says("s\n")
    typed.until("2 of 3   Mon 23 November 2026")
    typed.says("a because we decide there\n")
    typed.until("kept Group meeting; declined Call with Acme")
    typed.until("3 of 3   Mon 30 November 2026")
    typed.says("u\n")
    typed.until("your previous answer is taken back")
    typed.until("2 of 3")
    typed.says("a\n")
    typed.until("3 of 3")
    typed.until("q stop, ? help)")
    typed.process.kill()
    typed.process.wait(300)

    assert not path.with_name("my.decided.ics").exists()
    assert [one["kept"] for one in decided(path, "--yes")["conflicts"] if one["decided_before"]] == ["A"]


@pytest.mark.nightly
@pytest.mark.parametrize("by", ["ctrl-d", "ctrl-c"])
def test_a_session_that_is_ended_at_the_prompt_says_how_to_go_on(ics_file: IcsFile, by: str) -> None:
    typed = Typed(ics_file(GROUP, CALL, DENTIST))
    typed.until("q stop, ? help)")
    typed.says("a\n")
    typed.until("2 of 2")
    typed.until("q stop, ? help)")

    time.sleep(0.5)  # the prompt is out a moment before the terminal is read; nobody's Ctrl-C is that quick
    typed.says("\x04") if by == "ctrl-d" else typed.process.send_signal(signal.SIGINT)

    if by == "ctrl-d":
        typed.until("there is more: run the same command again to go on")
        assert "1 conflict: " in typed.seen
    assert typed.process.wait(300) == (0 if by == "ctrl-d" else 130)


def test_the_address_of_the_page_is_told_at_once_also_in_a_pipe(ics_file: IcsFile, tmp_path: Path) -> None:
    pytest.importorskip("starlette")
    pytest.importorskip("uvicorn")
    words = ["calendar", "serve", str(ics_file(GROUP, CALL)), "--hub", str(tmp_path / "hub.db"), "--port", "0"]
    command = [sys.executable, "-m", "agentfw_cli.main", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("http://127.0.0.1:")
        finally:
            process.kill()


def test_agentfw_knows_what_to_install_for_each_name() -> None:
    entries = [entry for entry in entry_points("agentfw.commands") if entry.distribution == CALENDAR.name]

    assert {"command": tuple(entry.name for entry in entries)} == CALENDAR.offers
    assert (ROOT / CALENDAR.folder / "pyproject.toml").is_file()


def test_a_persons_calendar_keeps_the_promises_of_an_environment(tmp_path: Path, ics_file: IcsFile) -> None:
    path = ics_file(GROUP, CALL, DENTIST)
    made = itertools.count()

    def make() -> RealConflicts:
        session = Session.open([FileSource(path)], Wishes(60, date(2026, 11, 1)))
        known = PersonFile(tmp_path / f"{next(made)}.db", "ana@lab.example")
        return RealConflicts(session.agenda, TakesProposals(), known, session.home)

    results = check_component("environment", make)

    assert [(result.promise, result.detail) for result in results if not result.passed and not result.skipped] == []
