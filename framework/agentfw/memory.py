"""The memory interface: a memory recalls before its agent acts, and learns after episodes.

Learning is idempotent by episode. A run that was killed and resumed may pass the same episode twice, and the memory
must be the same as if it had come once. Two runs number their episodes alike: a memory that outlives a run keeps them
by the run's name as well, or by environment, user and seed where the same task is the same experience.

    class Notebook(Memory):
        async def recall(self, query: Query) -> Sequence[Recollection]:
            return [Recollection(note) for note in self.notes[-query.limit:]]

One memory serves all episodes of a run at once, so whatever it keeps for an episode in progress is kept by `task.id`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .episode import Episode, Task
from .timeline import Time
from .tool import Tool

__all__ = ["Memory", "Query", "Recollection"]


@dataclass(frozen=True, slots=True)
class Query:
    """What an agent is about to act on."""

    text: str
    task: Task
    now: Time = 0
    round: int = 0
    limit: int = 5

    @property
    def user(self) -> str:
        return self.task.user


@dataclass(frozen=True, slots=True)
class Recollection:
    """Something remembered, as the agent reads it, and why it came up."""

    text: str
    score: float = 0.0
    why: dict[str, Any] = field(default_factory=dict)


class Memory:
    """Something that remembers. `recall` is the one method that it must have."""

    async def recall(self, query: Query) -> Sequence[Recollection]:
        """The best first. Nothing is a fine answer."""
        raise NotImplementedError

    async def learn(self, episode: Episode, reward: float) -> None:
        """Take what is worth keeping from an episode and what it earned."""

    def open(self, folder: Path) -> None:
        """A run begins or goes on. `folder` is its own, to keep things in; its name tells runs apart."""

    def begin(self, task: Task) -> None:
        """An episode begins, perhaps for the second time: what a broken-off attempt at it left is forgotten."""

    def tools(self, task: Task) -> Sequence[Tool]:
        """What the agent of this episode can do with the memory itself."""
        return ()

    async def close(self) -> None:
        """Let go of files and connections."""
