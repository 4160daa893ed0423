"""The terms of many texts and how often each occurs, as one array that is read for hundreds of texts at once.

>>> texts = CountedTexts()
>>> texts.put(7, np.array([[3, 1], [5, 2]], np.int32))
>>> texts.put(9, np.array([[3, 4]], np.int32))
>>> pairs, sizes = texts.gather(np.array([9, 7]))
>>> pairs.tolist(), sizes.tolist()
([[3, 4], [3, 1], [5, 2]], [1, 2])
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from agentfw_memory.graph.arrays import Integers, grown

__all__ = ["CountedTexts", "Pairs"]

Pairs = NDArray[np.int32]
"""Rows of a term and its count."""


class CountedTexts:
    """Pairs of a term and its count, by the number of a text."""

    def __init__(self) -> None:
        self._pairs = np.zeros((16, 2), np.int32)
        self._end = self._unused = 0
        self._starts, self._sizes = np.zeros(16, np.int64), np.zeros(16, np.int64)

    @classmethod
    def of_arrays(cls, numbers: Integers, sizes: Integers, pairs: Pairs) -> CountedTexts:
        """Take over texts whose pairs stand one text after the other."""
        texts = cls()
        room = int(numbers.max(initial=0)) + 1
        texts._pairs, texts._end = pairs, len(pairs)
        texts._starts, texts._sizes = np.zeros(room, np.int64), np.zeros(room, np.int64)
        texts._starts[numbers], texts._sizes[numbers] = np.cumsum(sizes) - sizes, sizes
        return texts

    def of(self, number: int) -> Pairs:
        """Return the pairs of a text."""
        start = self._starts[number]
        return self._pairs[start : start + self._sizes[number]]

    def gather(self, numbers: Integers) -> tuple[Pairs, Integers]:
        """Return the pairs of these texts, one text after the other, and how many each has."""
        sizes = self._sizes[numbers]
        ends = np.cumsum(sizes)
        places = np.repeat(self._starts[numbers] - ends + sizes, sizes) + np.arange(sizes.sum())
        # A pair is read as one number, because taking rows of two is slower.
        return self._pairs.view(np.int64)[:, 0].take(places).view(np.int32).reshape(-1, 2), sizes

    def put(self, number: int, pairs: Pairs) -> None:
        """Add a text whose number isn't here."""
        start, self._end = self._end, self._end + len(pairs)
        self._pairs = grown(self._pairs, self._end)
        self._pairs[start : self._end] = pairs
        self._starts, self._sizes = grown(self._starts, number + 1), grown(self._sizes, number + 1)
        self._starts[number], self._sizes[number] = start, len(pairs)

    def remove(self, number: int) -> Pairs:
        """Remove a text and return its pairs."""
        gone = self.of(number).copy()
        self.of(number)[:] = 0  # what was forgotten must not stay in memory
        self._sizes[number] = 0
        self._unused += len(gone)
        if 2 * self._unused > self._end:
            self._close_up()
        return gone

    def _close_up(self) -> None:
        """Give back the room of removed texts."""
        numbers = np.flatnonzero(self._sizes)
        pairs, sizes = self.gather(numbers)
        self._starts[numbers] = np.cumsum(sizes) - sizes
        self._pairs, self._end, self._unused = pairs, len(pairs), 0
