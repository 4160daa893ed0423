"""Nearest-neighbour search over vectors of unit length: the query is compared with every vector that may be found.

Nothing is filtered out afterwards, so skills that a user may not see never take a place among the k best.

    >>> index = VectorIndex(dimensions=2)
    >>> index.put(np.array([3, 8]), np.array([[1.0, 0.0], [0.6, 0.8]], np.float32))
    >>> index.search(np.array([1.0, 0.0], np.float32), 1, None)[0].tolist()
    [3]
    >>> index.search(np.array([1.0, 0.0], np.float32), 1, np.array([8]))[0].tolist()
    [8]

Every user may find every shared skill, so these are in an index of their own, which is searched without a filter
(`SkillIndex`). The private one is searched only for the user's own skills, so those of others are never compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import numpy as np

from ..records import Bools, Float32Array, Integers


class VectorIndex:
    """Compares the query with every vector, by one product of a matrix and a vector. `put` adds vectors or replaces
    those of known numbers, and `remove` ignores unknown ones. `search` returns the numbers and similarities of the k
    best vectors, of the visible ones (in ascending order) or of all."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._matrix = np.zeros((0, dimensions), np.float32)
        self._numbers = np.zeros(16, np.int64)
        self._count = 0
        self._slot = np.zeros(16, np.int64)  # by number: its row plus one, or 0

    def __len__(self) -> int:
        return self._count

    def has(self, numbers: Integers) -> Bools:
        known = numbers < len(self._slot)
        known[known] = self._slot[numbers[known]] > 0
        return known

    def put(self, numbers: Integers, vectors: Float32Array) -> None:
        if not len(numbers):
            return
        self._slot = grown(self._slot, int(numbers.max()) + 1)
        new = numbers[~self.has(numbers)]
        first, self._count = self._count, self._count + len(new)
        self._matrix, self._numbers = grown(self._matrix, self._count), grown(self._numbers, self._count)
        self._numbers[first : self._count] = new
        self._slot[new] = np.arange(first, self._count) + 1
        self._matrix[self._slot[numbers] - 1] = vectors

    def remove(self, numbers: Iterable[int]) -> None:
        gone = np.fromiter(numbers, np.int64)
        for number in gone[self.has(gone)].tolist():
            slot, last = int(self._slot[number]) - 1, self._count - 1
            moved = self._numbers[last]
            self._matrix[slot], self._numbers[slot], self._slot[moved] = self._matrix[last], moved, slot + 1
            self._matrix[last] = 0  # forgotten vectors must not stay in memory
            self._slot[number], self._count = 0, last

    def vectors(self, numbers: Integers) -> Float32Array:
        return self._matrix[self._slot[numbers] - 1]

    def search(self, query: Float32Array, k: int, visible: Integers | None) -> tuple[Integers, Float32Array]:
        count, numbers = self._count, self._numbers[: self._count]
        if visible is not None and 4 * len(visible) < count:
            here = visible[self.has(visible)]
            return best(here, products(self.vectors(here), query), k)
        similarity = products(self._matrix[:count], query)
        if visible is not None:
            similarity[~np.isin(numbers, visible)] = -np.inf
        return best(numbers, similarity, k)


class SkillIndex:
    """Vectors by number. Callers say at every call which numbers are shared."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._indexes = VectorIndex(dimensions), VectorIndex(dimensions)  # private skills, and shared ones

    def __len__(self) -> int:
        return sum(len(index) for index in self._indexes)

    def put(self, numbers: Integers, vectors: Float32Array, shared: Bools) -> None:
        """Add or replace vectors, moving them between the parts where needed."""
        for place, index in enumerate(self._indexes):
            here = shared == bool(place)
            if len(index) and not here.all():
                index.remove(numbers[~here].tolist())
            if here.any():
                index.put(numbers[here], vectors[here])

    def remove(self, numbers: Collection[int]) -> None:
        for index in self._indexes:
            index.remove(numbers)

    def vectors(self, numbers: Integers, shared: Bools) -> Float32Array:
        private, common = self._indexes
        count = np.count_nonzero(shared)
        if count in (0, len(numbers)):
            return (common if count else private).vectors(numbers)
        found = np.empty((len(numbers), self.dimensions), np.float32)
        found[shared], found[~shared] = common.vectors(numbers[shared]), private.vectors(numbers[~shared])
        return found

    def search(self, query: Float32Array, k: int, own: Integers) -> tuple[Integers, Float32Array]:
        """Return the numbers and similarities of the k best skills: of the shared ones and of these private ones."""
        return self._best(query, k, None if len(own) == len(self._indexes[0]) else own, None)

    def among(self, query: Float32Array, k: int, numbers: Sequence[int] | Integers) -> tuple[Integers, Float32Array]:
        """Return the numbers and similarities of the k best of these skills."""
        visible = np.sort(np.asarray(numbers, np.int64))
        return self._best(query, k, visible, visible)

    def _best(self, query: Float32Array, k: int, *visible: Integers | None) -> tuple[Integers, Float32Array]:
        sides = [index.search(query, k, some) for index, some in zip(self._indexes, visible, strict=True)]
        return best(np.concatenate([side[0] for side in sides]), np.concatenate([side[1] for side in sides]), k)


def grown(old: Any, needed: int) -> Any:
    """Return the array with room for at least `needed` rows. Room at least doubles, so appending stays cheap."""
    if needed <= len(old):
        return old
    new = np.zeros((max(needed, 2 * len(old)), *old.shape[1:]), old.dtype)
    new[: len(old)] = old
    return new


def products(matrix: Float32Array, vector: Float32Array) -> Float32Array:
    """Return matrix @ vector, computed on one thread. Memory is the limit here, so the threads of BLAS gain nothing. On
    a busy machine, waking them is 20 times slower."""
    found: Float32Array = np.einsum("ij,j->i", matrix, vector)
    return found


def best(numbers: Integers, similarity: Float32Array, k: int) -> tuple[Integers, Float32Array]:
    """Return the k most similar, highest first. Ties are in ascending order of numbers."""
    if len(numbers) > k:
        # Keep all ties with the last one, so that the smaller numbers win and not the order of partitioning.
        best = np.flatnonzero(similarity >= np.partition(similarity, len(numbers) - k)[len(numbers) - k])
        numbers, similarity = numbers[best], similarity[best]
    there = similarity > -np.inf
    numbers, similarity = numbers[there], similarity[there]
    order = np.lexsort((numbers, -similarity))[:k]
    return numbers[order], similarity[order]
