"""Which tasks each update of a training learns from.

It follows from the seed and the number of the update alone, so a resumed training needs no position in the data.

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
    """Passes over the tasks, each in a random order of its own. A remainder that fills no update is left out."""

    def __init__(self, tasks: Sequence[Task], size: int, seeds: Seeds) -> None:
        if len(tasks) < size:
            raise UsageError(
                f"an update is to learn from {size} tasks, and the split has {len(tasks)}",
                fix=f"--set tasks={len(tasks)}, or more samples of each",
            )
        self.tasks, self.size, self.seeds = tasks, size, seeds

    def of(self, update: int) -> list[Task]:
        """The tasks of an update, from 1."""
        place = (update - 1) % self._updates_of_a_pass
        order = list(self.tasks)
        self.seeds.random("pass", self.pass_of(update)).shuffle(order)
        return sorted(order[place * self.size : (place + 1) * self.size], key=lambda task: task.index)

    def pass_of(self, update: int) -> int:
        """Which pass over the tasks an update belongs to, from 0."""
        return (update - 1) // self._updates_of_a_pass

    @property
    def _updates_of_a_pass(self) -> int:
        return len(self.tasks) // self.size
