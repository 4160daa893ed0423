"""The tracker interface: receives the metrics of a run, in addition to the run folder.

A tracker only observes. If it fails, no metric is lost, because the run folder has them all.

    class Printer(Tracker):
        def log(self, step: int, metrics: Mapping[str, float]) -> None:
            print(step, dict(metrics))

Trackers that override `trace` are told of each operation: what took time in an episode, and how long. Times are those
of the wall clock, in seconds since the epoch. The time of an episode's world is in its record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .episode import Message, Task
from .errors import not_implemented
from .memory import Query, Recollection
from .request import Generation, Sampling
from .scores import Score

__all__ = ["Operation", "PlayedEpisode", "PolicyCall", "Recall", "Scoring", "ToolCall", "Tracker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """An operation that is over. Its class says what it was."""

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


class Tracker:
    """Base class of trackers. Only `log` must be implemented."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Log the metrics of one step: an episode of a run, or an update of a training."""
        raise not_implemented(self, "log")

    def begin(self, run: str, folder: Path, settings: Mapping[str, Any]) -> None:
        """Called when a run begins. A resumed run has the same name."""

    def trace(self, operation: Operation) -> None:
        """Record an operation of an episode: an answer of the policy, a tool call, a recall, a scoring, the whole.

        Operations are told when they are over, so those of several episodes mix, and the episode itself comes after
        its parts. A run measures them only if a tracker overrides this method.
        """

    def finish(self, summary: Mapping[str, float]) -> None:
        """Called when the run is complete, with its final metrics."""

    def close(self) -> None:
        """Close files and connections, also after a failed run."""
