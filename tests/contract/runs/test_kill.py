"""A run that is killed, at random or at the worst of moments, ends as if nobody had disturbed it."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agentfw_benchmarks.kills import RunCase, differences, draw, trial, undisturbed


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The outcome of each case when nobody disturbs it, played once."""
    known: dict[str, Any] = {}

    def find(case: str) -> Any:
        if case not in known:
            known[case] = undisturbed(RunCase, case, tmp_path_factory.mktemp("undisturbed") / "run")
        return known[case]

    return find


@pytest.mark.nightly
@pytest.mark.parametrize("case", ["inbox", "groups", "memory on disk", "memory in process"])
def test_kills_at_any_moment_change_nothing(case: str, expected: Any, tmp_path: Path) -> None:
    found = trial(RunCase, case, tmp_path / "run", expected(case), draw(random.Random(case), 2))

    assert found.differences == ()


# Four episodes are played at once, so a kill while one is scored or learned comes in the middle of the others' turns.
MOMENTS = [
    ("groups", "scored", 3),
    ("memory on disk", "learned", 9),
    ("memory in process", "torn", 21),
]
MORE = [
    ("rounds", "turn", 40),
    ("rounds", "run_started", 1),
    ("rounds", "episode_done", 1),
    ("rounds", "scored", 7),
    ("rounds", "run_finished", 1),
    ("groups", "episode_done", 5),
    ("groups", "fsync", 6),
    ("memory on disk", "learn", 9),
    ("memory on disk", "torn", 12),
    ("memory in process", "episode_done", 21),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "point", "call"), [*MOMENTS, *(pytest.param(*moment, marks=pytest.mark.nightly) for moment in MORE)]
)
def test_a_kill_at_a_critical_moment_changes_nothing(
    case: str, point: str, call: int, expected: Any, tmp_path: Path
) -> None:
    laboratory = RunCase(case, tmp_path / "run")
    (laboratory.runs / "kill.json").write_text(json.dumps({"point": point, "call": call}))

    process = laboratory.start()
    told = process.communicate(timeout=300)[1]

    assert process.returncode == -signal.SIGKILL, told
    assert laboratory.lost(told) == []
    assert list(differences(laboratory.finish(), expected(case).left)) == []
    assert laboratory.run is not None
    torn = list(laboratory.run.glob("*.torn"))
    assert bool(torn) == (point == "torn"), "what a crash cut short is kept beside the journal, and nothing else is"


@pytest.mark.slow
def test_a_run_that_ignores_ctrl_c_is_terminated_all_the_same(tmp_path: Path) -> None:
    """As under nohup, or in the background of a script."""
    laboratory = RunCase("rounds", tmp_path / "run")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process = laboratory.start()
    finally:
        signal.signal(signal.SIGINT, before)
    assert process.stderr is not None
    while not process.stderr.readline().startswith("60/"):
        assert process.poll() is None

    process.send_signal(signal.SIGINT)
    process.terminate()
    told = process.communicate(timeout=120)[1]

    assert process.returncode == 143
    assert "terminated: every episode that was finished is kept" in told


@pytest.mark.slow
def test_an_interruption_is_heard_also_while_nothing_is_waited_for(tmp_path: Path) -> None:
    """The scripted policy never waits: without a pause of its own the run would first end, and then stop."""
    words = ["run", "inbox", "--episodes", "4000", "--runs", str(tmp_path)]
    process = subprocess.Popen(
        [sys.executable, "-m", "agentfw_cli.main", *words],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        # In the background of a script SIGINT is ignored, and a child would inherit that.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stderr is not None
    process.stderr.readline()

    process.send_signal(signal.SIGINT)
    process.communicate(timeout=120)

    assert process.returncode == 130
