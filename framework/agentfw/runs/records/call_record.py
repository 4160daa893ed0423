"""What the components of a run were asked, and what they are being asked now: a small file that is always up to date.

`os._exit`, a crash in C or `kill -9` leaves no traceback. The file then still has the call that was running, because it
is written when the call begins, and a dead process takes nothing back that the system has.

calls.jsonl has one line for each component, of a fixed width, so that each can be written over where it stands. The
file is mapped into memory: writing to it takes a fiftieth of the time of a system call.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import IO, Any

from ...boundary.guard import CallCounts
from ...errors import storing
from .journal import make_private

FILE = "calls.jsonl"
_WIDTH = 1024  # bytes of a line
_ROWS = 32  # number of lines to begin with
_SHOWN = 3  # number of running calls of a component that are written, the newest of them: one is what a process dies of


class CallRow:
    def __init__(self, record: CallRecord, place: int, kind: str, name: str, title: str) -> None:
        self.record, self.place = record, place
        self.calls, self.failures, self.seconds = 0, 0, 0.0
        self.cost: float | None = 0.0  # of its tokens, where a model answers for it. None if that isn't known
        self.running: dict[int, str] = {}  # the calls in progress, as JSON
        self._cost, self._head = "0.0", json.dumps({"kind": kind, "name": _within(name, 100), "title": title})[:-1]
        self.add(0, 0, 0.0)

    def begin(self, call: str, episode: str = "") -> int:
        """A call begins. The number is to be given to `end`."""
        number = next(self.record.numbers)
        self.running[number] = f"[{number}, {_quoted(call)}, {_quoted(episode)}]"
        self.write()
        return number

    def end(self, number: int, *, seconds: float | None = None, failed: bool = False) -> None:
        """A call is over. It is counted if it failed, or says how long it took."""
        del self.running[number]
        if seconds is not None or failed:
            self.add(1, failed, seconds or 0.0)
        self.write()

    def count(self, seconds: float, *, failed: bool) -> None:
        self.add(1, failed, seconds)
        self.write()

    def spend(self, cost: float | None) -> None:
        self.add(0, 0, 0.0, cost)

    def add(self, calls: int, failures: int, seconds: float, cost: float | None = 0.0) -> None:
        self.calls += calls
        self.failures += failures
        self.seconds += seconds
        if cost != 0.0:
            self.cost = None if self.cost is None or cost is None else self.cost + cost
            self._cost = json.dumps(self.cost)
        # Put together by hand, and not again while it stays the same: a line is written twice for every call.
        self._counts = (
            f'{self._head}, "calls": {self.calls}, "failures": {self.failures}, "seconds": {self.seconds:.4f}, '
            f'"cost": {self._cost}, "running": ['
        )

    def write(self) -> None:
        running, more = "", 0
        if self.running:
            newest = list(self.running.values())[-_SHOWN:]
            running, more = ", ".join(newest), len(self.running) - len(newest)
        self.record.write(self.place, f'{self._counts}{running}], "more": {more}}}')


@lru_cache(maxsize=256)
def _quoted(text: str) -> str:
    return json.dumps(_within(text, 60))


def _within(text: str, most: int) -> str:
    """As much of a text as fits into its part of a line. As JSON, a letter of another alphabet takes six bytes."""
    text = text[:most]
    while len(json.dumps(text)) > most + 2:
        text = text[:-1]
    return text


class CallRecord(CallCounts):
    def __init__(self) -> None:
        self.rows: dict[str, CallRow] = {}  # by title
        self._file: IO[bytes] | None = None
        self._map: mmap.mmap | None = None
        self.numbers = count(1)

    def row(self, kind: str, name: str, title: str) -> CallRow:
        if (title := _within(title, 200)) not in self.rows:
            self.rows[title] = CallRow(self, len(self.rows), kind, name, title)
        return self.rows[title]

    def open(self, folder: Path) -> None:
        """Go on with the counts of earlier executions, and write from now on."""
        for line in read_calls(folder):
            row = self.row(line["kind"], line["name"], line["title"])
            row.add(line["calls"], line["failures"], line["seconds"], line["cost"])
        with storing(f"write {folder / FILE}"):
            # Under another name first: to cut a file short that a process has mapped would end that process.
            new = folder / f"{FILE}.{os.getpid()}"
            make_private(new)
            self._file = new.open("r+b", buffering=0)
            self._file.truncate()
            self._grow(_ROWS * _WIDTH)
            new.replace(folder / FILE)
        for row in self.rows.values():
            row.write()

    def close(self) -> None:
        if self._map is not None and self._file is not None:
            self._map.close()
            self._file.close()
            self._map = self._file = None

    def write(self, place: int, line: str) -> None:
        if self._map is None:
            return
        if len(self._map) <= place * _WIDTH:
            self._grow(2 * len(self._map))
        self._map[place * _WIDTH : (place + 1) * _WIDTH] = line.encode().ljust(_WIDTH - 1) + b"\n"

    def _grow(self, size: int) -> None:
        assert self._file is not None
        if self._map is not None:
            self._map.close()
        # Written, not only made longer: a mapped file that finds no room on the disk ends the process.
        before = self._file.seek(0, os.SEEK_END)
        self._file.write((b"{}".ljust(_WIDTH - 1) + b"\n") * ((size - before) // _WIDTH))
        self._map = mmap.mmap(self._file.fileno(), size)


def read_calls(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run, also while another process writes them. Damaged ones keep nobody from reading the run."""
    found = []
    with suppress(OSError):
        for line in (folder / FILE).read_bytes().splitlines():
            with suppress(ValueError, KeyError, TypeError, RecursionError):
                row = json.loads(line)
                row["calls"] + row["failures"] + row["seconds"] + (row["cost"] or 0) + row["more"]
                "".join([row["kind"], row["name"], row["title"]])
                [f"{call} {where}" for _, call, where in row["running"]]
                found.append(row)
    return found


def call_table(calls: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    rows = []
    for row in (row for row in calls if row["calls"]):
        cost = "unknown" if row["cost"] is None else f"{row['cost']:.4g}" if row["cost"] else ""
        rows.append([str(row["title"]), f"{row['calls']:,}", f"{row['failures']:,}", f"{row['seconds']:.1f} s", cost])
    return ["component", "calls", "failed", "time", "cost"], rows


def running_calls(folder: Path) -> list[str]:
    """What is running, or was when the process ended: the newest call first, in words."""
    found: list[tuple[int, str]] = []
    for line in read_calls(folder):
        for number, call, episode in line["running"]:
            where = f" of episode {episode}" if episode else ""
            others = f", and {line['more']} more of its calls" if line["more"] else ""
            found.append((number, f"{line['title']} in {call}{where}{others}"))
    return [text for _, text in sorted(found, reverse=True)]
