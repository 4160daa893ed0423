"""What a process keeps in memory of a tenant, so that a recall asks the disk for nothing but the texts it gives back.

The one rule: it is a copy of the store and never more than that. `catch_up` asks the store for its counter, and takes
what others have changed since; nothing is ever written here first.

A skill's number is its place in the arrays. Private skills are known here, with whom they belong to, so that what a
person may see is decided before anything is searched: `visible_to`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from .index import TRAINING_POINTS, ExactIndex, Integers, ListIndex, VectorIndex, Visible, faiss_installed, grown
from .settings import GraphSettings
from .store import Float32Array, LiveRows, Store

__all__ = ["View"]


class View:
    """One tenant, as of one change."""

    def __init__(self, store: Store, settings: GraphSettings, dimensions: int) -> None:
        self._store, self._settings, self._dimensions = store, settings, dimensions
        self.counter = 0
        self._index_counter = 0
        self.index: VectorIndex = ExactIndex(dimensions)
        self.owner = np.zeros(1024, np.int64)
        self.live = np.zeros(1024, np.bool_)
        self.shared = np.zeros(1024, np.bool_)
        self.uses = np.zeros(1024, np.int64)
        self.rewards = np.zeros(1024)
        self.members: dict[int, set[int]] = {}
        """The skills of each owner."""
        self.partners: dict[int, set[int]] = {}
        """What a skill works well with."""
        self.rivals: dict[int, set[int]] = {}
        """What a skill contradicts."""
        self._shared_count = 0
        self._private: dict[int, set[int]] = {}
        self._users: dict[int, Float32Array | None] = {}
        self._sums: dict[int, NDArray[np.float64]] = {}
        self._siblings: dict[tuple[int, bool], Integers] = {}
        self._shared: Visible | None = None

    def __len__(self) -> int:
        """How many skills are valid."""
        return len(self.index)

    def begin_with(self, index: ListIndex, counter: int) -> None:
        """Take an index as it was at a change, so that the first `catch_up` needn't build one."""
        self.index, self._index_counter = index, counter

    def catch_up(self, counter: int) -> list[int]:
        """Take what has changed in the store up to this change; the skills that are new, changed or gone.

        Rows that are newer still are taken too, and once more the next time.
        """
        touched: list[int] = []
        gone = self._store.ended(self.counter) if self.counter else []
        self._drop(gone)
        if gone:
            self._users.clear()  # one of them may have been forgotten, with their profile
        for rows in self._store.live(self.counter):
            self._take(rows)
            touched += rows.numbers.tolist()
        if not self.counter:
            self._finish_index()
        self._relate(touched if self.counter else None)
        for user in self._store.profiles_changed(self.counter):
            self._users.pop(user, None)
        self._shared = None
        self.counter = counter
        self._choose_index()
        return [*gone, *touched]

    def visible_to(self, user: int | None) -> Visible | None:
        """The skills that a user may find: what is shared, and their own. None where that is every skill."""
        own: set[int] = set() if user is None else self._private.get(user, set())
        if self._shared_count + len(own) == len(self):
            return None
        if self._shared is None:
            self._shared = Visible.masked(self.live & self.shared)
        return self._shared.and_also(np.fromiter(own, np.int64, len(own)))

    def user_vector(self, user: int) -> Float32Array | None:
        """What a user is like: their profile, or else the mean of their skills. None without either."""
        if user not in self._users:
            vector = self._store.profile(user)
            if vector is None and self.members.get(user):
                if user not in self._sums:
                    own = np.fromiter(self.members[user], np.int64)
                    self._sums[user] = self.index.vectors(np.sort(own)).sum(0, dtype=np.float64)
                total = self._sums[user]
                vector = np.asarray(total / max(float(np.linalg.norm(total)), 1e-12), np.float32)
            self._users[user] = vector
        return self._users[user]

    def siblings(self, owner: int, reader: int | None) -> Integers:
        """The first of an owner's skills that a reader may see: the most useful, then the newest."""
        key = (owner, owner == reader)
        if key not in self._siblings:
            own = np.fromiter(self.members.get(owner, ()), np.int64)
            self._siblings[key] = self._first(own if owner == reader else own[self.shared[own]])
        return self._siblings[key]

    def likest(self, vector: Float32Array, k: int, numbers: Integers) -> tuple[Integers, Float32Array]:
        """Of these skills, the k most like a vector, and how like."""
        return self.index.search(vector, k, Visible.of(numbers))

    # Within

    def _take(self, rows: LiveRows) -> None:
        numbers = rows.numbers
        self._make_room(int(numbers[-1]) + 1)
        known = self.live[numbers]
        changed = ~known
        if known.any():
            old = numbers[known]
            before = self.index.vectors(old)
            changed[known] = (before != rows.vectors[known]).any(1)
            self._unsort(old)
            self._sum(old, -before)
        if not self.counter:
            changed = ~self.index.has(numbers)
        self.index.put(numbers[changed], rows.vectors[changed])
        self.owner[numbers], self.live[numbers], self.shared[numbers] = rows.owners, True, rows.shared
        self.uses[numbers], self.rewards[numbers] = rows.uses, rows.rewards
        self._sort(numbers)
        self._sum(numbers, rows.vectors)
        for number, owner in zip(numbers.tolist(), rows.owners.tolist(), strict=True):
            self.members.setdefault(owner, set()).add(number)
            self._users.pop(owner, None)
        if self._siblings:
            for number in numbers.tolist():
                self._rank_sibling(number)

    def _drop(self, gone: Iterable[int]) -> None:
        numbers = np.array([one for one in gone if one < len(self.live) and self.live[one]], np.int64)
        if not len(numbers):
            return
        self._unsort(numbers)
        self._sum(numbers, -self.index.vectors(numbers))
        self.index.remove(numbers.tolist())
        self.live[numbers] = False
        for number, owner in zip(numbers.tolist(), self.owner[numbers].tolist(), strict=True):
            self.members[owner].discard(number)
            self._users.pop(owner, None)
            self._siblings.pop((owner, True), None)
            self._siblings.pop((owner, False), None)
            if not self.members[owner]:
                del self.members[owner]
                self._sums.pop(owner, None)
        self._part(numbers.tolist())

    def _sort(self, numbers: Integers) -> None:
        """Sort skills by who may see them; what is shared is only counted."""
        shared = self.shared[numbers]
        self._shared_count += int(np.count_nonzero(shared))
        hidden = numbers[~shared]
        for number, owner in zip(hidden.tolist(), self.owner[hidden].tolist(), strict=True):
            self._private.setdefault(owner, set()).add(number)

    def _unsort(self, numbers: Integers) -> None:
        shared = self.shared[numbers]
        self._shared_count -= int(np.count_nonzero(shared))
        hidden = numbers[~shared]
        for number, owner in zip(hidden.tolist(), self.owner[hidden].tolist(), strict=True):
            self._private[owner].discard(number)

    def _sum(self, numbers: Integers, vectors: Float32Array) -> None:
        """Keep the sums of owners up to date whose sum was asked for."""
        if self._sums:
            for place, owner in enumerate(self.owner[numbers].tolist()):
                if owner in self._sums:
                    self._sums[owner] += vectors[place]

    def _rank_sibling(self, number: int) -> None:
        """Put a skill where it belongs among the first of its owner's."""
        owner = int(self.owner[number])
        for own in (True, False):
            first = self._siblings.get((owner, own))
            if first is None:
                continue
            if number in first:  # it may have to make room for one that isn't among the first
                del self._siblings[owner, own]
            elif own or self.shared[number]:
                self._siblings[owner, own] = self._first(np.append(first, number))

    def _first(self, numbers: Integers) -> Integers:
        utility = self.rewards[numbers] / np.maximum(self.uses[numbers], 1)
        return numbers[np.lexsort((-numbers, -utility))[: self._settings.siblings]]

    def _relate(self, numbers: Sequence[int] | None) -> None:
        """Read anew what these skills work well with and what they contradict."""
        self._part(numbers or ())
        for kind, one, other in self._store.relations(numbers):
            relation = self.partners if kind == "COMPLEMENTS" else self.rivals
            relation.setdefault(one, set()).add(other)
            relation.setdefault(other, set()).add(one)

    def _part(self, numbers: Iterable[int]) -> None:
        """Undo what these skills work well with and what they contradict."""
        for relation in (self.partners, self.rivals):
            for number in numbers:
                for other in relation.pop(number, ()):
                    relation[other].discard(number)

    def _make_room(self, needed: int) -> None:
        self.owner, self.live, self.shared = (grown(old, needed) for old in (self.owner, self.live, self.shared))
        self.uses, self.rewards = grown(self.uses, needed), grown(self.rewards, needed)

    def _finish_index(self) -> None:
        """Bring an index that was taken over from a file to the present."""
        if self._index_counter:
            self.index.remove(np.setdiff1d(self.index.numbers(), np.flatnonzero(self.live)).tolist())
            for rows in self._store.live(self._index_counter):
                # What came while this was being read is the next time's business.
                here = np.isin(rows.numbers, np.flatnonzero(self.live))
                self.index.put(rows.numbers[here], rows.vectors[here])

    def _choose_index(self) -> None:
        """Go over to lists where there are too many vectors to look at each; make new lists when those are too few."""
        count, index = len(self.index), self.index
        if count <= self._settings.exact_up_to or not faiss_installed():
            return
        if isinstance(index, ListIndex) and count <= 4 * index.trained_for:
            return
        self.index = self._in_lists(count)

    def _in_lists(self, count: int) -> ListIndex:
        """The same vectors in lists."""
        settings, old = self._settings, self.index
        numbers = np.flatnonzero(self.live)
        generator = np.random.default_rng(settings.seed)
        wanted = min(count, TRAINING_POINTS * ListIndex.lists(count))
        sample = np.sort(generator.choice(numbers, wanted, replace=False))
        new = ListIndex.trained(old.vectors(sample), count, probed=settings.probed, seed=settings.seed)
        for start in range(0, len(numbers), 50_000):
            part = numbers[start : start + 50_000]
            new.put(part, old.vectors(part))
        return new
