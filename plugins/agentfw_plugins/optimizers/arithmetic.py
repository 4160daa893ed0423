"""Means, standard deviations and normalised values: the arithmetic that all optimizers share.

No result depends on the order of the values, and nothing is ever divided by zero. Values that are equal up to rounding,
or a single value, have nothing that sets them apart: their centred and normalised values are exact zeros.

    >>> [round(value, 4) for value in normalised([1.0, 0.0, 0.0, 1.0])]
    [0.866, -0.866, -0.866, 0.866]
    >>> normalised([3.0])
    [0.0]
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["EPSILON", "ROUNDING", "alike", "centred", "mean", "normalised", "spread"]

EPSILON = 1e-6
"""Added to a standard deviation before something is divided by it."""
ROUNDING = 1e-12
"""Relative difference below which values count as equal."""


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def spread(values: Sequence[float]) -> float:
    """The unbiased standard deviation (by n - 1), as in implementations of GRPO; 0 for equal values or a single one."""
    if len(values) < 2:
        return 0.0
    return math.sqrt(math.fsum(value * value for value in centred(values)) / (len(values) - 1))


def alike(values: Sequence[float]) -> bool:
    """Whether the values differ by no more than rounding does."""
    return max(values) - min(values) <= ROUNDING * max(map(abs, values))


def centred(values: Sequence[float]) -> list[float]:
    """Each value minus the mean."""
    if alike(values):
        return [0.0] * len(values)
    middle = mean(values)
    return [value - middle for value in values]


def normalised(values: Sequence[float], epsilon: float = EPSILON) -> list[float]:
    """Each value minus the mean, divided by the standard deviation."""
    unit = spread(values) + epsilon
    return [value / unit for value in centred(values)]
