"""Operations: what took time in an episode, and how long. Trackers that follow a run in detail are told of each.

Times are those of the wall clock, in seconds since the epoch. The time of an episode's world is in its record.

    class Slowest(Tracker):
        def trace(self, operation: Operation) -> None:
            print(operation.name, operation.ended - operation.began)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .episode import Message, Task
from .memory import Query, Recollection
from .request import Generation, Sampling
from .scores import Score

__all__ = ["Operation", "PlayedEpisode", "PolicyCall", "Recall", "Scoring", "ToolCall"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation that is over. What it is, its class says."""

    task: Task
    """The task of the episode that it belongs to."""
    name: str
    """The component that did it, or the tool."""
    began: float
    ended: float
    error: str = ""
    """Class of the error that it failed with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyCall(Operation):
    """The policy was asked."""

    messages: tuple[Message, ...]
    sampling: Sampling
    generation: Generation | None
    """None if it failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall(Operation):
    """A tool was called. Failing is its answer, too."""

    arguments: Mapping[str, Any]
    answer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall(Operation):
    """A memory was asked."""

    query: Query
    found: tuple[Recollection, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring(Operation):
    """A reward model scored the group of the episode. These are the scores of this episode."""

    scores: tuple[Score, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedEpisode(Operation):
    """The whole episode, before it is scored. All its other operations but the scoring are over."""

    finish: str = ""
    outcome: Mapping[str, float] = field(default_factory=dict)
