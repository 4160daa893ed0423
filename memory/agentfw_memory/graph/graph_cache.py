"""What a process keeps in memory of a tenant, so that a recall asks the disk for nothing but the texts it gives back.

The one rule: it is a copy of the store and never more than that. `catch_up` asks the store for its counter, and takes
what others have changed since; nothing is ever written here first.

A skill's number is its place in the arrays. Private skills are known here, with whom they belong to, so that what a
person may see is decided before anything is searched.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.skill_index import Shelves
from agentfw_memory.graph.stores.interface import Float32Array, LiveRows, Store
from agentfw_memory.graph.vector_index import Integers, ListIndex, grown

__all__ = ["View"]


class View:
    """One tenant, as of one change."""

    def __init__(self, store: Store, settings: GraphSettings, dimensions: int) -> None:
        self._store, self._settings = store, settings
        self.counter = 0
        self.shelves = Shelves(dimensions, settings)
        self._saved_at = 0
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
        self._private: dict[int, set[int]] = {}
        self._users: dict[int, Float32Array | None] = {}
        self._sums: dict[int, NDArray[np.float64]] = {}
        self._siblings: dict[tuple[int, bool], Integers] = {}

    def __len__(self) -> int:
        """How many skills are valid."""
        return len(self.shelves)

    def begin_with(self, shelf: str, index: ListIndex, counter: int) -> None:
        """Take an index as it was at a change, so that the first `catch_up` needn't build one."""
        self.shelves.take_over(shelf, index)
        self._saved_at = min(counter, self._saved_at or counter)

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
        if self._saved_at and not self.counter:
            self._finish_shelves()
        self._relate(touched if self.counter else None)
        for user in self._store.profiles_changed(self.counter):
            self._users.pop(user, None)
        self.counter = counter
        self.shelves.settle()
        return [*gone, *touched]

    def private_to(self, user: int | None) -> Collection[int]:
        """What a user keeps to themselves; beside that they may find what is shared."""
        return self._private.get(user, ()) if user is not None else ()

    def seen_by(self, user: int | None, numbers: Integers) -> NDArray[np.bool_]:
        """Which of these skills a user may see."""
        theirs: NDArray[np.bool_] = self.owner[numbers] == (-1 if user is None else user)
        return self.shared[numbers] | theirs

    def vectors(self, numbers: Integers) -> Float32Array:
        return self.shelves.vectors(numbers, self.shared[numbers])

    def user_vector(self, user: int) -> Float32Array | None:
        """What a user is like: their profile, or else the mean of their skills. None without either."""
        if user not in self._users:
            vector = self._store.profile(user)
            if vector is None and self.members.get(user):
                if user not in self._sums:
                    own = np.fromiter(self.members[user], np.int64)
                    self._sums[user] = self.vectors(np.sort(own)).sum(0, dtype=np.float64)
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

    # Within

    def _take(self, rows: LiveRows) -> None:
        numbers = rows.numbers
        self._make_room(int(numbers[-1]) + 1)
        known = self.live[numbers]
        changed = ~known
        if known.any():
            old = numbers[known]
            before = self.vectors(old)
            moved = self.shared[old] != rows.shared[known]
            changed[known] = moved | (before != rows.vectors[known]).any(1)
            self._unsort(old)
            self._sum(old, -before)
        if not self.counter:
            changed = ~self.shelves.has(numbers, rows.shared)
        self.shelves.put(numbers[changed], rows.vectors[changed], rows.shared[changed])
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
        self._sum(numbers, -self.vectors(numbers))
        self.shelves.remove(numbers.tolist())
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
        """Note whose the private ones are."""
        hidden = numbers[~self.shared[numbers]]
        for number, owner in zip(hidden.tolist(), self.owner[hidden].tolist(), strict=True):
            self._private.setdefault(owner, set()).add(number)

    def _unsort(self, numbers: Integers) -> None:
        hidden = numbers[~self.shared[numbers]]
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

    def _finish_shelves(self) -> None:
        """Bring indexes that were taken over from files to the present."""
        live = np.flatnonzero(self.live)
        self.shelves.keep_only(live[~self.shared[live]], live[self.shared[live]])
        for rows in self._store.live(self._saved_at):
            # What came while this was being read is the next time's business.
            here = np.isin(rows.numbers, live)
            numbers = rows.numbers[here]
            self.shelves.put(numbers, rows.vectors[here], self.shared[numbers])
