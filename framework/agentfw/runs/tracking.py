"""Logs the metrics of a run to its trackers.

If a tracker fails, this is noted once and the tracker is not called again. The run continues, because its folder has
all metrics.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ..episode import Episode
from ..host.plugin_record import describe
from ..statistics import Interval
from ..tracker import Tracker
from .figures import flat
from .observer import Observer, RunInfo
from .summary import Summary

__all__ = ["Tracking"]


class Tracking(Observer):
    """Logs each episode of a run. In a training, it logs each update and each evaluation."""

    def __init__(self, run: RunInfo, trackers: list[Tracker], notes: list[str]) -> None:
        self.run, self.trackers, self.notes = run, trackers, notes

    def started(self, run: RunInfo, done: int) -> None:
        self._tell("begin", run.id, run.folder.path, run.spec.model_dump(mode="json"))

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

    def _tell(self, method: str, *arguments: object) -> None:
        for tracker in list(self.trackers):
            try:
                getattr(tracker, method)(*arguments)
            except Exception as error:
                self.trackers.remove(tracker)
                with suppress(Exception):
                    tracker.close()
                self.notes.append(
                    f"tracker {type(tracker).__name__} raised {describe(error)} in {method} and is not called again; "
                    "the run folder has all metrics"
                )
