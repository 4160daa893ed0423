"""What was written to calendars, on disk, so that it can be undone and goes on in the next session.

A record is on disk before the calendar is changed. If that is interrupted, undoing finds nothing to undo, and no change
is ever without its record.

    written = Written(Path("calendar.db.written.jsonl"), "ana@lab.example")
    written.note(Writing(...))
    written.marks                   # all that is still in force

The records hold the events as they were before, so only their owner can read them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentfw.runs import Journal, make_private, read_journal

from .ics_marking import Mark
from .precedents import Facts

__all__ = ["Noted", "Writing", "Written"]


@dataclass(frozen=True, slots=True)
class Noted:
    """A mark in a calendar, and what it was made for."""

    source: str
    """The calendar: a path or an address."""
    part: str
    """The address of the event on a server."""
    title: str
    start: str
    mark: Mark
    seen: Mapping[str, Facts]
    """The events of the conflict, by key, as they were."""
    session: str
    at: str

    @property
    def uid(self) -> str:
        return str(self.seen[self.mark.key]["uid"])

    @property
    def place(self) -> tuple[str, str]:
        return self.source, self.mark.key


@dataclass(frozen=True, slots=True)
class Writing:
    """One change of a calendar."""

    source: str
    output: str
    """The file that is written; empty for a server."""
    digest: str
    """Of the file."""
    marks: Sequence[Noted]


class Written:
    """One person's marks."""

    def __init__(self, path: Path, person: str, *, read_only: bool = False) -> None:
        self.person = person
        self._marks: dict[tuple[str, str], Noted] = {}
        self._outputs: dict[str, tuple[Path, str]] = {}
        for record in read_journal(path):
            if record["person"] == person:
                self._take(record)
        self._journal: Journal | None = None
        if not read_only:
            make_private(path)
            self._journal = Journal.open(path)

    @property
    def marks(self) -> list[Noted]:
        """The marks that were neither undone nor replaced by later ones, in order of time."""
        return list(self._marks.values())

    def find(self, source: str, key: str) -> Noted | None:
        return self._marks.get((source, key))

    def output(self, source: str) -> tuple[Path, str] | None:
        """The file that was written last for a calendar, and its digest."""
        return self._outputs.get(source)

    def note(self, writing: Writing) -> None:
        self._append(writing=asdict(writing))

    def take_back(self, places: Collection[tuple[str, str]]) -> None:
        self._append(taken_back=sorted(places))

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()

    def _append(self, **values: Any) -> None:
        assert self._journal is not None
        self._take(self._journal.append({"person": self.person, **values}))

    def _take(self, record: Mapping[str, Any]) -> None:
        for source, key in record.get("taken_back", ()):
            self._marks.pop((source, key), None)
        if "writing" in record:
            writing = record["writing"]
            for values in writing["marks"]:
                noted = Noted(**{**values, "mark": Mark(**values["mark"])})
                self._marks.pop(noted.place, None)
                self._marks[noted.place] = noted
            if writing["output"]:
                self._outputs[writing["source"]] = (Path(writing["output"]), writing["digest"])
