"""Logs the metrics of a run to its trackers.

If a tracker fails, this is noted once and the tracker is not called again. The run continues, because its folder has
all metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from typing import Any

from ...episode import Episode
from ...errors import AgentfwError
from ...operation import Operation
from ...statistics import Interval
from ...tracker import Tracker
from ..components.creation import Guard
from ..records.figures import flat
from ..records.summary import Summary
from ..spec.resolution import with_defaults
from .observer import Observer, RunInfo

__all__ = ["Tracking"]


class Tracking(Observer):
    """Logs each episode of a run. In a training, it logs each update and each evaluation."""

    def __init__(self, run: RunInfo, trackers: list[tuple[Guard, Tracker]], notes: list[str]) -> None:
        self.run, self.trackers, self.notes = run, trackers, notes

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

    @property
    def traces(self) -> bool:
        """Whether a tracker wants to be told of operations."""
        return any(type(tracker).trace is not Tracker.trace for _, tracker in self.trackers)

    def trace(self, operation: Operation) -> None:
        self._tell("trace", operation)

    def _tell(self, method: str, *arguments: object) -> None:
        for guard, tracker in list(self.trackers):
            try:
                # A copy: whatever it does to the metrics, the others and the run keep theirs. An operation can't be
                # changed.
                with guard.calling(f"{method}()"):
                    getattr(tracker, method)(*(arguments if method == "trace" else deepcopy(arguments)))
            except AgentfwError as error:
                self.trackers.remove((guard, tracker))
                with suppress(Exception, SystemExit):
                    tracker.close()
                self.notes.append(f"{error.message}; it is not called again, and the run folder has all metrics")
