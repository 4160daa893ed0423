"""Clocks and ratios of things that are measured again and again.

A repetition measures all sides, one after the other, so a machine that slows down slows both sides of its ratio.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any


def timed(
    call: Callable[..., object], *arguments: Any, clock: Callable[[], float] = time.perf_counter, **named: Any
) -> float:
    """Seconds that a call takes by this clock."""
    began = clock()
    call(*arguments, **named)
    return clock() - began


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """The ratio of each repetition."""
    return [one / other for one, other in zip(above, below, strict=True)]


def ratio_of(above: Sequence[float], below: Sequence[float]) -> dict[str, Any]:
    """The ratio of each repetition, and their median."""
    found = ratios(above, below)
    return {"median": round(statistics.median(found), 2), "all": [round(ratio, 2) for ratio in found]}


def ratio_span(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """The least ratio of a repetition, the median, and the largest."""
    found = ratios(above, below)
    return [min(found), statistics.median(found), max(found)]


class Stopwatch:
    """Time since it was made, by the clock and of the processor."""

    def __init__(self) -> None:
        self._began, self._worked = time.perf_counter(), worked()

    def took(self) -> dict[str, float]:
        return {
            "seconds": round(time.perf_counter() - self._began, 1),
            "cpu_seconds": round(worked() - self._worked, 1),
        }


def worked() -> float:
    """Seconds of CPU time of this process and of its workers that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
