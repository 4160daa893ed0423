"""Nearest-neighbour search over vectors: exact, or approximate with an inverted-file index (FAISS IVF).

A search is given the numbers that may be found and returns the best of those. Nothing is filtered out afterwards, so
skills that a user may not see never take a place among the k best.

    >>> index = ExactIndex(dimensions=2)
    >>> index.put(np.array([3, 8]), np.array([[1.0, 0.0], [0.6, 0.8]], np.float32))
    >>> index.search(np.array([1.0, 0.0], np.float32), 1, None)[0].tolist()
    [3]
    >>> index.search(np.array([1.0, 0.0], np.float32), 1, np.array([8]))[0].tolist()
    [8]

A tenant's skills are in two indexes, of private and of shared skills (`SkillIndex`). Every user may find every shared
skill, so that index is searched without a filter. The private one is searched only for the user's own skills, which are
few, so those of others are never compared. Each switches to an inverted-file index by its own size.

A large index is saved in a file beside the store, so that opening the graph doesn't build it again: a line of JSON,
FAISS's own bytes, and a checksum of both. The file is a cache. It is used only if it is intact, belongs to this store
and tenant, and isn't newer than the store. It must never hold data of a user who was forgotten later.

All vectors have unit length, so similarity is the dot product. Both indexes can return their vectors by number, so no
second copy is needed.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from agentfw_memory.files import make_private
from agentfw_memory.graph.arrays import Bools, Float32Array, Integers, grown
from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.rows.graph_rows import GraphRows

TRAINING_POINTS = 40
"""Number of vectors per list that its centre is computed from."""
TRAINING_ROUNDS = 6
FILE_FORMAT = 1
CHECKSUM_BYTES = 32
READ_AT_ONCE = 1 << 20
PARTS = ("private", "shared")
"""The two indexes. A skill is in the one at `PARTS[shared]`."""


class ExactIndex:
    """Compares the query with every vector, by one product of a matrix and a vector.

    `put` adds vectors or replaces those of known numbers, and `remove` ignores unknown ones. `search` returns the
    numbers and similarities of the k best vectors, of the visible ones (in ascending order) or of all.
    """

    def __init__(self, dimensions: int) -> None:
        self.dimensions = dimensions
        self._matrix = np.zeros((0, dimensions), np.float32)
        self._numbers = np.zeros(16, np.int64)
        self._count = 0
        self._slot = np.zeros(16, np.int64)  # by number: its row plus one, or 0

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
            self._matrix[last] = 0  # forgotten vectors must not stay in memory
            self._slot[number], self._count = 0, last

    def vectors(self, numbers: Integers) -> Float32Array:
        return self._matrix[self._slot[numbers] - 1]

    def search(self, query: Float32Array, k: int, visible: Integers | None) -> tuple[Integers, Float32Array]:
        count, numbers = self._count, self.numbers()
        if visible is not None and 4 * len(visible) < count:
            return _exact_among(self, query, k, visible)
        similarity = products(self._matrix[:count], query)
        if visible is not None:
            similarity[~np.isin(numbers, visible)] = -np.inf
        return best(numbers, similarity, k)


class ListIndex:
    """An inverted-file index (FAISS IVF). A search looks only at the lists whose centres are nearest to the query.

    If few vectors are visible, each of them is compared instead, which is faster and exact.
    """

    def __init__(self, index: Any, probed: float, trained_for: int) -> None:
        self.faiss: Any = index
        self.dimensions = int(index.d)
        self.trained_for = trained_for
        self.trained_at = 0
        """The change of the store that its lists' centres were computed at. A centre may be somebody's vector."""
        self.probes = max(1, round(probed * index.nlist))
        self._here = np.zeros(0, np.bool_)
        for place in range(index.nlist if index.ntotal else 0):
            self._mark(_numbers_in_list(index, place))

    @classmethod
    def trained(cls, sample: Float32Array, count: int, *, probed: float, seed: int) -> ListIndex:
        """Return an empty index for about `count` vectors distributed like the sample."""
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
        """Return the number of lists for `count` vectors: about as many as there are vectors in each."""
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

    def search(self, query: Float32Array, k: int, visible: Integers | None) -> tuple[Integers, Float32Array]:
        if visible is not None and 4 * len(visible) * self.faiss.nlist < self.probes * len(self):
            return _exact_among(self, query, k, visible)
        found = self._search_lists(query, k, visible, self.probes)
        wanted = min(k, len(self) if visible is None else len(visible))
        return found if len(found[0]) >= wanted else self._search_lists(query, k, visible, self.faiss.nlist)

    def _mark(self, numbers: Integers) -> None:
        if len(numbers):
            self._here = grown(self._here, int(numbers.max()) + 1)
            self._here[numbers] = True

    def _search_lists(
        self, query: Float32Array, k: int, visible: Integers | None, probes: int
    ) -> tuple[Integers, Float32Array]:
        faiss = faiss_library()

        chosen = None
        if visible is not None:
            mask = np.zeros(int(visible.max(initial=-1)) + 1, np.bool_)
            mask[visible] = True
            bits = np.packbits(mask, bitorder="little")  # FAISS reads it, and holds no reference
            chosen = faiss.IDSelectorBitmap(bits)
        parameters = faiss.SearchParametersIVF(sel=chosen, nprobe=probes)
        with one_thread():
            similarity, numbers = self.faiss.search(query[np.newaxis], k, params=parameters)
        there = numbers[0] >= 0
        return numbers[0][there], similarity[0][there]


VectorIndex = ExactIndex | ListIndex


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
        mine = private.search(query, k, None if len(own) == len(private) else own)
        return best(np.concatenate([found[0], mine[0]]), np.concatenate([found[1], mine[1]]), k)

    def among(self, query: Float32Array, k: int, numbers: Sequence[int] | Integers) -> tuple[Integers, Float32Array]:
        """Return the numbers and similarities of the k best of these skills."""
        visible = np.sort(np.asarray(numbers, np.int64))
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


@contextmanager
def one_thread(wanted: bool = True) -> Iterator[None]:
    """Run FAISS on one thread. For few vectors, waking the other threads takes longer than the work."""
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
    """Return the module faiss as Any, because its type stubs are wrong."""
    import faiss

    return faiss


def products(matrix: Float32Array, vector: Float32Array) -> Float32Array:
    """Return matrix @ vector, computed on one thread.

    Memory is the limit here, so the threads of BLAS gain nothing. On a busy machine, waking them is 20 times slower.
    """
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


def _exact_among(index: VectorIndex, query: Float32Array, k: int, visible: Integers) -> tuple[Integers, Float32Array]:
    """Compare each visible vector."""
    numbers = visible[index.has(visible)]
    return best(numbers, products(index.vectors(numbers), query), k)


def _numbers_in_list(index: Any, place: int) -> Integers:
    faiss = faiss_library()

    lists = index.invlists
    size = lists.list_size(place)
    return np.array(faiss.rev_swig_ptr(lists.get_ids(place), size), np.int64) if size else np.zeros(0, np.int64)


def save_index(index: ListIndex, part: str, counter: int, rows: GraphRows) -> bool:
    """Save an index as of a change. Return False if there is no place for it or it is already out of date."""
    faiss = faiss_library()

    path, head_now = _path(rows, part), rows.store.head()
    # The centre of a list of one skill is the vector of that skill, and stays when the skill is deleted. So an index
    # from before a deletion is used as long as this process runs, and the next process makes another one.
    if path is None or head_now.forgotten > index.trained_at:
        return False
    head = {"format": FILE_FORMAT, "store": head_now.identity, "counter": counter, "trained_for": index.trained_for}
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    make_private(partial)
    try:
        with partial.open("wb") as file:
            check = blake2b(digest_size=CHECKSUM_BYTES)

            def write(data: bytes) -> int:
                check.update(data)
                return file.write(data)

            write(json.dumps(head).encode() + b"\n")
            faiss.write_index(index.faiss, faiss.PyCallbackIOWriter(write))
            file.write(check.digest())
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except FileNotFoundError:
        return False  # a process that forgot a user removed the partial file
    finally:
        partial.unlink(missing_ok=True)
    if rows.store.head().forgotten > counter:
        # A user was forgotten meanwhile, perhaps before this file was there to be removed.
        remove_indexes(rows)
        return False
    return True


def load_index(rows: GraphRows, part: str, *, dimensions: int, probed: float) -> tuple[ListIndex, int] | None:
    """Return a saved index and the change it was saved at, or None if there is none that fits."""
    path = _path(rows, part)
    if path is None or not path.exists():
        return None
    faiss = faiss_library()

    with path.open("rb") as file:
        if not _is_intact(path):
            return None
        head, now = json.loads(file.readline()), rows.store.head()
        if head["format"] != FILE_FORMAT or head["store"] != now.identity or head["counter"] > now.counter:
            return None
        index = faiss.read_index(faiss.PyCallbackIOReader(file.read))
    if index.d != dimensions:
        return None
    loaded = ListIndex(index, probed, head["trained_for"])
    loaded.trained_at = head["counter"]  # it was saved then, so nothing had been deleted since its training
    return loaded, head["counter"]


def remove_indexes(rows: GraphRows) -> int:
    """Delete all index files of a tenant, partial ones of other processes included. Return how many there were."""
    path = rows.store.index_path
    if path is None:
        return 0
    gone = 0
    for file in [file for file in path.parent.iterdir() if file.name.startswith(f"{path.stem}-")]:
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
            gone += 1
    return gone


def _path(rows: GraphRows, part: str) -> Path | None:
    path = rows.store.index_path
    return None if path is None else path.with_name(f"{path.stem}-{part}{path.suffix}")


def _is_intact(path: Path) -> bool:
    left = path.stat().st_size - CHECKSUM_BYTES
    check = blake2b(digest_size=CHECKSUM_BYTES)
    with path.open("rb") as file:
        while left > 0 and (block := file.read(min(READ_AT_ONCE, left))):
            check.update(block)
            left -= len(block)
        return left == 0 and file.read() == check.digest()
