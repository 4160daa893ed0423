"""Logs the metrics of a run to its trackers.

A tracker that fails is not called again. The run continues, because its folder has all metrics; at its end it is noted
how many steps the tracker missed.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ...boundary.crossing import GuardedTracker
from ...boundary.secrets import struck
from ...episode import Episode
from ...errors import AgentfwError
from ...printing.out import counted
from ...report.statistics import Interval
from ...tracker import Operation
from ..records.figures import flat
from ..records.summary import Summary
from ..spec.resolution import with_defaults
from .observer import Observer, RunInfo

__all__ = ["Tracking"]


class Tracking(Observer):
    """Logs each episode of a run. In a training, it logs each update and each evaluation."""

    def __init__(self, run: RunInfo, trackers: list[GuardedTracker], notes: list[str]) -> None:
        self.run, self.trackers, self.notes = run, trackers, notes
        self.missed: dict[str, int] = {}
        """Number of steps that a tracker missed, by the tracker that failed."""
        self._errors: dict[str, str] = {}
        self._steps = 0

    def started(self, run: RunInfo, done: int) -> None:
        self._tell("begin", run.id, run.folder.path, with_defaults(run.spec))

    def concluded(self, episode: Episode, record: Mapping[str, Any], done: int) -> None:
        if not self.run.spec.planned_updates:
            step = episode.task.index * self.run.spec.samples + episode.task.sample
            self._tell("log", step, {"reward": record["reward"], "utility": episode.utility, **record["outcome"]})

    def updated(self, line: Mapping[str, Any]) -> None:
        self._tell("log", line["update"], flat(line))

    def evaluated(self, update: int, figures: Mapping[str, Interval]) -> None:
        if self.run.spec.planned_updates:
            self._tell("log", update, {f"evaluation/{name}": figure.estimate for name, figure in figures.items()})

    def finished(self, summary: Summary) -> None:
        self._tell("finish", summary.means())

    def close(self) -> None:
        self._tell("close")
        for title, error in self._errors.items():
            missed = f"it missed {self.missed[title]} of {counted(self._steps, 'step')}"
            self.notes.append(f"{error}; {missed}, and the run folder has them all")
        self._errors.clear()

    @property
    def traces(self) -> bool:
        """Whether a tracker wants to be told of operations."""
        return any(tracker.overrides("trace") for tracker in self.trackers)

    def trace(self, operation: Operation) -> None:
        self._tell("trace", struck(operation))

    def _tell(self, method: str, *arguments: object) -> None:
        if method == "log":
            self._steps += 1
            self.missed = {title: count + 1 for title, count in self.missed.items()}
        for tracker in list(self.trackers):
            try:
                getattr(tracker, method)(*arguments)
            except AgentfwError as error:
                self.trackers.remove(tracker)
                with suppress(AgentfwError):
                    tracker.close()
                title = tracker.guard.title
                self._errors[title], self.missed[title] = error.message, int(method == "log")
