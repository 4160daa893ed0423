"""Chooses the tasks of each update of a training.

The choice depends only on the seed and the number of the update, so a resumed training doesn't need to store a position
in the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...episode import Task
from ...errors import UsageError
from ...seeds import Seeds


def in_groups(tasks: Sequence[Task], samples: int, *, first: int = 0) -> list[Task]:
    """Each task `samples` times, side by side; the samples are numbered from `first`."""
    return [replace(task, sample=sample) for task in tasks for sample in range(first, first + samples)]


class Curriculum:
    """Passes over the tasks, each in its own random order. Tasks that don't fill an update are skipped in that pass."""

    def __init__(self, tasks: Sequence[Task], size: int, seeds: Seeds, *, updates: int) -> None:
        if len(tasks) < size:
            raise UsageError(
                f"an update needs {size} tasks, but the split has {len(tasks)}",
                fix=f"write {size - len(tasks)} more, or make an update smaller: --set tasks={len(tasks)}",
            )
        self.tasks, self.size, self.seeds, self.updates = tasks, size, seeds, updates
        self._updates_of_a_pass = len(tasks) // size

    def of(self, update: int) -> list[Task]:
        """The tasks of an update. Updates count from 1."""
        place = (update - 1) % self._updates_of_a_pass
        order = list(self.tasks)
        self.seeds.random("pass", self.pass_of(update)).shuffle(order)
        return sorted(order[place * self.size : (place + 1) * self.size], key=lambda task: task.index)

    def planned(self, update: int, samples: int) -> list[Task]:
        """The tasks of an update as they are played: each `samples` times.

        Tasks that are repeated in a later pass get further samples. Episode ids stay unique, so that memories can tell
        the episodes apart.
        """
        return in_groups(self.of(update), samples, first=self.pass_of(update) * samples)

    def pass_of(self, update: int) -> int:
        """The pass over the tasks that an update belongs to. Passes count from 0."""
        return (update - 1) // self._updates_of_a_pass

    def further(self, update: int, start: int, count: int, samples: int) -> list[Task]:
        """Groups in place of those that say nothing, from the `start`-th on: other tasks first, then any again.

        Their samples have numbers that no other episode of the training has.
        """
        planned = {task.index for task in self.of(update)}
        order = list(self.tasks)
        self.seeds.random("further", update).shuffle(order)
        order.sort(key=lambda task: task.index in planned)  # stable: the order among the others stays random
        found: list[Task] = []
        for place in range(start, start + count):
            block = self.pass_of(self.updates) + update + self.updates * (place // len(order))
            found += in_groups([order[place % len(order)]], samples, first=block * samples)
        return found


class QueryCurriculum(Curriculum):
    """Passes over the queries, each in its own random order and with users of its own."""

    def __init__(self, tasks: Sequence[Task], size: int, seeds: Seeds, *, samples: int, updates: int) -> None:
        super().__init__(tasks, size, seeds, updates=updates)
        self.samples = samples
        self._by_query: dict[str, dict[str, list[Task]]] = {}  # the tasks of each query by user
        for task in tasks:
            if task.query:
                self._by_query.setdefault(task.query, {}).setdefault(task.user, []).append(task)
        self._queries = sorted(query for query, users in self._by_query.items() if len(users) >= samples)
        wanted = size // samples
        if len(self._queries) < wanted:
            raise UsageError(
                f"an update needs {wanted} queries that {samples} users have, but the first {len(tasks):,} tasks "
                f"have {len(self._queries)}",
                fix="--set groups=task, fewer tasks or samples, or an environment that names the query of its tasks",
            )

    def of(self, update: int) -> list[Task]:
        """The tasks of an update, group by group. They carry the number of their group."""
        generator = self.seeds.random("queries", update)
        tasks: list[Task] = []
        for group, query in enumerate(generator.sample(self._queries, self.size // self.samples)):
            users = generator.sample(sorted(self._by_query[query]), self.samples)
            tasks += [replace(generator.choice(self._by_query[query][user]), group=group) for user in users]
        return tasks

    def planned(self, update: int, samples: int) -> list[Task]:
        """The tasks of an update, each once. The number of the update keeps the ids of its episodes unique."""
        return [replace(task, sample=update) for task in self.of(update)]

    def further(self, update: int, start: int, count: int, samples: int) -> list[Task]:
        """Nothing: a group that says nothing isn't replaced by another query."""
        return []
