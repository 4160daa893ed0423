"""The vectors of a tenant's skills, in two search indexes: one of private and one of shared skills.

Every user may find every shared skill, so that index is searched without a filter. The private index is searched only
for the user's own skills, so those of others are never compared.

Most users have few private skills, and these are searched exactly. Each index switches to an inverted-file index by
its own size.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from agentfw_memory.graph.arrays import Bools, Float32Array, Integers
from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.index.vector_index import (
    TRAINING_POINTS,
    ExactIndex,
    ListIndex,
    VectorIndex,
    Visible,
    best,
    faiss_installed,
)

__all__ = ["PARTS", "SkillIndex"]

PARTS = ("private", "shared")
"""The two indexes. A skill is in the one at `PARTS[shared]`."""


class SkillIndex:
    """Vectors by number. Callers say at every call which numbers are shared."""

    def __init__(self, dimensions: int, settings: GraphSettings) -> None:
        self._settings = settings
        self._indexes: list[VectorIndex] = [ExactIndex(dimensions) for _ in PARTS]

    def __len__(self) -> int:
        return sum(len(index) for index in self._indexes)

    @property
    def dimensions(self) -> int:
        return self._indexes[0].dimensions

    @property
    def parts(self) -> Mapping[str, VectorIndex]:
        return dict(zip(PARTS, self._indexes, strict=True))

    def use(self, part: str, index: VectorIndex) -> None:
        """Use an index that was saved earlier."""
        self._indexes[PARTS.index(part)] = index

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

    def has(self, numbers: Integers, shared: Bools) -> Bools:
        """Return which of these numbers are in the part that they belong to."""
        private, common = self._indexes
        return np.where(shared, common.has(numbers), private.has(numbers))

    def keep_only(self, private: Integers, shared: Integers) -> None:
        """Remove all other numbers."""
        for index, numbers in zip(self._indexes, (private, shared), strict=True):
            index.remove(np.setdiff1d(index.numbers(), numbers).tolist())

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
        private, common = self._indexes
        found = common.search(query, k, None)
        if not len(own):
            return found
        mine = private.search(query, k, None if len(own) == len(private) else Visible(own))
        return best(np.concatenate([found[0], mine[0]]), np.concatenate([found[1], mine[1]]), k)

    def among(self, query: Float32Array, k: int, numbers: Sequence[int] | Integers) -> tuple[Integers, Float32Array]:
        """Return the numbers and similarities of the k best of these skills."""
        visible = Visible(numbers)
        sides = [index.search(query, k, visible) for index in self._indexes]
        return best(np.concatenate([side[0] for side in sides]), np.concatenate([side[1] for side in sides]), k)

    def fit_size(self, counter: int) -> None:
        """Switch large parts to an inverted-file index, and rebuild one that has outgrown its number of lists.

        `counter` is the change of the store whose vectors are here.
        """
        for place, index in enumerate(self._indexes):
            count = len(index)
            if count <= self._settings.exact_up_to or not faiss_installed():
                continue
            if not isinstance(index, ListIndex) or count > 4 * index.trained_for:
                self._indexes[place] = self._in_lists(index, counter)

    def _in_lists(self, old: VectorIndex, counter: int) -> ListIndex:
        settings, numbers = self._settings, np.sort(old.numbers())
        generator = np.random.default_rng(settings.seed)
        wanted = min(len(numbers), TRAINING_POINTS * ListIndex.lists(len(numbers)))
        sample = np.sort(generator.choice(numbers, wanted, replace=False))
        new = ListIndex.trained(old.vectors(sample), len(numbers), probed=settings.probed, seed=settings.seed)
        new.trained_at = counter
        for start in range(0, len(numbers), 50_000):
            part = numbers[start : start + 50_000]
            new.put(part, old.vectors(part))
        return new
