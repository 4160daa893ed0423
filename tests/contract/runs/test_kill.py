"""What ends a run in the middle: a kill at the worst of moments, a signal, a full disk. It ends as if undisturbed."""

from __future__ import annotations

import json
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command_line import Agentfw

from agentfw_benchmarks.kills import RunCase, TrainingCase, differences, draw, trial, undisturbed

resource = pytest.importorskip("resource", reason="limits and mounts are of another kind on Windows")

Kind = type[RunCase] | type[TrainingCase]


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all of them are: a language model is there once, for a record says where its model is."""
    return tmp_path_factory.mktemp("together")


@pytest.fixture(scope="module")
def expected(together: Path) -> Any:
    """The outcome of each case when nobody disturbs it, played once."""
    known: dict[str, Any] = {}

    def find(kind: Kind, case: str) -> Any:
        name = f"{kind.__name__} {case}"
        if name not in known:
            known[name] = undisturbed(kind, case, together / f"undisturbed {name}")
        return known[name]

    return find


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("kind", "case"),
    [
        *((RunCase, case) for case in ("inbox", "groups", "memory on disk", "memory in process")),
        *((TrainingCase, case) for case in ("bandit", "memory", "language model", "overlapped", "overlapped pool")),
    ],
)
def test_kills_at_any_moment_change_nothing(kind: Kind, case: str, expected: Any, together: Path) -> None:
    if case == "language model":
        for module in ("torch", "transformers", "peft"):
            pytest.importorskip(module)

    found = trial(kind, case, together / f"killed {case}", expected(kind, case), draw(random.Random(case), 2))

    assert any(found.hit) or not case.startswith("overlapped")
    assert found.differences == ()


def killed(laboratory: RunCase | TrainingCase, point: str, call: int) -> str:
    """Run it until it is killed there. Returns what it told."""
    (laboratory.runs / "kill.json").write_text(json.dumps({"point": point, "call": call}))
    process = laboratory.start()
    told = process.communicate(timeout=300)[1]
    assert process.returncode == -signal.SIGKILL, f"at {point}: {told}"
    return told


# Four episodes are played at once, so a kill while one is scored or learned comes in the middle of the others' turns.
# A killed one is resumed, and the next kill hits what was resumed.
CRITICAL: list[tuple[Kind, str, list[tuple[str, int]]]] = [
    (RunCase, "memory on disk", [("learned", 9), ("torn", 12)]),
    (TrainingCase, "bandit", [("torn", 4), ("publish", 2)]),
]
ONE_BY_ONE: list[tuple[Kind, str, list[tuple[str, int]]]] = [
    (RunCase, "rounds", [("turn", 40), ("run_started", 1), ("episode_done", 1), ("scored", 7), ("run_finished", 1)]),
    (RunCase, "groups", [("scored", 3), ("episode_done", 5), ("fsync", 6)]),
    (RunCase, "memory on disk", [("learn", 9), ("scored", 3)]),
    (RunCase, "memory in process", [("torn", 21), ("episode_done", 21)]),
    (TrainingCase, "bandit", [("run_started", 1), ("scored", 3), ("learn", 2), ("updated", 1), ("run_finished", 1)]),
    (TrainingCase, "bandit", [("forget", 4), ("episode_done", 5)]),
]
RARE = [
    pytest.param(kind, case, [moment], marks=pytest.mark.nightly)
    for kind, case, moments in ONE_BY_ONE
    for moment in moments
]


@pytest.mark.parametrize(("kind", "case", "moments"), [*CRITICAL, *RARE])
def test_kills_at_critical_moments_change_nothing(
    kind: Kind, case: str, moments: list[tuple[str, int]], expected: Any, tmp_path: Path
) -> None:
    laboratory = kind(case, tmp_path / "run")
    for point, call in moments:
        told = killed(laboratory, point, call)
        assert laboratory.lost(told) == []

    assert list(differences(laboratory.finish(), expected(kind, case).left)) == []
    assert laboratory.run is not None
    kept = bool(list(laboratory.run.glob("*.torn")))
    assert kept == (kind is RunCase and "torn" in dict(moments)), "what a crash cut short, and nothing else"


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


# -- a full disk ------------------------------------------------------------------------------------------------------


def lines(folder: Path) -> tuple[set[str], set[str]]:
    """The records of episodes and metrics; a line that isn't whole is an error here."""
    found = [(folder / f"{name}.jsonl").read_text("utf-8") for name in ("episodes", "metrics")]
    assert all(text == "" or text.endswith("\n") for text in found)
    return set(found[0].splitlines()), set(found[1].splitlines())


def test_a_file_that_may_not_grow_stops_the_run(agentfw: Agentfw, tmp_path: Path) -> None:
    words = ("inbox", "--episodes", "12")
    assert agentfw("run", *words, "--runs", str(tmp_path / "undisturbed")).code == 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
    try:
        stopped = agentfw("run", *words, "--runs", str(tmp_path / "elsewhere"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    (folder,) = (tmp_path / "elsewhere").iterdir()

    assert re.search(r"error: can't write to .*episodes\.jsonl: File too large\n", stopped.told(1))
    assert stopped.out == ""
    assert re.search(rf"then resume: agentfw runs resume \S*{folder.name}", stopped.err)
    assert 0 < len(lines(folder)[0]) < 12

    (told,) = re.findall("agentfw (runs resume .*)", agentfw("runs", "list", "--runs", str(folder.parent)).err)
    assert agentfw(*told.split()).code == 0
    assert lines(folder) == lines(next((tmp_path / "undisturbed").iterdir()))


def fill(disk: Path) -> Path:
    """A file that takes all the room that is left."""
    filler = disk / "filler"
    with suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return filler


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A real file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this user may not mount a file system")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_report_without_room_costs_only_the_report_and_new_runs_make_no_folder(agentfw: Agentfw, disk: Path) -> None:
    """The run is done by then: its figures are told, and the report can be written later."""
    words = ("guessing", "--policy", "hashing", "--episodes", "8", "--set", "environment.rounds=2")
    assert agentfw("run", *words, "--runs", str(disk / "runs")).code == 0
    (folder,) = (disk / "runs").iterdir()
    for name in ("report.html", "curve.svg"):
        (folder / name).unlink()
    filler = fill(disk)

    told, more = agentfw("runs", "resume", str(folder)), agentfw("run", "inbox", "--runs", str(disk / "more"))

    assert re.search(rf"then: agentfw report \S*{folder.name}", told.told(1))
    assert "error" in told.out.split(), "the table with its figures"
    assert "error: can't write" in more.told(1)
    assert not any((disk / "more").glob("*"))
    filler.unlink()
    assert agentfw("report", str(folder)).code == 0
