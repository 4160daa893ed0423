"""Finding the vectors that are most like one: through all of them, or through the likeliest lists of them.

The one rule: what a person may not see is left out before the best are chosen, never after. A search is given the
numbers that may be found, and finds the best of those.

    >>> index = ExactIndex(dimensions=2)
    >>> index.put(np.array([3, 8]), np.array([[1.0, 0.0], [0.6, 0.8]], np.float32))
    >>> index.search(np.array([1.0, 0.0], np.float32), 1, None)[0].tolist()
    [3]
    >>> index.search(np.array([1.0, 0.0], np.float32), 1, Visible([8]))[0].tolist()
    [8]

All vectors are of unit length, so likeness is their product. Both kinds give vectors back by number, so that none has
to be kept twice.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agentfw_memory.graph.stores.interface import Float32Array

__all__ = [
    "ExactIndex",
    "Integers",
    "ListIndex",
    "VectorIndex",
    "Visible",
    "best",
    "faiss_installed",
    "faiss_library",
    "grown",
    "products",
]

Integers = NDArray[np.int64]
Bools = NDArray[np.bool_]

TRAINING_POINTS = 40
"""So many vectors for each list are enough to find its centre."""
TRAINING_ROUNDS = 6


class Visible:
    """The numbers that may be found, in rising order."""

    def __init__(self, numbers: Iterable[int]) -> None:
        self.numbers = np.sort(np.fromiter(numbers, np.int64))

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def mask(self) -> Bools:
        """By number; what is beyond its end may not be found."""
        mask = np.zeros(int(self.numbers[-1]) + 1 if len(self.numbers) else 0, np.bool_)
        mask[self.numbers] = True
        return mask

    def among(self, numbers: Integers) -> Bools:
        """Which of these may be found."""
        mask = self.mask
        known = numbers < len(mask)
        known[known] = mask[numbers[known]]
        return known


class VectorIndex(Protocol):
    """Vectors by number."""

    dimensions: int

    def __len__(self) -> int: ...

    def numbers(self) -> Integers:
        """All that are here."""

    def has(self, numbers: Integers) -> Bools:
        """Which of these are here."""

    def put(self, numbers: Integers, vectors: Float32Array) -> None:
        """Take vectors, in the place of those that these numbers had."""

    def remove(self, numbers: Iterable[int]) -> None:
        """Numbers that aren't here are left alone."""

    def vectors(self, numbers: Integers) -> Float32Array:
        """The vectors of numbers that are here."""

    def search(self, query: Float32Array, k: int, visible: Visible | None) -> tuple[Integers, Float32Array]:
        """The numbers of the k most like the query, and how like; without `visible` all may be found."""


class ExactIndex:
    """Every vector is looked at: one product of a matrix and a vector."""

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._matrix = np.zeros((16, dimensions), np.float32)
        self._numbers = np.zeros(16, np.int64)
        self._count = 0
        self._slot = np.zeros(16, np.int64)  # by number: its row and one more, so that 0 is none

    def __len__(self) -> int:
        return self._count

    def numbers(self) -> Integers:
        return self._numbers[: self._count]

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
            self._matrix[last] = 0  # nothing of somebody who was forgotten stays in memory
            self._slot[number], self._count = 0, last

    def vectors(self, numbers: Integers) -> Float32Array:
        return self._matrix[self._slot[numbers] - 1]

    def search(self, query: Float32Array, k: int, visible: Visible | None) -> tuple[Integers, Float32Array]:
        count, numbers = self._count, self.numbers()
        if visible is not None and 4 * len(visible) < count:
            return _among(self, query, k, visible)
        likeness = products(self._matrix[:count], query)
        if visible is not None:
            hidden = ~visible.among(numbers)
            likeness[hidden] = -np.inf
        return best(numbers, likeness, k)


class ListIndex:
    """Vectors in lists of neighbours (FAISS IVF): only the lists whose centres are most like the query are looked at.

    Where a person may see so few that looking at each of theirs costs less, that is what is done, and is exact.
    """

    def __init__(self, index: Any, probed: float, trained_for: int) -> None:
        self.faiss: Any = index
        self.dimensions = int(index.d)
        self.trained_for = trained_for
        self.probes = max(1, round(probed * index.nlist))
        self._here = np.zeros(0, np.bool_)
        for place in range(index.nlist if index.ntotal else 0):
            self._mark(_ids(index, place))

    @classmethod
    def trained(cls, sample: Float32Array, count: int, *, probed: float, seed: int) -> ListIndex:
        """An empty index for about `count` vectors like those of the sample."""
        faiss = faiss_library()

        dimensions = sample.shape[1]
        centres = faiss.IndexFlatIP(dimensions)
        index = faiss.IndexIVFFlat(centres, dimensions, cls.lists(count), faiss.METRIC_INNER_PRODUCT)
        centres.this.disown()
        index.own_fields = True
        index.cp.niter, index.cp.max_points_per_centroid, index.cp.seed = TRAINING_ROUNDS, TRAINING_POINTS, seed
        index.cp.min_points_per_centroid = 1
        index.train(sample)
        index.set_direct_map_type(faiss.DirectMap.Hashtable)
        return cls(index, probed, count)

    @staticmethod
    def lists(count: int) -> int:
        """How many lists for so many vectors: about as many as there are vectors in each."""
        return max(1, min(4096, round(2 * math.sqrt(count))))

    def __len__(self) -> int:
        return int(self.faiss.ntotal)

    def numbers(self) -> Integers:
        return np.flatnonzero(self._here)

    def has(self, numbers: Integers) -> Bools:
        known = numbers < len(self._here)
        known[known] = self._here[numbers[known]]
        return known

    def put(self, numbers: Integers, vectors: Float32Array) -> None:
        if not len(numbers):
            return
        old = numbers[self.has(numbers)]
        with one_thread(len(numbers) < 1000):
            if len(old):
                self.faiss.remove_ids(old)
            self.faiss.add_with_ids(np.ascontiguousarray(vectors), numbers)
        self._mark(numbers)

    def remove(self, numbers: Iterable[int]) -> None:
        here = np.fromiter(numbers, np.int64)
        here = here[self.has(here)]
        if len(here):
            with one_thread():
                self.faiss.remove_ids(here)
            self._here[here] = False

    def vectors(self, numbers: Integers) -> Float32Array:
        with one_thread():
            found: Float32Array = self.faiss.reconstruct_batch(numbers)
        return found

    def search(self, query: Float32Array, k: int, visible: Visible | None) -> tuple[Integers, Float32Array]:
        if visible is not None and 4 * len(visible) * self.faiss.nlist < self.probes * len(self):
            return _among(self, query, k, visible)
        found = self._searched(query, k, visible, self.probes)
        wanted = min(k, len(self) if visible is None else len(visible))
        return found if len(found[0]) >= wanted else self._searched(query, k, visible, self.faiss.nlist)

    def _mark(self, numbers: Integers) -> None:
        if len(numbers):
            self._here = grown(self._here, int(numbers.max()) + 1)
            self._here[numbers] = True

    def _searched(
        self, query: Float32Array, k: int, visible: Visible | None, probes: int
    ) -> tuple[Integers, Float32Array]:
        faiss = faiss_library()

        bits = None if visible is None else np.packbits(visible.mask, bitorder="little")
        chosen = None if bits is None else faiss.IDSelectorBitmap(bits)
        parameters = faiss.SearchParametersIVF(sel=chosen, nprobe=probes)
        with one_thread():
            likeness, numbers = self.faiss.search(query[np.newaxis], k, params=parameters)
        there = numbers[0] >= 0
        return numbers[0][there], likeness[0][there]


@contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Let FAISS work without helpers: for a few vectors, waking them takes longer than the work."""
    faiss = faiss_library()

    before = faiss.omp_get_max_threads()
    if wanted:
        faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def faiss_installed() -> bool:
    return importlib.util.find_spec("faiss") is not None


def faiss_library() -> Any:
    """FAISS, whose own descriptions of its types don't fit what it does."""
    import faiss

    return faiss


def products(matrix: Float32Array, vector: Float32Array) -> Float32Array:
    """matrix @ vector, without the helpers that BLAS would wake for it: on a busy machine they come twenty times too
    late, and on a quiet one the memory is what limits."""
    found: Float32Array = np.einsum("ij,j->i", matrix, vector)
    return found


def _among(index: VectorIndex, query: Float32Array, k: int, visible: Visible) -> tuple[Integers, Float32Array]:
    """Look at each of the few that may be found."""
    numbers = visible.numbers[index.has(visible.numbers)]
    return best(numbers, products(index.vectors(numbers), query), k)


def best(numbers: Integers, likeness: Float32Array, k: int) -> tuple[Integers, Float32Array]:
    """The k most alike, the smaller number first among equals."""
    if len(numbers) > k:
        # All that are as like as the last of them: which of these comes in mustn't be a matter of chance.
        best = np.flatnonzero(likeness >= np.partition(likeness, len(numbers) - k)[len(numbers) - k])
        numbers, likeness = numbers[best], likeness[best]
    there = likeness > -np.inf
    numbers, likeness = numbers[there], likeness[there]
    order = np.lexsort((numbers, -likeness))[:k]
    return numbers[order], likeness[order]


def _ids(index: Any, place: int) -> Integers:
    """The numbers in one list."""
    faiss = faiss_library()

    lists = index.invlists
    size = lists.list_size(place)
    return np.array(faiss.rev_swig_ptr(lists.get_ids(place), size), np.int64) if size else np.zeros(0, np.int64)


def grown(old: Any, needed: int) -> Any:
    """The same array with room for so many, and then for as many again, so that growing one by one stays cheap."""
    if needed <= len(old):
        return old
    new = np.zeros((max(needed, 2 * len(old)), *old.shape[1:]), old.dtype)
    new[: len(old)] = old
    return new
