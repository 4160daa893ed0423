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

from bisect import bisect_left, insort
from collections.abc import Iterable

__all__ = ["GAP", "Timeline"]

GAP = 3600.0
"""Maximum number of seconds between neighbours."""
NOBODY = 2**63
"""A number above that of any skill."""

Moment = tuple[float, int]


class Timeline:
    """Skills by the time from which they hold. Each part has an order of its own, as in `WordIndex`."""

    def __init__(self) -> None:
        self._orders: dict[int, list[Moment]] = {}
        self._places: dict[int, tuple[int, Moment]] = {}

    def put(self, number: int, when: float, part: int) -> None:
        """Add a skill, or move it."""
        moment = (when, number)
        if self._places.get(number) == (part, moment):
            return
        if number in self._places:
            self.remove(number)
        order = self._orders.setdefault(part, [])
        if order and moment < order[-1]:
            insort(order, moment)
        else:
            order.append(moment)
        self._places[number] = part, moment

    def remove(self, number: int) -> None:
        """Remove a skill. An unknown number is ignored."""
        part, moment = self._places.pop(number, (0, (0.0, number)))
        order = self._orders.get(part, [])
        place = bisect_left(order, moment)
        if order[place : place + 1] == [moment]:
            del order[place]

    def around(self, number: int, parts: Iterable[int]) -> list[int]:
        """Return the skills just before and just after this one, in these parts."""
        if number not in self._places:
            return []
        moment = self._places[number][1]
        before, after = (moment[0] - GAP, -1), (moment[0] + GAP, NOBODY)
        for part in parts:
            order = self._orders.get(part)
            if not order:
                continue
            place = bisect_left(order, moment)
            if place and order[place - 1] > before:
                before = order[place - 1]
            place += place < len(order) and order[place] == moment
            if place < len(order) and order[place] < after:
                after = order[place]
        return [other for _, other in (before, after) if 0 <= other < NOBODY]
