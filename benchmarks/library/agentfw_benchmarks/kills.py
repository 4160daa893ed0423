"""Runs and trainings that are killed at random moments and resumed. Their records are read without agentfw's reading.

A run is begun, killed after half a second, and let come to its end:

    inbox = Resumable("inbox", ["run", "inbox"], folder)
    killed, told = kill_after(inbox.start(), 0.5)
    inbox.end()
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from .processes import AGENTFW, with_laboratory


class Resumable:
    """The run or training of a case, in a folder of its own, however often it is killed."""

    def __init__(self, case: str, words: Sequence[str], folder: Path) -> None:
        self.case, self.folder, self.runs = case, folder, folder / "runs"
        self._words = words
        self.runs.mkdir(parents=True)

    @property
    def run(self) -> Path | None:
        """The run's folder, once it is whole enough to be resumed."""
        return next((path.parent for path in self.runs.glob("*/run.json")), None)

    def start(self) -> subprocess.Popen[str]:
        """Begin it, or resume it if it has begun."""
        words = [*self._words, "--runs", str(self.runs)] if self.run is None else ["runs", "resume", str(self.run)]
        return subprocess.Popen(
            [*AGENTFW, *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=with_laboratory(),
            cwd=self.folder,
        )

    def end(self) -> Path:
        """Let it come to its end, undisturbed. Returns its folder."""
        process = self.start()
        _, told = process.communicate()
        if process.returncode != 0:
            raise RuntimeError(f"{self.case} ended with {process.returncode}:\n{told}")
        assert self.run is not None
        return self.run


def kill_after(process: subprocess.Popen[str], seconds: float) -> tuple[bool, str]:
    """Kill a process after a while. Returns whether it still ran, and what it had told."""
    try:
        _, told = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        _, told = process.communicate()
    return process.returncode == -signal.SIGKILL, told


class Killed(Protocol):
    """One run or training that was killed, once or more."""

    @property
    def hit(self) -> Sequence[bool]:
        """Of each kill, whether it still ran then."""


Trial = TypeVar("Trial", bound=Killed)


def trials(
    cases: Sequence[str], kills: int, generator: random.Random, attempt: Callable[[str, int, int], Trial]
) -> list[Trial]:
    """Attempt the cases in turn until so many kills have hit. An attempt gets its case, its number and its kills."""
    found: list[Trial] = []
    left = kills
    while left > 0:
        # Every third is killed again while it is being resumed.
        times = min(left, 2 if generator.random() < 1 / 3 else 1)
        found.append(attempt(cases[len(found) % len(cases)], len(found), times))
        left -= sum(found[-1].hit)
    return found


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The whole lines of a file; read without agentfw, whose reading is under test."""
    if path.exists():
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield json.loads(line)


def episode_of(record: dict[str, Any]) -> str:
    """The name of a record's episode."""
    return str(record.get("episode") or f"{record['task']['index']:05d}-{record['task']['sample']}")


def as_text(value: object) -> str:
    """Equal text for equal values."""
    return json.dumps(value, sort_keys=True)
