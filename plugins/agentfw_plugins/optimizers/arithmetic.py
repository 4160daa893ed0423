"""Means, standard deviations and normalised values: the arithmetic that all optimizers share.

No result depends on the order of the values, and nothing is ever divided by zero. Values that are equal up to rounding,
or a single value, have nothing that sets them apart: their centred and normalised values are exact zeros.

Whatever is divided by a standard deviation is divided by its `unit`, which has a floor: differences far below it count
as noise. They shrink instead of becoming as large as real ones.

    >>> [round(value, 4) for value in normalised([1.0, 0.0, 0.0, 1.0])]
    [0.866, -0.866, -0.866, 0.866]
    >>> normalised([3.0])
    [0.0]
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["FLOOR", "ROUNDING", "alike", "centred", "mean", "normalised", "spread", "unit"]

FLOOR = 1e-3
"""Standard deviation below which differences of rewards are taken for noise."""
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


def unit(deviation: float, floor: float = FLOOR) -> float:
    """What to divide by: a standard deviation, or the floor where that is far smaller."""
    return math.hypot(deviation, floor)


def normalised(values: Sequence[float], floor: float = FLOOR) -> list[float]:
    """Each value minus the mean, in units of the standard deviation."""
    one = unit(spread(values), floor)
    return [value / one for value in centred(values)]
