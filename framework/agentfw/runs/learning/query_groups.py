"""Chooses the tasks of updates whose groups have a query in common and not a user.

Each query of an update is played once by each of several users. An optimizer that compares them sees how good an answer
is for the one user beside others, which is what the value of a query means in the parpo-psgm paper.

    curriculum = QueryCurriculum(tasks, size=16, samples=8, seeds=Seeds(7), updates=20)
    curriculum.planned(3, 8)     # two queries, each with eight users
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...episode import Task
from ...errors import UsageError
from ...seeds import Seeds
from .curriculum import Curriculum

__all__ = ["QueryCurriculum"]


class QueryCurriculum(Curriculum):
    """Passes over the queries, each in its own random order and with users of its own."""

    def __init__(self, tasks: Sequence[Task], size: int, seeds: Seeds, *, samples: int, updates: int) -> None:
        super().__init__(tasks, size, seeds, updates=updates)
        self.samples = samples
        self._by_query: dict[str, dict[str, list[Task]]] = {}
        """The tasks of each query by user."""
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
