"""The environment that a run asks for tasks, measures and references. Episodes are played in fresh ones."""

from __future__ import annotations

import math
from numbers import Real

from ..boundary.coroutines import exact, plain
from ..boundary.guard import listed
from ..environment import Environment
from ..episode import Episode, Task
from ..errors import UsageError
from ..host import Host
from ..scores import LARGEST
from .records.call_record import CallRecord
from .spec.run_spec import RunSpec

__all__ = ["RunEnvironment"]


class RunEnvironment:
    """Asks one instance of the environment, and checks its answers."""

    def __init__(self, spec: RunSpec, host: Host, record: CallRecord) -> None:
        self.name = spec.environment.name
        self.guard = guard = host.guard("environment", self.name, spec.deadline, counts=record)
        self._seed = spec.seed
        self.environment = environment = host.make("environment", spec.environment, Environment, "environment")
        self._tasks: dict[tuple[int, str], list[Task]] = {}
        # Read once, and here: a plugin may have properties that raise.
        with guard.calling("its attributes"):
            self.headline, self.lower_is_better = environment.headline, bool(environment.lower_is_better)
            self.columns = {str(name): str(title) for name, title in dict(environment.columns).items()}
            self.meanings = {str(word): str(meaning) for word, meaning in dict(environment.meanings).items()}
            self.inspector = str(environment.inspector)
            guard.require(isinstance(self.headline, str), f"has a headline of type {type(self.headline).__name__}")

    def tasks(self, count: int, split: str) -> list[Task]:
        """The first `count` tasks of a split, or fewer. The environment is asked once per count and split."""
        if (count, split) not in self._tasks:
            with self.guard.calling("tasks()"):
                found = listed(plain(self.environment.tasks(count, self._seed, split)), Task, self.guard)
            if not found:
                raise UsageError(
                    f'{self.guard.title} has no task in the split "{split}"',
                    fix="choose another split, or add tasks to it",
                )
            indexes = {task.index for task in found}
            self.guard.require(len(indexes) == len(found), "gave two tasks the same index", "number its tasks from 0")
            self._tasks[count, split] = found
        return self._tasks[count, split]

    def describe(self, tasks: list[Task]) -> str:
        """A short description of these tasks."""
        with self.guard.calling("describe()"):
            words = plain(self.environment.describe(list(tasks)))
            self.guard.require(isinstance(words, str), f"returned {type(words).__name__} from describe()")
        return exact(words).encode("utf-8", "replace").decode("utf-8")

    def references(self, tasks: list[Task]) -> dict[str, list[dict[str, float]]]:
        """Results of simple players in these tasks, if the environment knows them: by name, one row per task."""
        found: dict[str, list[dict[str, float]]] = {}
        for task in tasks:
            with self.guard.calling("references()", task.id):
                for player, figures in plain(self.environment.references(task)).items():
                    row = {str(figure): float(value) for figure, value in figures.items()}
                    if self.headline not in row or not all(map(math.isfinite, row.values())):
                        raise ValueError(f'"{player}" has {row}: not finite, or without "{self.headline}"')
                    found.setdefault(str(player), []).append(row)
        return found

    def check(self, episode: Episode) -> None:
        """Check the figures of an episode that was played. Those of the outcome may be NaN: not measured."""
        episode.environment = self.name
        episode.utility = self._figure(episode.utility, "utility", episode.id)
        for name, value in episode.outcome.items():
            episode.outcome[name] = self._figure(value, name, episode.id, or_nan=True)

    def _figure(self, value: object, name: str, episode: str, *, or_nan: bool = False) -> float:
        if isinstance(value, Real) and (abs(float(value)) <= LARGEST or (or_nan and math.isnan(value))):
            return float(value)
        raise self.guard.error(
            f'gave {value!r} as "{name}" of episode {episode}',
            "fix the environment: a measure must be a finite number, at most 1e100, or NaN if it was not measured",
        )
