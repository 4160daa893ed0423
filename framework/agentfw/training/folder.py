"""A training on disk: a run's folder, with a folder of episodes for each update and each evaluation.

The one rule: what a reader takes for the result is the last evaluation that is whole; figures of rollouts are those of
a policy in the making.

    RUNS/2026-11-21-calendar-7f3a/
        run.json                   as in a run
        state.json                 the last update that counts
        updates.jsonl              one line an update: its figures
        rollouts/00003/            episodes.jsonl and metrics.jsonl of what the third update learned from
        evaluations/00002/         episodes.jsonl and metrics.jsonl of the evaluation after two updates
        learner/00003/             what the third update made: adapters, and whatever the learner keeps
        summary.json               the last evaluation in figures; there when the training is done
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..episode import Episode
from ..runs.folder import RunFolder
from ..runs.journal import read_journal
from ..runs.records import Records
from .state import State

__all__ = ["TrainingFolder"]


class TrainingFolder(RunFolder):
    """One training's folder. `episodes` and `metrics` are those of its last whole evaluation."""

    unit = "updates"

    @property
    def done(self) -> int:
        """How many updates count."""
        return State.read(self.path).update

    def updates(self) -> list[dict[str, Any]]:
        """The figures of each update."""
        return list(read_journal(self.path / "updates.jsonl"))

    def rollouts(self, update: int) -> Records:
        """What this update, from 1, learns from."""
        return Records(self.path / "rollouts" / f"{update:05d}")

    def evaluation(self, update: int) -> Records:
        """What the policy does after so many updates."""
        return Records(self.path / "evaluations" / f"{update:05d}")

    def evaluations(self) -> dict[int, Records]:
        """Those that are whole, by the number of updates before them."""
        episodes = int(self.about["evaluation_episodes"])
        numbers = sorted(int(path.name) for path in self.path.glob("evaluations/*") if path.name.isdigit())
        found = {number: self.evaluation(number) for number in numbers}
        return {number: records for number, records in found.items() if sum(1 for _ in records.concluded()) == episodes}

    def stages(self) -> Mapping[int, list[dict[str, Any]]]:
        return {number: records.metrics() for number, records in self.evaluations().items()}

    def concluded(self) -> Iterator[dict[str, Any]]:
        whole = self.evaluations()
        return whole[max(whole)].concluded() if whole else iter(())

    def episodes(self) -> Iterator[Episode]:
        whole = self.evaluations()
        return whole[max(whole)].episodes() if whole else iter(())
