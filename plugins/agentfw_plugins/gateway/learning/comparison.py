"""Compares two versions on rated answers that neither was trained on.

What is compared is how much likelier an answer is in the new version than in the other, by its mean log probability per
token. The margin is the mean of this over liked answers minus that over disliked ones. It is tested by a permutation
test: the p-value is the share of shuffles of the thumbs among the answers that have a margin at least as large.

    comparison = compare([0.3, 0.2, -0.1], [True, True, False])
    comparison.better

A version that makes every answer likelier, or less likely, has no margin. Liked answers may become less likely, as
long as disliked ones lose more: a version that learned from dislikes says fewer things, and most of what it was rated
for becomes rarer. But one that has lost MOST_LOST nats per token of liked answers says something else altogether, which
nobody has rated. A ruined model is such a version.

This assumes that thumbs depend on the question and the answer and not on the version, that answers are rated
independently of each other, and that a version that prefers liked answers over disliked ones gives more of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["LEAST", "LEVEL", "MOST_LOST", "Comparison", "compare", "shuffled"]

LEVEL = 0.05
LEAST = 3
"""Minimum number of liked and of disliked answers. With fewer, no shuffle is rare enough."""
MOST_LOST = 2.0
"""Nats per token. Beyond it, what was rated is so rare that it tells nothing about what is said instead."""
_SHUFFLES = 10_000


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result, in nats per token."""

    margin: float
    liked: float
    """How much likelier liked answers are in the new version."""
    p_value: float
    likes: int
    dislikes: int

    @property
    def better(self) -> bool:
        return self.margin > 0 and self.liked > -MOST_LOST and self.p_value < LEVEL

    def __str__(self) -> str:
        ruined = f", but liked answers lost {-self.liked:.1f} nats a token" if self.liked <= -MOST_LOST else ""
        return (
            f"margin {self.margin:+.3f} nats a token, p = {self.p_value:.4f} (permutation test on {self.likes} liked "
            f"and {self.dislikes} disliked answers that were held out){ruined}"
        )


def compare(changes: Sequence[float], liked: Sequence[bool], seed: int = 7) -> Comparison:
    """Compare by the change of each answer's log probability per token, and whether it was liked."""
    values, likes = np.asarray(changes, float), np.asarray(liked, bool)
    margin, p_value = shuffled(values, likes, seed)
    return Comparison(margin, float(values[likes].mean()), p_value, int(likes.sum()), int((~likes).sum()))


def shuffled(values: np.ndarray, group: np.ndarray, seed: int = 7) -> tuple[float, float]:
    """The difference of two means, and the share of shuffles of the groups with at least as large a one."""
    generator = np.random.default_rng(seed)
    count, size = len(values), int(group.sum())
    observed = float(values[group].mean() - values[~group].mean())
    shuffles = generator.permuted(np.tile(values, (_SHUFFLES, 1)), axis=1)
    first = shuffles[:, :size].sum(axis=1)
    drawn = first / size - (values.sum() - first) / (count - size)
    slack = 1e-12 * float(np.abs(values).sum())
    return observed, (1 + int((drawn >= observed - slack).sum())) / (1 + _SHUFFLES)
