"""The memory interface: recalls before the agent acts, and learns from what users say and from finished episodes.

Learning must be idempotent per episode, and hearing per saying. A run that is killed and resumed may pass the same
episode or saying twice, and the memory must end up the same as if it had been passed once. Different runs use the same
episode numbers. A memory that outlives a run therefore needs the run's name in its keys, or environment, user and seed
where the same task is the same experience. The id of a saying is unique among all runs.

    class Notebook(Memory):
        async def recall(self, query: Query) -> Sequence[Recollection]:
            return [Recollection(note) for note in list(reversed(self.notes))[: query.limit]]

One memory serves all episodes of a run concurrently. State of an episode in progress is kept by `task.id`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from .episode import Episode, Task
from .errors import UsageError, not_implemented
from .timeline import Time
from .tool import Tool

__all__ = ["Embedded", "Memory", "Query", "Recollection", "Remembered", "Saying"]


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

    def to_record(self) -> dict[str, Any]:
        """Plain JSON values, as the record of an episode has them."""
        return {"text": self.text, "score": float(self.score), "why": json.loads(json.dumps(self.why, default=str))}


@dataclass(frozen=True, slots=True)
class Saying:
    """What a user said, in their own words, as soon as it was said."""

    id: str
    """A saying that is passed twice has the same id both times."""
    user: str
    text: str
    """The whole message of the user, which may quote what others wrote."""
    conversation: str
    at: float
    """Seconds since 1970."""
    answer_to: str = ""
    """What the agent had said just before."""
    before: str = ""
    """The message of the user before this one."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """One item that a memory keeps of a user, as the user may read, correct and delete it."""

    id: str
    text: str
    since: float | None = None
    """Seconds since 1970, as `until`."""
    until: float | None = None
    """When it was replaced by something newer. None if it still holds."""
    source: str = ""
    """The words that it was learned from."""


class Embedded(NamedTuple):
    """Texts as vectors."""

    model: str
    """Name of the embedding model."""
    vectors: Sequence[Sequence[float]]


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

    async def hear(self, saying: Saying) -> Mapping[str, int] | None:
        """Learn from what a user just said. By default, a memory learns only from finished episodes.

        Return what it took, if anything, such as the tokens of a model. It is recorded.
        """
        return None

    async def remembered(self, user: str) -> Sequence[Remembered]:
        """Return what is kept of a user, the newest first."""
        raise _cannot(self, "show what it keeps of a user", "remembered")

    async def correct(self, user: str, item: str, text: str) -> Remembered:
        """Replace the text of a user's item, which they may have learned the id of from `remembered`.

        Raise UnknownNameError if this user has no such item; so does `forget_one`.
        """
        raise _cannot(self, "correct what it keeps of a user", "correct")

    async def forget_one(self, user: str, item: str) -> None:
        """Delete one item of a user, with the words that it was learned from."""
        raise _cannot(self, "delete a single item", "forget_one")

    async def embed(self, texts: Sequence[str]) -> Embedded:
        """Return the vectors of texts, by the embedding model that the memory searches with."""
        raise _cannot(self, "embed texts for others", "embed")

    def open(self, folder: Path) -> None:
        """Called when a run begins or resumes. `folder` is the memory's own; its name identifies the run."""

    def begin(self, task: Task) -> None:
        """Called when an episode begins. If an earlier attempt at it was interrupted, forget that attempt."""

    def introduce(self, user: str, profile: Mapping[str, str]) -> None:
        """Called when an episode begins whose user has a profile: what is known beforehand, in words, by view."""

    async def forget(self, user: str) -> Mapping[str, int]:
        """Delete all data of a user. Return how much of what was deleted."""
        raise not_implemented(self, "forget")

    def tools(self, task: Task) -> Sequence[Tool]:
        """Actions that the agent of this episode can call on the memory itself."""
        return ()

    async def offered(self, task: Task) -> Sequence[Tool]:
        """What `tools` returns, for a caller who can wait. Memories override `tools`."""
        return self.tools(task)

    async def close(self) -> None:
        """Close files and connections."""


def _cannot(memory: Memory, what: str, method: str) -> UsageError:
    return UsageError(
        f"the memory {type(memory).__name__} can't {what}", fix=f"choose a memory that has the method {method}()"
    )
