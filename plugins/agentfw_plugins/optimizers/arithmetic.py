"""Means, spreads and normalised values: the arithmetic that all optimizers share.

The one rule: no number here depends on the order of the values, and none is ever divided by zero. A single value, or
values that differ in their last digits only, have nothing to be told apart by: their normalised values are zero.

    >>> [round(value, 4) for value in normalised([1.0, 0.0, 0.0, 1.0])]
    [0.866, -0.866, -0.866, 0.866]
    >>> normalised([3.0])
    [0.0]
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["EPSILON", "alike", "centred", "mean", "normalised", "spread"]

EPSILON = 1e-6
"""What is added to a standard deviation before something is divided by it."""


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def spread(values: Sequence[float]) -> float:
    """The unbiased standard deviation (by n - 1), as GRPO's implementations have it; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    middle = mean(values)
    # A product and not a power: of a number too large it is infinite, where a power raises.
    return math.sqrt(math.fsum((value - middle) * (value - middle) for value in values) / (len(values) - 1))


def alike(values: Sequence[float]) -> bool:
    """Whether the values differ by no more than rounding does."""
    return max(values) - min(values) <= 1e-12 * max(map(abs, values))


def centred(values: Sequence[float]) -> list[float]:
    """Each value less the mean."""
    if alike(values):
        return [0.0] * len(values)
    middle = mean(values)
    return [value - middle for value in values]


def normalised(values: Sequence[float], epsilon: float = EPSILON) -> list[float]:
    """Each value less the mean, in units of the spread."""
    unit = spread(values) + epsilon
    return [value / unit for value in centred(values)]
