"""The vectors of a tenant on two shelves: what everybody may find, and what is somebody's own.

The one rule: the shared shelf is searched without a filter, since all of it may be found, and the private one only for
what is the searcher's. So what others keep to themselves is never even looked at.

Most people own little in private, and all of that is looked at; how many skills a tenant has tells only on the shared
shelf. Each shelf goes over from looking at everything to lists of neighbours by its own size.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.stores.interface import Float32Array
from agentfw_memory.graph.vector_index import (
    TRAINING_POINTS,
    ExactIndex,
    Integers,
    ListIndex,
    VectorIndex,
    Visible,
    best,
    faiss_installed,
)

__all__ = ["SHELVES", "Shelves"]

Bools = NDArray[np.bool_]

SHELVES = ("private", "shared")
"""By whether a skill is shared: 0 or 1."""


class Shelves:
    """Vectors by number; whether a number is shared is told at every call."""

    def __init__(self, dimensions: int, settings: GraphSettings) -> None:
        self._settings = settings
        self._indexes: list[VectorIndex] = [ExactIndex(dimensions) for _ in SHELVES]

    def __len__(self) -> int:
        return sum(len(index) for index in self._indexes)

    @property
    def indexes(self) -> Mapping[str, VectorIndex]:
        return dict(zip(SHELVES, self._indexes, strict=True))

    def take_over(self, shelf: str, index: VectorIndex) -> None:
        """Use an index that was built before."""
        self._indexes[SHELVES.index(shelf)] = index

    def put(self, numbers: Integers, vectors: Float32Array, shared: Bools) -> None:
        """Take vectors, in the place of those that these numbers had, on whichever shelf."""
        for place, index in enumerate(self._indexes):
            here = shared == bool(place)
            if len(index):
                index.remove(numbers[~here].tolist())
            index.put(numbers[here], vectors[here])

    def remove(self, numbers: Collection[int]) -> None:
        for index in self._indexes:
            index.remove(numbers)

    def has(self, numbers: Integers, shared: Bools) -> Bools:
        """Which of these are here, each on its own shelf."""
        private, common = self._indexes
        return np.where(shared, common.has(numbers), private.has(numbers))

    def keep_only(self, private: Integers, shared: Integers) -> None:
        """Take down whatever else is there."""
        for index, numbers in zip(self._indexes, (private, shared), strict=True):
            index.remove(np.setdiff1d(index.numbers(), numbers).tolist())

    def vectors(self, numbers: Integers, shared: Bools) -> Float32Array:
        private, common = self._indexes
        if shared.all():
            return common.vectors(numbers)
        found = np.empty((len(numbers), self.dimensions), np.float32)
        found[shared], found[~shared] = common.vectors(numbers[shared]), private.vectors(numbers[~shared])
        return found

    @property
    def dimensions(self) -> int:
        return self._indexes[0].dimensions

    def search(self, query: Float32Array, k: int, own: Collection[int]) -> tuple[Integers, Float32Array]:
        """The k most like a query, of what is shared and of these private ones, and how like."""
        private, common = self._indexes
        found = common.search(query, k, None)
        if not own:
            return found
        mine = private.search(query, k, None if len(own) == len(private) else Visible(own))
        return best(np.concatenate([found[0], mine[0]]), np.concatenate([found[1], mine[1]]), k)

    def among(self, query: Float32Array, k: int, numbers: Iterable[int]) -> tuple[Integers, Float32Array]:
        """Of these numbers the k most like a query, and how like."""
        visible = Visible(numbers)
        sides = [index.search(query, k, visible) for index in self._indexes]
        return best(np.concatenate([side[0] for side in sides]), np.concatenate([side[1] for side in sides]), k)

    def settle(self) -> None:
        """Go over to lists where there are too many vectors to look at each; make new lists when those are too few."""
        for place, index in enumerate(self._indexes):
            count = len(index)
            if count <= self._settings.exact_up_to or not faiss_installed():
                continue
            if not isinstance(index, ListIndex) or count > 4 * index.trained_for:
                self._indexes[place] = self._in_lists(index)

    def _in_lists(self, old: VectorIndex) -> ListIndex:
        settings, numbers = self._settings, np.sort(old.numbers())
        generator = np.random.default_rng(settings.seed)
        wanted = min(len(numbers), TRAINING_POINTS * ListIndex.lists(len(numbers)))
        sample = np.sort(generator.choice(numbers, wanted, replace=False))
        new = ListIndex.trained(old.vectors(sample), len(numbers), probed=settings.probed, seed=settings.seed)
        for start in range(0, len(numbers), 50_000):
            part = numbers[start : start + 50_000]
            new.put(part, old.vectors(part))
        return new
