"""Which tasks an update learns from.

The one rule: it follows from the seed and the update's number alone, so a resumed training needs no place to go on
from.

    curriculum(spec, assembly).of(3)
"""

from __future__ import annotations

from collections.abc import Sequence

from ..episode import Task
from ..errors import UsageError
from ..runs.assembly import Assembly
from ..seeds import Seeds
from .spec import TrainSpec

__all__ = ["Curriculum", "curriculum"]


class Curriculum:
    """Passes over the tasks, each in a drawn order of its own. What doesn't fill a pass's last update is left out."""

    def __init__(self, tasks: Sequence[Task], size: int, seeds: Seeds) -> None:
        if len(tasks) < size:
            raise UsageError(
                f"an update is to learn from {size} tasks, and the split has {len(tasks)}",
                fix=f"--set tasks={len(tasks)}, or more samples of each",
            )
        self.tasks, self.size, self.seeds = tasks, size, seeds

    def of(self, update: int) -> list[Task]:
        """The tasks of an update, from 1."""
        number, place = divmod(update - 1, len(self.tasks) // self.size)
        order = list(self.tasks)
        self.seeds.random("pass", number).shuffle(order)
        return sorted(order[place * self.size : (place + 1) * self.size], key=lambda task: task.index)


def curriculum(spec: TrainSpec, assembly: Assembly) -> Curriculum:
    """The tasks of a training."""
    tasks = assembly.tasks(spec.updates * spec.tasks, "train")
    return Curriculum(tasks, spec.tasks, Seeds(spec.seed).child("curriculum"))
