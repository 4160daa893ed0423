"""Observers receive the events of a run while it goes on: trackers, plugin hooks, the live display and checks.

They are notified after the fact: when an observer receives an episode, it is already on disk. A tracker that fails is
not called again. The run continues, because its folder has all metrics, and notes it at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from ..boundary.crossing import GuardedTracker
from ..boundary.secrets import struck
from ..episode import Episode, Turn, Usage
from ..errors import AgentfwError
from ..host.hook_calls import HookManager
from ..report.statistics import Interval
from ..scores import Score
from ..tracker import Operation
from .records.folder import RunFolder
from .records.summary import Summary, flat
from .spec.resolution import with_defaults
from .spec.run_spec import RunSpec


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

    def learns(self, done: int, of: int, memory: float) -> None:
        """The learner has done so many pieces of an update, and has so many MiB of memory in use."""

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


class HookCalls(Observer):
    def __init__(self, run: RunInfo, hooks: HookManager) -> None:
        self.run, self.hooks = run, hooks

    def started(self, run: RunInfo, done: int) -> None:
        self.hooks.tell("agentfw_run_started", run=run)

    def turned(self, episode: Episode, turn: Turn) -> None:
        self.hooks.tell("agentfw_turn", run=self.run, episode_id=episode.id, turn=turn)

    def played(self, episode: Episode) -> None:
        self.hooks.tell("agentfw_episode_done", run=self.run, episode=episode)

    def scored(self, scores: Sequence[Score]) -> None:
        self.hooks.tell("agentfw_scored", run=self.run, scores=scores)

    def updated(self, line: Mapping[str, Any]) -> None:
        if line["served"]:
            self.hooks.tell("agentfw_updated", run=self.run, version=line["version"], metrics=line["learner"])

    def finished(self, summary: Summary) -> None:
        self.hooks.tell("agentfw_run_finished", run=self.run, summary=summary)


class Tracking(Observer):
    """Logs each episode of a run. In a training, it logs each update and each evaluation."""

    def __init__(self, run: RunInfo, trackers: list[GuardedTracker], notes: list[str]) -> None:
        self.run, self.trackers, self.notes = run, trackers, notes
        self._errors: list[str] = []

    def started(self, run: RunInfo, done: int) -> None:
        self._tell("begin", run.id, run.folder.path, with_defaults(run.spec))

    def concluded(self, episode: Episode, record: Mapping[str, Any], done: int) -> None:
        if not self.run.spec.planned_updates:
            step = episode.task.index * self.run.spec.samples + episode.task.sample
            reward = {} if record["unrated"] else {"reward": record["reward"]}
            self._tell("log", step, {**reward, "utility": episode.utility, **record["outcome"]})

    def updated(self, line: Mapping[str, Any]) -> None:
        self._tell("log", line["update"], flat(line))

    def evaluated(self, update: int, figures: Mapping[str, Interval]) -> None:
        if self.run.spec.planned_updates:
            self._tell("log", update, {f"evaluation/{name}": figure.estimate for name, figure in figures.items()})

    def finished(self, summary: Summary) -> None:
        self._tell("finish", summary.means())

    def close(self) -> None:
        self._tell("close")
        self.notes += [f"{error}; the run folder has what it missed" for error in self._errors]
        self._errors.clear()

    @property
    def traces(self) -> bool:
        """Whether a tracker wants to be told of operations."""
        return any(tracker.overrides("trace") for tracker in self.trackers)

    def trace(self, operation: Operation) -> None:
        self._tell("trace", struck(operation))

    def _tell(self, method: str, *arguments: object) -> None:
        for tracker in list(self.trackers):
            try:
                getattr(tracker, method)(*arguments)
            except AgentfwError as error:
                self.trackers.remove(tracker)
                with suppress(AgentfwError):
                    tracker.close()
                self._errors.append(error.message)
