"""The order in which skills became true, to find those just before and just after another one.

    >>> timeline = Timeline()
    >>> for number, when in ((1, 0.0), (2, 60.0), (3, 90.0), (4, 90_000.0)):
    ...     timeline.put(number, when, part=0)
    >>> timeline.around(2, (0,)), timeline.around(4, (0,))
    ([1, 3], [])

What was said in one conversation belongs together, but two memories of different days don't, even if nothing lies
between them. So neighbours are at most an hour apart.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

__all__ = ["GAP", "Timeline"]

GAP = 3600.0
"""Maximum number of seconds between neighbours."""


class _Order:
    """Skills in the order of their times, and of their numbers where these are equal."""

    def __init__(self) -> None:
        self.times, self.numbers = array("d"), array("q")

    def place(self, when: float, number: int) -> int:
        """Return the place where a skill is, or would have to be."""
        first = bisect_left(self.times, when)
        if first == len(self.times) or self.times[first] != when:
            return first
        return bisect_left(self.numbers, number, first, bisect_right(self.times, when, first))

    def has(self, place: int, number: int) -> bool:
        return place < len(self.numbers) and self.numbers[place] == number


class Timeline:
    """Skills by the time from which they hold. Each part has an order of its own, as in `WordIndex`."""

    def __init__(self) -> None:
        self._orders: dict[int, _Order] = {}
        self._moments: dict[int, tuple[int, float]] = {}
        """By skill: its part and time."""

    def put(self, number: int, when: float, part: int) -> None:
        """Add a skill, or move it."""
        if self._moments.get(number) == (part, when):
            return
        if number in self._moments:
            self.remove(number)
        order = self._orders.setdefault(part, _Order())
        place = order.place(when, number)
        order.times.insert(place, when)
        order.numbers.insert(place, number)
        self._moments[number] = part, when

    def remove(self, number: int) -> None:
        """Remove a skill. An unknown number is ignored."""
        if number in self._moments:
            part, when = self._moments.pop(number)
            order = self._orders[part]
            place = order.place(when, number)
            del order.times[place], order.numbers[place]

    def around(self, number: int, parts: Iterable[int]) -> list[int]:
        """Return the skills just before and just after this one, in these parts."""
        if number not in self._moments:
            return []
        when = self._moments[number][1]
        before: list[tuple[float, int]] = []
        after: list[tuple[float, int]] = []
        for part in parts:
            order = self._orders.get(part)
            if order is None:
                continue
            place = order.place(when, number)
            if place and order.times[place - 1] >= when - GAP:
                before.append((order.times[place - 1], order.numbers[place - 1]))
            place += order.has(place, number)
            if place < len(order.times) and order.times[place] <= when + GAP:
                after.append((order.times[place], order.numbers[place]))
        return [other for _, other in (*sorted(before)[-1:], *sorted(after)[:1])]
