"""Killing this very process at a chosen call of a chosen point.

The one rule: a test says so in a file `kill.json` beside the runs; it is gone before the blow, so the resumed run
lives.

    {"point": "episode_done", "call": 7}

The points `fsync` and `torn` are inside of `Journal.append`: after a line was written and before it is on disk, and
with the line's end cut off. `forget` is before a version that is too old is removed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import time
from pathlib import Path
from typing import Any

from agentfw.runs import execution
from agentfw.runs.records import journal

_counts: dict[str, int] = {}
_order: dict[str, Any] = {}


def arm(runs: Path) -> None:
    """Read what is to be done; called when a run starts."""
    file = runs / "kill.json"
    if file.exists():
        _order.update(json.loads(file.read_text("utf-8")), file=file)
        # What these modules import isn't theirs to give, mypy says; only there can it be replaced for them alone.
        if _order["point"] in ("fsync", "torn"):
            journal.os = _OsThatDies()  # type: ignore[attr-defined, assignment]
        if _order["point"] == "forget":
            execution.shutil = _ShutilThatDies()  # type: ignore[attr-defined, assignment]


def acknowledge(runs: Path, episode: str) -> None:
    """Write down what a hook was told of, where a test has asked for that."""
    file = runs / "acknowledged.txt"
    if file.exists():
        with file.open("a", encoding="utf-8") as lines:
            lines.write(f"{episode}\n")


def reached(point: str) -> None:
    """Die here if it is time."""
    if _order.get("point") == point:
        _counts[point] = _counts.get(point, 0) + 1
        if _counts[point] == _order["call"]:
            _order["file"].unlink()
            os.kill(os.getpid(), signal.SIGKILL)


def _die_with_a_torn_end(handle: int) -> None:
    """Die, and leave the file without the end of its last line.

    A child process cuts it off once this process is dead. Done here, another thread could write the next line behind
    the cut before the blow falls, which no crash does. Whoever reads this process's output waits for the child, too.
    """
    dying = os.getpid()
    if os.fork() == 0:
        try:
            os.kill(dying, signal.SIGKILL)
            while os.getppid() == dying:
                time.sleep(0.001)
            os.ftruncate(handle, os.fstat(handle).st_size - 5)
            _order["file"].unlink(missing_ok=True)
        finally:
            os._exit(0)  # whatever happens: two processes must not go on with one run
    signal.pause()


class _OsThatDies:
    """The os module, but for what happens between writing a line and its being on disk."""

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def fsync(self, handle: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)  # of a new file: it has no end to tear
        if not is_folder:
            if _order["point"] == "torn" and _counts.get("torn", 0) + 1 == _order["call"]:
                _die_with_a_torn_end(handle)
            reached(_order["point"])
        os.fsync(handle)


class _ShutilThatDies:
    """The module shutil, but for the moment at which an old state is deleted."""

    def __getattr__(self, name: str) -> Any:
        return getattr(shutil, name)

    def rmtree(self, path: Path, ignore_errors: bool = False) -> None:
        if not ignore_errors:
            reached("forget")
        shutil.rmtree(path, ignore_errors=ignore_errors)
