"""A full disk stops a run with a clear word, damages nothing, and when there is room again the run goes on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from command_line import SITE

resource = pytest.importorskip("resource", reason="limits and mounts are of another kind on Windows")


def agentfw(*words: str, prepare: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "agentfw_cli.main", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SITE)},
        preexec_fn=prepare,
        timeout=300,
        check=False,
    )


def lines(folder: Path) -> tuple[set[str], set[str]]:
    """The records of episodes and metrics; a line that isn't whole is an error here."""
    found = [(folder / f"{name}.jsonl").read_text("utf-8") for name in ("episodes", "metrics")]
    assert all(text == "" or text.endswith("\n") for text in found)
    return set(found[0].splitlines()), set(found[1].splitlines())


def undisturbed(folder: Path, *words: str) -> tuple[set[str], set[str]]:
    assert agentfw("run", *words, "--runs", str(folder)).returncode == 0
    return lines(next(folder.iterdir()))


@pytest.mark.slow
def test_a_file_that_may_not_grow_stops_the_run(tmp_path: Path) -> None:
    words = ("inbox", "--episodes", "12")
    expected = undisturbed(tmp_path / "undisturbed", *words)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))

    stopped = agentfw("run", *words, "--runs", str(tmp_path / "runs"), prepare=limit)
    (folder,) = (tmp_path / "runs").iterdir()

    assert stopped.returncode == 1, stopped.stderr
    assert stopped.stdout == ""
    assert re.search(r"error: can't write to .*episodes\.jsonl: File too large\n", stopped.stderr)
    assert f"then resume: agentfw runs resume {folder}" in stopped.stderr
    assert "Traceback" not in stopped.stderr
    assert 0 < len(lines(folder)[0]) < 12

    assert agentfw("runs", "resume", str(folder)).returncode == 0
    assert lines(folder) == expected


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


@pytest.mark.slow
def test_a_report_that_finds_no_room_costs_nothing_but_the_report_and_a_new_run_makes_no_folder(disk: Path) -> None:
    """The run is done by then: its figures are told, and the report can be written later."""
    words = ("guessing", "--policy", "hashing", "--episodes", "8", "--set", "environment.rounds=2")
    assert agentfw("run", *words, "--runs", str(disk / "runs")).returncode == 0
    (folder,) = (disk / "runs").iterdir()
    for name in ("report.html", "curve.svg"):
        (folder / name).unlink()
    filler = fill(disk)

    told, more = agentfw("runs", "resume", str(folder)), agentfw("run", "inbox", "--runs", str(disk / "more"))

    assert told.returncode == 1
    assert "error" in told.stdout.split(), "the table with its figures"
    assert f"then: agentfw report {folder}" in told.stderr
    assert (more.returncode, "error: can't write" in more.stderr) == (1, True)
    assert not any((disk / "more").glob("*"))
    filler.unlink()
    assert agentfw("report", str(folder)).returncode == 0
