"""What is kept of a person on disk: decisions, strategies learned from them, and what was written to calendars.

An answer is on disk before it is used, and a record of what is written before the calendar is changed. After an
interruption everything is found again, nothing is asked twice, and no change is without its record. The files are
readable by their owner only.

    with PersonFile(Path("calendar.db"), "ana@lab.example") as known:
        known.decisions, known.hub.list()
        known.written.note(Writing(...))
        known.written.marks                   # all that is still in force

There are three files: the one that is named holds the StrategyHub, a journal beside it, `.decisions.jsonl`, each
decision with its tags, and another, `.written.jsonl`, what was written to calendars, with the events as they were
before. From the decisions a policy that learns from choices learns again what it knew.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

import click

from agentfw import Task, Tool
from agentfw.errors import StorageError, UsageError
from agentfw.runs import Journal, make_private, read_journal
from agentfw_memory import HubRefusal, StrategyHub
from agentfw_plugins.memories.strategyhub import StrategyHubMemory, StrategyHubSettings
from agentfw_plugins.worlds.calendar.choice_model import FEATURES, ChoiceLearner, Floats, Prior, choices
from agentfw_plugins.worlds.calendar.event_attributes import in_words

from ..ics.ics_marking import Mark
from ..language.wording import COUNTED
from .knowledge import PINNED, Preference, Statement, assumed_round, pinned_round, statements
from .precedents import Facts


def local_day(start: str) -> date:
    """The day of a time, in this machine's zone, as it is shown."""
    return datetime.fromisoformat(start).astimezone().date()


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
    calendars: Sequence[str] = ()
    """All calendars of the session, which the events of the conflict may be in."""

    @property
    def uid(self) -> str:
        return str(self.seen[self.mark.key]["uid"])

    @property
    def day(self) -> date:
        return local_day(self.start)

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
        self.person, self._path = person, path
        self.read_again()
        self._journal: Journal | None = None
        if not read_only:
            make_private(path)
            self._journal = Journal.open(path)

    def read_again(self) -> None:
        """Take in what was written by now, also by another session of this person."""
        self._marks: dict[tuple[str, str], Noted] = {}
        self._outputs: dict[str, tuple[Path, frozenset[str]]] = {}
        for record in read_journal(self._path):
            if record["person"] == self.person:
                self._take(record)

    @property
    def marks(self) -> list[Noted]:
        """The marks that were neither undone nor replaced by later ones, in order of time."""
        return list(self._marks.values())

    def find(self, source: str, key: str) -> Noted | None:
        return self._marks.get((source, key))

    def output(self, source: str) -> tuple[Path, frozenset[str]] | None:
        """The file that was written last for a calendar, and the digests of what was to be written for it."""
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
                _, digests = self._outputs.get(writing["source"], (None, frozenset[str]()))
                self._outputs[writing["source"]] = (Path(writing["output"]), digests | {writing["digest"]})


_PLACES = 6
"""Number of strategies derived from decisions; the rest of the hub is for a model."""
_LEAST = 0.2
"""Minimum weight of a strategy."""
_MOST = 300
"""Number of latest decisions to learn from; people change, and each costs time."""
_NAMED = 2


def data_file() -> Path:
    """The default file, in the data directory of this system's user."""
    if sys.platform.startswith(("win", "darwin")):
        return Path(click.get_app_dir("agentfw")) / "calendar.db"
    given = os.environ.get("XDG_DATA_HOME", "")
    root = Path(given) if Path(given).is_absolute() else Path.home() / ".local" / "share"
    return root / "agentfw" / "calendar.db"


def people_of(path: Path) -> list[str]:
    """Everybody who decided something in this file."""
    names = [path.with_name(f"{path.name}.{kind}.jsonl") for kind in ("decisions", "written")]
    found = [record.get("person") or record.get("whose", "") for name in names for record in read_journal(name)]
    return sorted({name for name in found if name})


class PersonHub(StrategyHubMemory):
    """The StrategyHub as a memory and a tool for one person. It lasts across sessions."""

    def __init__(self, path: Path, person: str) -> None:
        super().__init__(StrategyHubSettings(path=str(path), show=True))
        self.person = person
        self.editable = True
        """Whether a model gets the tool that edits the hub."""

    def tools(self, task: Task) -> Sequence[Tool]:
        return super().tools(task) if self.editable else ()

    def begin(self, task: Task) -> None:
        """Keep the hub of the sessions before."""

    def hub(self, task: Task) -> StrategyHub:
        return self.hubs.hub(self.person)


class PersonFile:
    """One person's decisions and strategies. With `read_only`, no file is made or changed."""

    def __init__(self, path: Path, person: str, *, read_only: bool = False) -> None:
        self.path, self.person = path, person
        journal = path.with_name(f"{path.name}.decisions.jsonl")
        try:
            if not read_only:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                make_private(path)
            self.memory = PersonHub(Path(":memory:") if read_only and not path.exists() else path, person)
            self.memory.editable = not read_only
            self.hub = self.memory.hub(Task(0, 0))
            self._strategies = self.hub.list()
        except (UsageError, ValueError, sqlite3.Error, OSError) as error:
            raise UsageError(
                f"can't keep what is learned in {path}: {error}", fix="choose another --hub FILE"
            ) from None
        self.decisions: list[dict[str, Any]] = []
        """In order of time, without those that were undone."""
        self.titles: list[str] = []
        """Of all events that were ever decided about."""
        self.pinned: list[Preference] = []
        self.left_open: dict[str, Any] = {"conflicts": [], "sources": []}
        """What was left undecided in the last session, and in which calendars."""
        self._unlearned: set[str] = set()
        """Ids of decisions that hold for their events, and aren't learned from."""
        self.session = secrets.token_hex(4)
        """Names what is decided from now on."""
        for number, record in enumerate(read_journal(journal), start=1):
            if person in (record.get("person"), record.get("whose")):
                self._take({"id": str(number), **record})
        self._journal: Journal | None = None
        if not read_only:
            make_private(journal)
            self._journal = Journal.open(journal)
        self.written = Written(path.with_name(f"{path.name}.written.jsonl"), person, read_only=read_only)
        self._learn_again()

    @property
    def rounds(self) -> list[dict[str, Any]]:
        """What a policy learns from: what is assumed at first, what is pinned, and the decisions."""
        pinned = [assumed_round(), *(pinned_round(preference) for preference in self.pinned * PINNED)]
        decided = [
            {name: decision.get(name, []) for name in ("events", "accepted", "reasons")}
            for decision in self.choices[-_MOST:]
            if decision["id"] not in self._unlearned and not decision.get("away")
        ]
        return [*pinned, *decided]

    def statements(self) -> list[Statement]:
        """What is known of the person, in sentences."""
        learned = [one for one in self.choices if one["id"] not in self._unlearned and not one.get("away")]
        return statements(learned, self.pinned)

    def pin(self, preference: Preference) -> None:
        """Say that a preference holds, whatever was decided."""
        self._append(whose=self.person, pin=[preference.first, preference.second])
        self._learn_again()
        self._count()

    def forget(self, statement: Statement) -> None:
        """Unpin a sentence, and learn no more from the decisions behind it. They still hold for their events."""
        ids = sorted(str(decision["id"]) for decision in statement.decisions)
        preference = statement.preference
        self._append(whose=self.person, forget=[preference.first, preference.second], unlearned=ids)
        self._learn_again()
        self._count()

    @property
    def choices(self) -> list[dict[str, Any]]:
        """The decisions in which one event was kept."""
        return [decision for decision in self.decisions if decision["accepted"]]

    @property
    def goes(self) -> dict[str, bool]:
        """Whether the person goes to what has this title, where they said it."""
        return {str(one["events"][0]["title"]).casefold(): bool(one["goes"]) for one in self.decisions if "goes" in one}

    def note(self, decision: Mapping[str, Any]) -> list[str]:
        """Save a decision and learn from it. Returns what changed most, as the hub writes it."""
        about = {"session": self.session, "at": datetime.now(UTC).isoformat()}
        record = self._append(person=self.person, id=secrets.token_hex(4), **about, **decision)
        before = self._learner.weights.copy()
        if not record.get("away"):  # that somebody is away says nothing of what they prefer
            self._learner.observe_all(_choices(record))
        self._count()
        moved = self._learner.weights - before
        most = sorted(range(len(moved)), key=lambda place: -round(float(abs(moved[place])), 3))[:_NAMED]
        return [f"{in_words(FEATURES[place])} {moved[place]:+.1f}" for place in most if abs(moved[place]) >= 0.05]

    def note_both(self, decision: Mapping[str, Any]) -> None:
        """Save that all events stay. Nothing is learned from it."""
        about = {"session": self.session, "at": datetime.now(UTC).isoformat()}
        self._append(whose=self.person, id=secrets.token_hex(4), **about, kept=None, accepted="", **decision)

    def note_open(self, conflicts: Sequence[Mapping[str, Any]], sources: Sequence[str]) -> None:
        """Save what was left undecided, so that it is seen later what the person did about it by hand."""
        found = {"conflicts": list(conflicts), "sources": list(sources)}
        if self._journal is not None and found != self.left_open and (conflicts or self.left_open["conflicts"]):
            self._append(whose=self.person, open=found)

    def note_by_hand(self, conflict: Mapping[str, Any], kept: str) -> None:
        """Learn from what the person moved, declined or deleted by themselves. It is no decision about other dates."""
        about = {"session": self.session, "at": datetime.now(UTC).isoformat()}
        taken = {"proposed": "", "why": "", "scope": "", "move": False, "reasons": [], "keys": [], "by_hand": True}
        self._append(
            person=self.person, id=secrets.token_hex(4), **about, **conflict, **taken, accepted=kept, kept=None
        )
        self._learn_again()
        self._count()

    def undo(self) -> dict[str, Any] | None:
        """Take back the last answer and what was learned from it. Returns it, or None if there is none."""
        said = (one for one in reversed(self.decisions) if not (one.get("again") or one.get("by_hand")))
        if (decision := next(said, None)) is not None:
            self.take_back([decision["id"]])
        return decision

    def take_back(self, ids: Collection[str]) -> None:
        """Take back decisions, and what was learned from them."""
        self._append(whose=self.person, taken_back=sorted(ids))
        self._learn_again()
        self._count()

    def ask_again(self, keys: Collection[str], seen: Mapping[str, Facts]) -> None:
        """Take back a decision for one date, where it was made for a series."""
        self._append(whose=self.person, id=secrets.token_hex(4), keys=sorted(keys), seen=seen, accepted="", again=True)

    def _append(self, **record: Any) -> dict[str, Any]:
        assert self._journal is not None
        written = self._journal.append(record)
        self._take(written)
        return written

    def _take(self, record: dict[str, Any]) -> None:
        """Add a record of the journal to what is known."""
        if record.get("undone"):
            last = self.choices[-1]["id"]
            self.decisions = [decision for decision in self.decisions if decision["id"] != last]
        elif "open" in record:
            self.left_open = record["open"]
        elif "pin" in record:
            first, second = record["pin"]
            self._unpin(first, second)
            self.pinned.append(Preference(first, second))
        elif "forget" in record:
            self._unpin(*record["forget"])
            self._unlearned.update(record["unlearned"])
        elif "taken_back" in record:
            self.decisions = [decision for decision in self.decisions if decision["id"] not in record["taken_back"]]
        else:
            self.decisions.append(record)
            self.titles += [event["title"] for event in record.get("events", ())]
            if record.get("by_hand"):  # it is learned once, also if this session is interrupted
                left = [one for one in self.left_open["conflicts"] if one["seen"] != record["seen"]]
                self.left_open = {**self.left_open, "conflicts": left}

    def _unpin(self, first: str, second: str) -> None:
        self.pinned = [one for one in self.pinned if {one.first, one.second} != {first, second}]

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
        self.written.close()
        self.memory.hubs.close()

    def __enter__(self) -> PersonFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _learn_again(self) -> None:
        self._learner = ChoiceLearner(Prior.flat())
        # What is assumed at first is for proposals. Here counts what the person said.
        said = self.rounds[1:]
        self._learner.observe_all([found for one in said for found in _choices(one)])

    def _count(self) -> None:
        """Write the strategies from the decisions into the hub, unless a model maintains it."""
        listed = self.hub.list()
        if listed != self._strategies:
            return
        weights = dict(zip(FEATURES, self._learner.weights, strict=True))
        # Only that it is part of a series; weekly or monthly is a detail.
        names = [
            name
            for name in FEATURES
            if abs(weights[name]) >= _LEAST and (name == "series=any" or not name.startswith("series="))
        ]
        # Rounded, so that the last digits of the processor don't choose among equals.
        strongest = sorted(names, key=lambda name: -round(float(abs(weights[name])), 3))
        counted = list(dict.fromkeys(f"{in_words(name)} {weights[name]:+.1f}" for name in strongest))[:_PLACES]
        written = [strategy for strategy in listed if not COUNTED.fullmatch(strategy)]
        try:
            self._strategies = self.hub.update([*counted, *written], round=len(self.decisions))
        except HubRefusal:  # a model has filled the hub: its strategies stay
            return
        except sqlite3.Error as error:
            raise StorageError(
                f"can't write to {self.path}: {error}", fix="free some space; your answers are kept"
            ) from None


def _choices(decision: Mapping[str, Any]) -> list[tuple[Floats, int]]:
    return choices(decision["events"], decision["accepted"], decision.get("reasons", ()))
