"""What an optimizer is: scores in, advantages out, and the name of a loss.

The one rule: an optimizer is arithmetic on scores. It sees no tokens and no weights, and what it remembers between
batches (PARPO's user anchors) it can write down and take back, so that a resumed training goes on as if it had never
stopped.

    class Centred(Optimizer):
        def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
            ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .episode import Episode
from .scores import Score

__all__ = ["Advantage", "Loss", "Optimizer", "Scored"]


@dataclass(frozen=True, slots=True)
class Scored:
    """An episode with what the reward models said of it, and its one mixed reward."""

    episode: Episode
    scores: tuple[Score, ...]
    reward: float


@dataclass(frozen=True, slots=True)
class Advantage:
    """How much better than expected one turn was; every token of the turn carries it."""

    episode: str
    turn: int
    value: float


@dataclass(frozen=True, slots=True)
class Loss:
    """Which loss the advantages are meant for, and its settings."""

    name: str = "clipped"
    settings: Mapping[str, float | str | bool] = field(default_factory=dict)


class Optimizer:
    """Something that turns scores into advantages. `advantages` is the one method that it must have."""

    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        """One advantage for each turn that is to be learned from. A group holds the samples of one task."""
        raise NotImplementedError

    def loss(self) -> Loss:
        return Loss()

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON values."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what `state` gave."""
