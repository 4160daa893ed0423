"""The optimizer interface: scores in, advantages out, and the name of a loss.

An optimizer is arithmetic on scores. It sees no tokens and no weights, and its state between batches (PARPO's user
anchors) can be saved and restored, so that a resumed training continues as if it had never stopped.

    class Centred(Optimizer):
        def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
            ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .episode import Episode
from .scores import Score

__all__ = ["Advantage", "Loss", "Optimizer", "Scored"]


@dataclass(frozen=True, slots=True)
class Scored:
    """An episode with what the reward models said of it, and its one mixed reward.

    The scores that an optimizer sees are already weighted: each value is multiplied by its component's weight at its
    round and at this point of the training. So an optimizer only sums what belongs to a round, a turn, a track or a
    component.
    """

    episode: Episode
    scores: tuple[Score, ...]
    """Empty where the run has no reward models, and the environment's own utility is the reward."""
    reward: float
    """The sum of the weighted scores, or that utility."""


@dataclass(frozen=True, slots=True)
class Advantage:
    """How much better than expected one turn was; every token of the turn carries it."""

    episode: str
    turn: int
    value: float


@dataclass(frozen=True, slots=True)
class Loss:
    """Which loss the advantages are meant for: one loss with settings, so that algorithms differ in values, not code.

    `clipped` is the policy gradient -min(w r A, w clip(r) A) over tokens, with the ratio r to the policy that sampled;
    `likelihood` is -A log p, which needs no ratio: demonstrations are learned with it.
    """

    name: str = "clipped"
    """`clipped` and `likelihood` are ours; a learner of another plugin may know others, and refuses what it doesn't."""
    clip_low: float = 0.2
    """A ratio below 1 - clip_low earns nothing more."""
    clip_high: float = 0.2
    """A ratio above 1 + clip_high earns nothing more."""
    ratio: Literal["token", "sequence"] = "token"
    """Of each token, or the geometric mean over a turn's tokens (GSPO)."""
    ratio_cap: float | None = None
    """No ratio counts for more than this, also where the advantage is negative and nothing is clipped."""
    aggregation: Literal["token_mean", "sequence_mean", "token_sum"] = "token_mean"
    """All tokens of the batch alike; each turn alike, by the mean of its tokens; or the sum over tokens by `length`."""
    length: int | None = None
    """What a turn's sum of tokens is divided by, with `token_sum`: a constant, so that no length is favoured."""
    kl: float = 0.0
    """How much the distance to the policy without adapter costs; a term of its own, never part of an advantage."""
    importance_cap: float | None = None
    """Weigh tokens by trainer's over sampler's probability, at most by this: what corrects a sampler that differs."""


class Optimizer:
    """Something that turns scores into advantages. `advantages` is the one method that it must have."""

    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        """One advantage for each turn that is to be learned from. A group holds the samples of one task."""
        raise NotImplementedError

    def loss(self) -> Loss:
        return Loss()

    def metrics(self) -> Mapping[str, float]:
        """Figures of the last batch by name, such as how many groups had nothing to compare."""
        return {}

    def state(self) -> dict[str, Any]:
        """What it remembers, as JSON values."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what `state` gave."""
