"""The memory interface: recalls before the agent acts, and learns from finished episodes.

Learning must be idempotent per episode. A run that is killed and resumed may pass the same episode twice, and the
memory must end up the same as if it had been passed once. Different runs use the same episode numbers. A memory that
outlives a run therefore needs the run's name in its keys, or environment, user and seed where the same task is the same
experience.

    class Notebook(Memory):
        async def recall(self, query: Query) -> Sequence[Recollection]:
            return [Recollection(note) for note in list(reversed(self.notes))[: query.limit]]

One memory serves all episodes of a run concurrently. State of an episode in progress is kept by `task.id`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .episode import Episode, Task
from .errors import not_implemented
from .timeline import Time
from .tool import Tool

__all__ = ["Memory", "Query", "Recollection"]


@dataclass(frozen=True, slots=True)
class Query:
    """The situation that the agent is about to act in."""

    text: str
    task: Task
    now: Time = 0
    round: int = 0
    limit: int = 5
    scenarios: tuple[str, ...] = ()
    """What the episode is about, as the latest observation with `scenarios` in its data says."""

    @property
    def user(self) -> str:
        return self.task.user


@dataclass(frozen=True, slots=True)
class Recollection:
    """One remembered item: the text that the agent reads, and why it was recalled."""

    text: str
    score: float = 0.0
    why: dict[str, Any] = field(default_factory=dict)


class Memory:
    """Base class of memories. Only `recall` must be implemented."""

    shared: bool = False
    """True where users are meant to see what the memory learned with others, as a team does. Otherwise
    `agentfw plugins check` makes sure that they don't."""

    async def recall(self, query: Query) -> Sequence[Recollection]:
        """Return matching items, the best first. An empty result is fine."""
        raise not_implemented(self, "recall")

    async def learn(self, episode: Episode, reward: float) -> None:
        """Learn from a finished episode and its scores."""

    def open(self, folder: Path) -> None:
        """Called when a run begins or resumes. `folder` is the memory's own; its name identifies the run."""

    def begin(self, task: Task) -> None:
        """Called when an episode begins. If an earlier attempt at it was interrupted, forget that attempt."""

    def meet(self, user: str, profile: Mapping[str, str]) -> None:
        """Called when an episode begins whose user has a profile: what is known beforehand, in words, by view."""

    async def forget(self, user: str) -> Mapping[str, int]:
        """Delete all data of a user. Return how much of what was deleted."""
        raise not_implemented(self, "forget")

    def tools(self, task: Task) -> Sequence[Tool]:
        """Actions that the agent of this episode can call on the memory itself."""
        return ()

    async def close(self) -> None:
        """Close files and connections."""
