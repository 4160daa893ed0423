"""Which skills stand just before and after one in time.

What was said in one conversation belongs together, but two memories of different days don't, even if nothing lies
between them. So neighbours in time are at most an hour apart.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

import numpy as np

from agentfw_memory.graph.arrays import Floats, Integers, grown, resizable

GAP = 3600.0
"""Maximum number of seconds between neighbours."""
NOWHERE = -1
SIDES = np.array([[-1], [1]])
"""Before, and after."""


class _Order:
    """Skills in the order of their times, and of their numbers where these are equal."""

    def __init__(self) -> None:
        self.times, self.numbers = array("d"), array("q")

    def put(self, when: float, number: int) -> None:
        place = self._place(when, number)
        self.times, self.numbers = resizable(self.times), resizable(self.numbers)
        self.times.insert(place, when)
        self.numbers.insert(place, number)

    def remove(self, when: float, number: int) -> None:
        place = self._place(when, number)
        self.times, self.numbers = resizable(self.times), resizable(self.numbers)
        del self.times[place], self.numbers[place]

    def places(self, when: Floats, numbers: Integers) -> Integers:
        """Return the place where each of these skills is, or would have to be."""
        times = np.frombuffer(self.times)
        firsts, ends = times.searchsorted(when), times.searchsorted(when, "right")
        for row in np.flatnonzero(ends > firsts).tolist():
            firsts[row] = bisect_left(self.numbers, int(numbers[row]), int(firsts[row]), int(ends[row]))
        return firsts

    def _place(self, when: float, number: int) -> int:
        first = bisect_left(self.times, when)
        if first == len(self.times) or self.times[first] != when:
            return first
        return bisect_left(self.numbers, number, first, bisect_right(self.times, when, first))


class Timeline:
    """Skills by the time from which they hold. Each part has an order of its own, as in `WordIndex`.

    >>> timeline = Timeline()
    >>> for number, when in ((1, 0.0), (2, 60.0), (3, 90.0), (4, 90_000.0)):
    ...     timeline.put(number, when, part=0)
    >>> timeline.around(np.array([2, 4]), (0,)).tolist()
    [[1, 3], [-1, -1]]
    """

    def __init__(self) -> None:
        self._orders: dict[int, _Order] = {}
        self._times = np.zeros(16)
        self._parts = np.zeros(16, np.int64)
        """By skill: its time, and its part plus one, or 0."""

    def put(self, number: int, when: float, part: int) -> None:
        """Add a skill, or move it."""
        self.make_room(number + 1)
        if self._parts[number] == part + 1 and self._times[number] == when:
            return
        self.remove(number)
        order = self._orders.setdefault(part, _Order())
        order.put(when, number)
        self._times[number], self._parts[number] = when, part + 1

    def make_room(self, needed: int) -> None:
        """Have room for so many numbers."""
        self._times, self._parts = grown(self._times, needed), grown(self._parts, needed)

    def remove(self, number: int) -> None:
        """Remove a skill. An unknown number is ignored."""
        if number < len(self._parts) and (part := int(self._parts[number])):
            self._orders[part - 1].remove(float(self._times[number]), number)
            self._parts[number] = 0

    def around(self, numbers: Integers, parts: Iterable[int]) -> Integers:
        """Return for each of these skills the ones just before and just after it in these parts, or -1 for none."""
        when, of = self._times[numbers], self._parts[numbers] - 1
        found = np.full((2, len(numbers)), NOWHERE, np.int64)
        nearest = np.full((2, len(numbers)), np.inf)
        for part in parts:
            order = self._orders.get(part)
            if order is None or not order.numbers:
                continue
            places = order.places(when, numbers)
            at = np.stack([places - 1, places + (of == part)])
            there = (at >= 0) & (at < len(order.numbers)) & (of != NOWHERE)
            at[~there] = 0
            times, others = np.frombuffer(order.times)[at], np.frombuffer(order.numbers, np.int64)[at]
            there &= np.abs(times - when) <= GAP
            times *= SIDES  # of those before, the latest is the nearest
            there &= (times < nearest) | ((times == nearest) & (SIDES * others < SIDES * found))
            nearest[there], found[there] = times[there], others[there]
        return found.T
