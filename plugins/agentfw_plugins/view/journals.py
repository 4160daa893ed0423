"""Finds the journals below a folder of runs, and reads what was added to one since the last look.

A line is read by its place: `Line.at` and `Line.size` are enough to read it again later. A line that is no record is
told as one that is damaged, and what comes after it is read all the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Line", "Place", "new_lines", "places_of", "read_line", "run_folders"]

_DEEPEST = 6
"""A loop keeps its runs in cells/VARIANT/PHASE/RUN."""
_STAGES = {"evaluations": "evaluation", "rollouts": "rollout"}


class Place(NamedTuple):
    """A folder with journals of episodes: the run itself, an evaluation, or the rollouts of an update."""

    path: Path
    stage: str
    number: int


class Line(NamedTuple):
    """A line of a journal."""

    at: int
    size: int
    record: dict[str, Any] | None
    """None if it is damaged."""


def run_folders(root: Path, depth: int = _DEEPEST) -> Iterator[Path]:
    """The folders of runs: `root` itself, or those below it. Runs aren't searched for runs."""
    if (root / "run.json").is_file():
        yield root
        return
    if depth:
        try:
            below = sorted(entry.name for entry in os.scandir(root) if entry.is_dir() and entry.name[:1] != ".")
        except OSError:
            return
        for name in below:
            yield from run_folders(root / name, depth - 1)


def places_of(run: Path) -> list[Place]:
    """The places of a run, in the order in which a training plays them."""
    found = [
        Place(path, stage, int(path.name))
        for folder, stage in _STAGES.items()
        for path in (run / folder).glob("*")
        if path.name.isdigit()
    ]
    # The evaluation after two updates is before the rollouts that the third one learns from.
    found.sort(key=lambda place: (place.number, place.stage == "evaluation"))
    return [Place(run, "", 0), *found]


def new_lines(path: Path, since: int) -> Iterator[Line]:
    """The complete lines from this place of the file on."""
    with suppress(FileNotFoundError), path.open("rb") as handle:
        handle.seek(since)
        at = since
        for line in handle:
            if not line.endswith(b"\n"):
                return  # it is being written
            yield Line(at, len(line), _record(line))
            at += len(line)


def read_line(path: Path, at: int, size: int) -> bytes:
    with path.open("rb") as handle:
        handle.seek(at)
        return handle.read(size)


def _record(line: bytes) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
