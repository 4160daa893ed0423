"""Data goes to stdout, everything else to stderr; `--json` is one JSON value and nothing else."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Agentfw, Install

from agentfw.printing.out import Out, width_of

SLOW = """
import time
from agentfw import hookimpl
time.sleep(0.3)
@hookimpl
def agentfw_tools(): return []
"""


def test_json_of_a_run_a_resumed_one_and_a_report(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    run = agentfw(*quick, "--json")

    assert run.code == 0
    assert set(run.json) >= {"run", "episodes", "figures", "folder", "files"}
    assert Path(run.json["folder"]).name == run.json["run"]
    assert agentfw("runs", "resume", "last", "--json").json["figures"] == run.json["figures"]
    assert len(agentfw("report", "--json").json["files"]) == 2
    one = agentfw(*quick, "--episodes", "1", "--json").json
    assert one["figures"]["error"]["low"] is None, "and no NaN"


def test_a_pipe_gets_plain_text_and_what_a_run_cost(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    run, shown = agentfw(*quick), agentfw("runs", "show", "last")
    words = ("runs list", "plugins list", "plugins show inbox", "doctor", "report last")
    usage = agentfw("runs", "show", "last", "--json").json["summary"]["usage"]

    for answer in (run, shown, *(agentfw(*each.split()) for each in words)):
        assert answer.code == 0
        assert not set("\x1b\r") & set(answer.out + answer.err)
        assert not answer.out.startswith("\n")
    cost = f"{usage['prompt']:,} prompt, {usage['sampled']:,} sampled"
    assert cost in run.out
    assert cost in shown.out
    (page,) = Path("runs").glob("*/report.html")
    assert "prompt tokens" in page.read_text()
    agentfw("run", "inbox", "--episodes", "1")
    assert "tokens   " not in agentfw("runs", "show", "last").out, "a program counts none"


def test_progress_is_on_stderr_and_a_few_lines(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    answer = agentfw(*quick, "--episodes", "100", "--set", "environment.rounds=2")
    told = answer.err.splitlines()

    assert told[0] == "guessing   100 episodes   policy hashing   event driven   seed 7"
    assert told[-2].startswith("200/200   error, last 25: 0.")
    assert 10 <= len(told) <= 15
    assert "200/200" not in answer.out


def test_one_long_episode_tells_its_rounds_and_a_quiet_run_nothing(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    answer = agentfw(*quick, "--episodes", "1", "--set", "environment.rounds=100")

    assert sum("/100   error, last" in line for line in answer.err.splitlines()) == 10
    assert "error by quarter" in answer.out
    # Of episodes, those count that were rated.
    Path("tasks-test.jsonl").write_text("".join(f'{{"prompt": "Which?", "n": {n}}}\n' for n in range(12)))
    Path("some.py").write_text("def some(n, completions):\n    return [None if of in (1, 5) else 1.0 for of in n]\n")
    sets = ("--set", "environment.tasks=tasks-{split}.jsonl", "--set", 'policy.replies=["tea"]')
    answer = agentfw("run", "questions", "--policy", "scripted", *sets, "--episodes", "12", "--reward", "some.py:some")
    assert "reward by quarter   1.00 ▇" in answer.out


def test_quiet_is_quiet(
    agentfw: Agentfw, quick: tuple[str, ...], install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentfw.boundary.gate.SLOW_SECONDS", 0.05)
    install("agentfw-slow", "[agentfw]\nslow = agentfw_slow\n", SLOW)

    answer = agentfw(*quick, "--quiet")

    assert answer.err == ""
    assert "error" in answer.out


def test_a_resumed_run_says_what_is_there(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    agentfw(*quick)
    (folder,) = Path("runs").iterdir()
    (folder / "summary.json").unlink()
    metrics = folder / "metrics.jsonl"
    metrics.write_bytes(b"".join(metrics.read_bytes().splitlines(keepends=True)[:1]))

    listed, shown, resumed = agentfw("runs", "list"), agentfw("runs", "show", "last"), agentfw("runs", "resume", "last")

    assert "interrupted, 1 of 3 episodes" in listed.out
    assert f"agentfw runs resume {folder.name}" in listed.err
    assert "interrupted, 1 of 3 episodes" in shown.out
    assert "1 of them are there already" in resumed.err
    assert agentfw("runs", "list").out.count("done") == 1
    assert "is done already" in agentfw("runs", "resume", "last").err


def test_a_list_of_runs_can_be_limited(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    names = [Path(agentfw(*quick, "--json").json["folder"]).name for _ in range(3)]

    newest, whole = agentfw("runs", "list", "--limit", "2"), agentfw("runs", "list", "--limit", "0", "--json")

    assert [line.split()[0] for line in newest.out.splitlines()[1:]] == [names[2], names[1]]
    assert "1 older run not shown; list all: agentfw runs list --limit 0" in newest.err
    assert [row["run"] for row in whole.json] == names[::-1]
    assert "not shown" not in whole.err


def test_answers_that_were_not_understood_are_told(agentfw: Agentfw) -> None:
    fly = ("--set", 'policy.replies=["{\\"name\\": \\"fly\\"}"]', "--set", "max_turns=2", "--episodes", "1")

    answer = agentfw("run", "guessing", "--policy", "scripted", *fly)

    assert answer.code == 0, answer.err
    assert "answers could not be understood" in answer.err
    assert "answers could not be understood" in agentfw("runs", "show", "last").err


class Terminal(io.StringIO):
    """A stdout that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


@pytest.mark.parametrize("columns", [80, 40, 24])
def test_a_table_fits_and_breaks_no_word(columns: int, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [["2026-11-21-inbox-7f3a", "event driven, in words", "12 of 20 episodes"], ["手紙", "none", "1"]] * 2
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys, "stdout", terminal)

    Out().table(["run", "interface", "progress"], rows, right=(2,))

    lines = terminal.getvalue().splitlines()
    assert max(map(width_of, lines)) <= columns
    words = {word for row in rows for cell in row for word in cell.split()}
    assert set(terminal.getvalue().split()) - {"run", "interface", "progress"} == words
    assert len(lines) == 5 or columns < 60


def test_colour_is_for_terminals_that_want_it(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", terminal)

    assert Out().style("x", "bold") == "\x1b[1mx\x1b[0m"
    for name, value in (("NO_COLOR", "1"), ("TERM", "dumb")):
        with monkeypatch.context() as changed:
            changed.setenv(name, value)
            assert Out().style("x", "bold") == "x"


def test_a_reader_that_has_had_enough_is_no_error(tmp_path: Path) -> None:
    """As in `agentfw run --quiet | head -1`: what the run came to is on disk all the same."""
    words = [sys.executable, "-m", "agentfw_cli.main", "run", "inbox", "--episodes", "8", "--quiet"]
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(words, cwd=tmp_path, stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)

    assert (ended.returncode, ended.stderr) == (0, b"")
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "summary.json").exists()


def test_ctrl_c_ends_any_command_with_a_code_of_its_own(agentfw: Agentfw, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("agentfw_cli.doctor._examine", interrupted)

    answer = agentfw("doctor", "gpu")

    assert (answer.code, answer.err.strip()) == (130, "interrupted")
