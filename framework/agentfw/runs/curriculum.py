"""Chooses the tasks of each update of a training.

The choice depends only on the seed and the number of the update, so a resumed training doesn't need to store a position
in the data.

    curriculum = Curriculum(tasks, size=8, seeds=Seeds(7))
    curriculum.of(3)
"""

from __future__ import annotations

from collections.abc import Sequence

from ..episode import Task
from ..errors import UsageError
from ..seeds import Seeds

__all__ = ["Curriculum"]


class Curriculum:
    """Passes over the tasks, each in its own random order. Tasks that don't fill an update are skipped in that pass."""

    def __init__(self, tasks: Sequence[Task], size: int, seeds: Seeds) -> None:
        if len(tasks) < size:
            raise UsageError(
                f"an update needs {size} tasks, but the split has {len(tasks)}",
                fix=f"--set tasks={len(tasks)}, or increase samples",
            )
        self.tasks, self.size, self.seeds = tasks, size, seeds

    def of(self, update: int) -> list[Task]:
        """The tasks of an update. Updates count from 1."""
        place = (update - 1) % self._updates_of_a_pass
        order = list(self.tasks)
        self.seeds.random("pass", self.pass_of(update)).shuffle(order)
        return sorted(order[place * self.size : (place + 1) * self.size], key=lambda task: task.index)

    def pass_of(self, update: int) -> int:
        """The pass over the tasks that an update belongs to. Passes count from 0."""
        return (update - 1) // self._updates_of_a_pass

    @property
    def _updates_of_a_pass(self) -> int:
        return len(self.tasks) // self.size
