"""Observers receive the events of a run while it goes on.

Trackers, plugin hooks, the live display and the checks of a training are all observers. They are notified after the
fact: when an observer receives an episode, it is already on disk.

    class Printer(Observer):
        def concluded(self, episode: Episode, record: Mapping[str, Any], done: int) -> None:
            print(episode.id, record["reward"])

    asyncio.run(run.execute(Printer()))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ...episode import Episode, Turn, Usage
from ...errors import AgentfwError
from ...report.statistics import Interval
from ...scores import Score
from ..records.folder import RunFolder
from ..records.summary import Summary
from ..spec.run_spec import RunSpec

__all__ = ["Observer", "RunInfo", "combined_observer"]


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The observed run: its resolved spec and its folder."""

    folder: RunFolder
    spec: RunSpec

    @property
    def id(self) -> str:
        return self.folder.id


class Observer:
    """Base class of observers. Every method does nothing unless it is overridden."""

    def started(self, run: RunInfo, done: int) -> None:
        """The run begins or resumes. `done` updates are already complete."""

    def phase(self, name: str, update: int) -> None:
        """A phase begins: `play`, `learn` or `publish` of an update, or `evaluate` after it.

        With `staleness`, an update is played while another is learned from.
        """

    def phase_ended(self, name: str, update: int) -> None:
        """A phase is over. Not called if it failed."""

    def plays(self, total: int, done: int) -> None:
        """A plan of `total` episodes begins. `done` of them are already on disk."""

    def turned(self, episode: Episode, turn: Turn) -> None:
        """The policy has answered."""

    def spent(self, policy: Usage, judges: Usage) -> None:
        """An answer took tokens. These are the totals of the run, earlier executions included."""

    def played(self, episode: Episode) -> None:
        """An episode is on disk but not scored yet."""

    def scored(self, scores: Sequence[Score]) -> None:
        """A group of episodes was scored."""

    def concluded(self, episode: Episode, record: Mapping[str, Any], done: int) -> None:
        """A scored episode is recorded. `record` is its line of metrics.jsonl."""

    def left_out(self, episodes: Sequence[str], error: AgentfwError, done: int) -> None:
        """Episodes have failed, by their ids. They are recorded and left out, and the run goes on."""

    def updated(self, line: Mapping[str, Any]) -> None:
        """An update is complete. `line` is its line of updates.jsonl. `served` is empty if there was no new version."""

    def evaluated(self, update: int, figures: Mapping[str, Interval]) -> None:
        """An evaluation is complete."""

    def finished(self, summary: Summary) -> None:
        """The run is complete. Not called if it failed or was interrupted."""


def combined_observer(*observers: Observer) -> Observer:
    """One observer that passes everything on to those of several that listen, in this order."""
    together = Observer()
    for name, silent in ((name, method) for name, method in vars(Observer).items() if not name.startswith("_")):
        methods = [getattr(observer, name) for observer in observers]
        listening = [method for method in methods if getattr(method, "__func__", None) is not silent]
        setattr(together, name, partial(_tell, listening))
    return together


def _tell(listening: Sequence[Callable[..., object]], *news: object) -> None:
    for tell in listening:
        tell(*news)
