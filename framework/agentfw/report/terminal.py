"""Small charts for a terminal, made of block characters.

They are plain text without colours or cursor movement, so they can be piped and logged.

    >>> bars([0.42, 0.21, 0.16, 0.11], width=8)
    '0.42 ▇▇▇▇▇▇▇▇   0.21 ▇▇▇▇   0.16 ▇▇▇   0.11 ▇▇'
    >>> sparkline([1, 2, 4, 8, 4])
    '▁▂▄█▄'
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

__all__ = ["bars", "sparkline"]

BLOCK = "▇"
STEPS = "▁▂▃▄▅▆▇█"


def bars(values: Sequence[float], width: int = 8) -> str:
    """Draw each value with a bar behind it. The largest has `width` blocks, and any value above zero at least one.

    A value that is negative or was not measured has no bar.
    """
    largest = max((value for value in values if math.isfinite(value)), default=0.0)
    parts = []
    for value in values:
        known = math.isfinite(value)
        blocks = max(1, round(value / largest * width)) if known and value > 0 else 0
        parts.append(f"{f'{value:.2f}' if known else '–'} {BLOCK * blocks}".rstrip())
    return "   ".join(parts)


def sparkline(values: Sequence[float], width: int | None = None) -> str:
    """Draw one block per value, lowest to highest, with gaps for missing values. More than `width` are averaged."""
    if width is not None and 0 < width < len(values):
        edges = [index * len(values) // width for index in range(width + 1)]
        values = [_mean(values[start:end]) for start, end in pairwise(edges)]
    finite = [value for value in values if math.isfinite(value)]
    if not finite:
        return " " * len(values)
    low, high = min(finite), max(finite)
    span = high - low
    top = len(STEPS) - 1
    return "".join(
        " " if not math.isfinite(value) else STEPS[round((value - low) / span * top) if span else top // 2]
        for value in values
    )


def _mean(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else math.nan
