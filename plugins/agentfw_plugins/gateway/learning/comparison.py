"""Compares two versions on rated answers that neither was trained on.

What is compared is the share of liked answers that the new version would get, estimated by importance weighting: an
answer counts as often as the new version would give it, for once that the other one did. The weight is at most
MOST_WEIGHT, so what the new version says instead, which nobody has rated, counts as disliked.

    comparison = compare([0.3, 0.2, -0.1], [True, True, False])    # changes of the log probability of each answer
    comparison.better

The p-value is that of a permutation test: the share of shuffles of the thumbs among the answers that have an estimate
at least as high. A version that makes every answer likelier, or less likely, is not better.

This assumes that thumbs depend on the question and the answer and not on the version, that answers are rated
independently of each other, and that the answers are those of a version near to the served one. Whole answers are
weighed, so of long ones a version must be close to the other to be found better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["LEAST", "LEVEL", "MOST_WEIGHT", "Comparison", "compare", "shuffled"]

LEVEL = 0.05
LEAST = 3
"""Minimum number of liked and of disliked answers. With fewer, no shuffle is rare enough."""
MOST_WEIGHT = 10.0
_SHUFFLES = 10_000


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result, in shares of answers."""

    estimate: float
    """The share of liked answers that the new version would get at least."""
    share: float
    """That of the other one."""
    p_value: float
    likes: int
    dislikes: int

    @property
    def better(self) -> bool:
        return self.estimate > self.share and self.p_value < LEVEL

    def __str__(self) -> str:
        return (
            f"{self.estimate:.2f} liked, estimated, after {self.share:.2f}, p = {self.p_value:.4f} (permutation test "
            f"on {self.likes} liked and {self.dislikes} disliked answers that were held out)"
        )


def compare(changes: Sequence[float], liked: Sequence[bool], seed: int = 7) -> Comparison:
    """Compare by the change of each answer's log probability, and whether it was liked."""
    likes = np.asarray(liked, bool)
    weights = np.exp(np.minimum(np.asarray(changes, float), np.log(MOST_WEIGHT)))
    # With the number of likes fixed, this margin orders the shuffles as the estimate does.
    _, p_value = shuffled(weights, likes, seed)
    return Comparison(
        float((weights * likes).mean()), float(likes.mean()), p_value, int(likes.sum()), int((~likes).sum())
    )


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
