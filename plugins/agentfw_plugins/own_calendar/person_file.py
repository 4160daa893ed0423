"""What is kept of a person on disk: their decisions, and the strategies learned from them.

An answer is on disk before it is used. After an interruption everything is found again and nothing is asked twice. Both
files are readable by their owner only.

    with PersonFile(Path("calendar.db"), "ana@lab.example") as known:
        known.decisions, known.hub.list()

There are two files: the one that is named holds the StrategyHub, and a journal beside it, `.decisions.jsonl`, each
decision with its tags. From that a policy that learns from choices learns again what it knew.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import click

from agentfw import Task, Tool
from agentfw.errors import StorageError, UsageError
from agentfw.runs import Journal, read_journal
from agentfw_memory import HubRefusal, StrategyHub

from ..memories.strategyhub import StrategyHubMemory, StrategyHubSettings
from ..worlds.calendar.attribute_words import in_words
from ..worlds.calendar.choice_model import FEATURES, ChoiceLearner, Floats, Prior, choices

__all__ = ["PersonFile", "PersonHub", "data_file"]

_COUNTED = re.compile(r".+ [+-]\d+\.\d")
_PLACES = 6
"""Number of strategies derived from decisions; the rest of the hub is for a model."""
_LEAST = 0.2
"""Minimum weight of a strategy."""
_MOST = 500
"""Number of latest decisions to learn from; people change, and each costs time."""
_NAMED = 2


def data_file() -> Path:
    """The default file, in the data directory of this system's user."""
    if sys.platform.startswith(("win", "darwin")):
        return Path(click.get_app_dir("agentfw")) / "calendar.db"
    given = os.environ.get("XDG_DATA_HOME", "")
    root = Path(given) if Path(given).is_absolute() else Path.home() / ".local" / "share"
    return root / "agentfw" / "calendar.db"


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
        self._rounds[task.id] = 0

    def hub(self, task: Task) -> StrategyHub:
        return self._hubs.hub(self.person)

    def shut(self) -> None:
        """`close` for callers that can't await."""
        self._hubs.close()
        self._opened = None


class PersonFile:
    """One person's decisions and strategies. With `read_only`, no file is made or changed."""

    def __init__(self, path: Path, person: str, *, read_only: bool = False) -> None:
        self.path, self.person = path, person
        journal = path.with_name(f"{path.name}.decisions.jsonl")
        try:
            if not read_only:
                path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                _touch(path)  # SQLite gives its other files the mode of the database
            self.memory = PersonHub(Path(":memory:") if read_only and not path.exists() else path, person)
            self.memory.editable = not read_only
            self.hub = self.memory.hub(Task(0, 0))
            self._strategies = self.hub.list()
        except (ValueError, sqlite3.Error, OSError) as error:
            raise UsageError(
                f"can't keep what is learned in {path}: {error}", fix="choose another --hub FILE"
            ) from None
        self.decisions: list[dict[str, Any]] = []
        """In order of time, without those that were undone."""
        for record in read_journal(journal):
            if record.get("person") == person:
                if record.get("undone"):
                    self.decisions.pop()
                else:
                    self.decisions.append(record)
        self._journal: Journal | None = None
        if not read_only:
            _touch(journal)
            self._journal = Journal.open(journal)
        self._learn_again()

    def decided(self, keys: Iterable[str]) -> str | None:
        """Key of the event that was kept when these last conflicted; None if they never did."""
        wanted = sorted(keys)
        for decision in reversed(self.decisions):
            if decision["keys"] == wanted:
                return str(decision["kept"])
        return None

    def note(self, decision: Mapping[str, Any]) -> str:
        """Save a decision and learn from it. Returns what changed most, in words."""
        assert self._journal is not None
        self.decisions.append(self._journal.append({"person": self.person, **decision}))
        before = self._learner.weights.copy()
        self._learner.observe_all(_choices(self.decisions[-1]))
        self._count()
        moved = self._learner.weights - before
        most = sorted(range(len(moved)), key=lambda place: -abs(moved[place]))[:_NAMED]
        return ", ".join(
            f"{in_words(FEATURES[place])} {moved[place]:+.1f}" for place in most if abs(moved[place]) >= 0.05
        )

    def undo(self) -> dict[str, Any] | None:
        """Take back the last decision and what was learned from it. Returns it, or None if there is none."""
        assert self._journal is not None
        if not self.decisions:
            return None
        self._journal.append({"person": self.person, "undone": True})
        decision = self.decisions.pop()
        self._learn_again()
        self._count()
        return decision

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
        self.memory.shut()

    def __enter__(self) -> PersonFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _learn_again(self) -> None:
        self._learner = ChoiceLearner(Prior.flat())
        self._learner.observe_all([found for decision in self.decisions[-_MOST:] for found in _choices(decision)])

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
        strongest = sorted(names, key=lambda name: -abs(weights[name]))
        counted = list(dict.fromkeys(f"{in_words(name)} {weights[name]:+.1f}" for name in strongest))[:_PLACES]
        written = [strategy for strategy in listed if not _COUNTED.fullmatch(strategy)]
        try:
            self._strategies = self.hub.update([*counted, *written], round=len(self.decisions))
        except HubRefusal:  # a model has filled the hub: its strategies stay
            return
        except sqlite3.Error as error:
            raise StorageError(
                f"can't write to {self.path}: {error}", fix="free some space; your answers are kept"
            ) from None


def _touch(path: Path) -> None:
    """Make a file that only its owner can read, unless it exists."""
    os.close(os.open(path, os.O_CREAT | os.O_RDONLY, 0o600))


def _choices(decision: Mapping[str, Any]) -> list[tuple[Floats, int]]:
    return choices(decision["events"], decision["accepted"], decision.get("reasons", ()))
