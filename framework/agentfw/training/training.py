"""A training and its folder: made, gone on with, summed up.

The one rule: a training that was killed at any moment goes on, and ends with the same policy as one that was never
disturbed.

    training = Training.create(spec, host, Path("runs"))
    summary = asyncio.run(training.execute())
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..episode import Episode, Turn
from ..host import Host
from ..runs.assembly import about_run, resolve, resolve_again
from ..runs.journal import write_whole
from ..runs.summary import Summary, figures_from, figures_record, intervals, summarize
from ..statistics import Interval
from .curriculum import curriculum
from .folder import TrainingFolder
from .loop import Loop
from .parts import Parts, make_parts
from .spec import TrainSpec, parse_train_spec
from .state import State

__all__ = ["Training", "TrainingSummary", "TrainingWatcher"]


class TrainingWatcher:
    """Whoever wants to see a training while it goes on. Every method may be left as it is."""

    def started(self, training: Training, done: int) -> None: ...

    def phase(self, name: str, update: int) -> None:
        """What happens from now on: `play`, `learn` or `publish` of an update, or `evaluate` after it."""

    def plays(self, total: int, done: int) -> None:
        """How many episodes are played now, and how many of them are there already."""

    def turned(self, episode: Episode, turn: Turn) -> None: ...

    def ended(self, episode: Episode, reward: float, done: int) -> None: ...

    def updated(self, line: Mapping[str, Any]) -> None:
        """An update counts; `line` is that of updates.jsonl."""

    def evaluated(self, update: int, figures: Mapping[str, Interval]) -> None: ...

    def finished(self, summary: TrainingSummary) -> None: ...


@dataclass(frozen=True, slots=True)
class TrainingSummary(Summary):
    """What a training came to: the figures are those of the last evaluation, turns and tokens those of all rollouts."""

    updates: int = 0
    version: str = ""
    adapter: str = ""
    """Where the newest version is, below the run's folder."""
    before: Mapping[str, Interval] = field(default_factory=dict)
    """The figures of the evaluation before the first update."""

    def to_record(self) -> dict[str, Any]:
        return {**Summary.to_record(self), "before": figures_record(self.before)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> TrainingSummary:
        figures = {name: figures_from(record[name]) for name in ("figures", "before")}
        return cls(**{**record, **figures})


class Training:
    """One training and its folder."""

    def __init__(self, folder: TrainingFolder, spec: TrainSpec, host: Host, parts: Parts | None = None) -> None:
        self.folder, self.spec, self.host = folder, spec, host
        self._parts = parts

    @property
    def id(self) -> str:
        return self.folder.id

    @classmethod
    def create(cls, spec: TrainSpec, host: Host, root: Path) -> Training:
        """A new training. Everything that can be wrong with the spec is told before the folder is made."""
        resolved, sources = resolve(spec, host)
        parts = make_parts(resolved, host)
        evaluation = spec.evaluation
        about = {
            "kind": "training",
            "total": spec.updates,
            "evaluation_episodes": len(parts.assembly.tasks(evaluation.tasks, evaluation.split)) * evaluation.samples,
            **about_run(resolved, sources, parts.assembly, host),
        }
        curriculum(resolved, parts.assembly)  # too few tasks are told now
        return cls(TrainingFolder.create(root, spec.environment.name, about), resolved, host, parts)

    @classmethod
    def open(cls, folder: TrainingFolder, host: Host) -> Training:
        """A training that is there already; a plugin that is missing or has changed since is told."""
        spec = parse_train_spec(folder.about["spec"], f"{folder.path}/run.json")
        return cls(folder, resolve_again(spec, folder, host), host)

    async def execute(self, watcher: TrainingWatcher | None = None) -> TrainingSummary:
        """Do the updates that are missing, and sum up. A training that is done already is not begun again."""
        self.folder.lock()
        try:
            done = self.folder.summary()
            return TrainingSummary.from_record(done) if done else await self._execute(watcher or TrainingWatcher())
        finally:
            self.folder.unlock()

    async def _execute(self, watcher: TrainingWatcher) -> TrainingSummary:
        parts, self._parts = self._parts or make_parts(self.spec, self.host), None
        began = time.monotonic()
        try:
            await parts.assembly.open(self.folder.path)
            with self.folder.journal("updates") as updates:
                loop = Loop(self, parts, updates, watcher)
                watcher.started(self, loop.state.update)  # before a model is loaded, which takes its time
                await loop.begin()
                parts.assembly.track("begin", self.id, self.folder.path, self.spec.model_dump(mode="json"))
                self.host.call("agentfw_run_started", run=self)
                await loop.evaluate()
                while loop.state.update < self.spec.updates:
                    await loop.update()
                    await loop.evaluate()
            summary = self._summary(loop.state, time.monotonic() - began)
            write_whole(self.folder.path / "summary.json", json.dumps(summary.to_record(), indent=2) + "\n")
            parts.assembly.track("finish", summary.means())
            self.host.call("agentfw_run_finished", run=self, summary=summary)
            watcher.finished(summary)
            return summary
        finally:
            await parts.close()

    def _summary(self, state: State, seconds: float) -> TrainingSummary:
        final = summarize(self.folder, seconds)
        rollouts = [line["rollouts"] for line in self.folder.updates()]
        episodes, turns, tokens, failures = (
            int(sum(line[name] for line in rollouts)) for name in ("episodes", "turns", "tokens", "failures")
        )
        return TrainingSummary(
            run=final.run,
            environment=final.environment,
            episodes=episodes,
            turns=turns,
            tokens=tokens,
            failures=failures,
            seconds=final.seconds,
            figures=final.figures,
            updates=state.update,
            version=state.version,
            adapter=state.adapter,
            before=intervals(self.folder.evaluation(0).metrics()),
        )
