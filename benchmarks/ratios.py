"""How many times as fast one way is as another, repetition by repetition; for benchmarks of several processes.

A repetition measures both ways, so a machine that slows down slows both sides of its ratio.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["print_ratio", "ratio_of"]


def ratio_of(above: Sequence[float], below: Sequence[float]) -> dict[str, Any]:
    """The ratio of each repetition, and their median."""
    ratios = [one / other for one, other in zip(above, below, strict=True)]
    return {"median": round(statistics.median(ratios), 2), "all": [round(ratio, 2) for ratio in ratios]}


def print_ratio(what: str, ratio: Mapping[str, Any], required: float) -> None:
    print(f"{what}: {ratio['median']} (each repetition: {ratio['all']}; required {required})")
