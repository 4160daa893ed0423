"""An in-memory copy of a tenant's skills, so that a recall reads only the texts it returns from the store.

A skill's number is its index in the arrays. Private skills are listed by their owner, so that what a user may see is
known before anything is searched.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Collection, Iterable

import numpy as np

from ..graph_rows import GraphRows
from ..index.vector_index import SkillIndex, grown
from ..index.word_index import SHARED
from ..records import Bools, EdgeKind, Float32Array, Integers, Use
from ..row_types import LiveRows
from ..stores.store import Head
from ..words import words

SAMPLED = 2000  # number of latest uses that are kept with their rewards
BACKGROUND = 256  # number of skills that stand for all of them where an average is needed
NO_NAMES: dict[int, frozenset[str]] = {}
NO_SKILLS = np.zeros(0, np.int64)
Relation = tuple[EdgeKind, int, int]
GAP = 3600.0
"""Maximum number of seconds between neighbours in time. What was said in one conversation belongs together, but two
memories of different days don't, even if nothing lies between them."""
NOWHERE = -1
ROOM = 16  # number of skills that an empty cache has room for. A process may hold thousands of small ones


class GraphCache:
    """One tenant, as of one change."""

    def __init__(self, rows: GraphRows, dimensions: int) -> None:
        self._rows, self.counter = rows, 0
        self.index = SkillIndex(dimensions)
        self.owner, self.used, self.rewards = np.zeros(ROOM, np.int64), np.zeros(ROOM, np.int64), np.zeros(ROOM)
        self.live, self.shared = np.zeros(ROOM, np.bool_), np.zeros(ROOM, np.bool_)
        self.timeline = Timeline()
        self.uses: deque[Use] = deque(maxlen=SAMPLED)
        """The latest uses with their rewards. Those of one trajectory follow each other."""
        self.rated: set[int] = set()  # the skills that were shown for an answer which somebody rated
        self._row = 0
        self.owned: dict[int, set[int]] = {}  # the skills of each owner
        self.complements: dict[int, set[int]] = {}
        self.conflicts: dict[int, set[int]] = {}
        self._private: dict[int, Integers] = {}  # the private skills of users who asked something
        self._names: dict[str, dict[int, frozenset[str]]] = {}
        self._unnamed: set[int] = set()
        self._profiles: dict[int, Float32Array | None] = {}
        """The profiles of users who asked something, or None for a user without one."""
        self._means: dict[int, Float32Array | None] = {}  # the vectors of users without a profile
        self._background: Float32Array | None = None  # the vectors of the shared skills that stand for all of them

    def __len__(self) -> int:
        return len(self.index)

    def catch_up(self, head: Head, counter: int) -> list[int]:
        """Take over all changes up to this one, as of a head. Return the skills that are new, changed or gone. Rows
        that are newer still may be taken over too, and will be again the next time."""
        touched: list[int] = []
        gone, changed, described = self._rows.changes(self.counter) if self.counter else ([], None, [])
        ended = np.array([one for one in gone if one < len(self.live) and self.live[one]], np.int64)
        if len(ended):
            self._background = None
            self.index.remove(ended.tolist())
            self.live[ended] = False
            for number, owner in zip(ended.tolist(), self.owner[ended].tolist(), strict=True):
                self.owned[owner].discard(number)
                self._means.pop(owner, None)
                self._private.pop(owner, None)
                self.timeline.remove(number)
                if not self.owned[owner]:
                    del self.owned[owner]
                    for names in self._names.values():
                        names.pop(owner, None)
            self._drop_relations(ended.tolist())
        if gone:  # a forgotten user's profile is gone too, and they may have made any of the uses
            self._profiles.clear()
            self._row = 0
            self.uses.clear()
        for rows in self._rows.live(changed):
            self.know(rows)
            touched += rows.numbers.tolist()
        if touched:
            self._drop_relations(touched if self.counter else ())
            self._relate(self._rows.relations(touched if self.counter else None))
        if head.latest_edge > self._row:
            # Most edges aren't uses, and those before the latest one needn't be looked at again.
            latest = head.latest_edge
            for row, kind, use in self._rows.uses(self._row, ("EXECUTED", "SHOWN")):
                latest = max(latest, row)
                if kind == "SHOWN":
                    self.rated.add(use.skill)
                else:
                    self.uses.append(use)
            self._row = latest
        for user in described:
            self._profiles.pop(user, None)
        self.counter = counter
        return [*gone, *touched]

    def know_user(self, user: int, vector: Float32Array | None, *, described: bool) -> None:
        """Take over the vector of a user, most of whose skills may not be here, and whether it is of a profile."""
        self._profiles[user] = vector if described else None
        if not described:
            self._means[user] = vector

    def private_skills(self, user: int | None) -> Integers:
        """Return a user's private skills, which only they may find, in ascending order."""
        if user is None:
            return NO_SKILLS
        if user not in self._private:
            own = np.sort(np.fromiter(self.owned.get(user, ()), np.int64))
            self._private[user] = own[~self.shared[own]]
        return self._private[user]

    def visible_to(self, user: int | None, numbers: Integers) -> Bools:
        """Return which of these skills a user may see."""
        theirs: Bools = self.owner[numbers] == (-1 if user is None else user)
        return self.shared[numbers] | theirs

    def seen_by(self, user: int | None, numbers: Integers) -> Bools:
        """Return which of these skills, known or not, are here and may be seen by a user."""
        seen = numbers < len(self.live)
        seen[seen] = self.live[numbers[seen]] & self.visible_to(user, numbers[seen])
        return seen

    def vectors(self, numbers: Integers) -> Float32Array:
        return self.index.vectors(numbers, self.shared[numbers])

    def user_vector(self, user: int) -> Float32Array | None:
        """Return the vector of a user's profile, or the mean of their skills, or None without either."""
        if (profile := self.profile(user)) is not None:
            return profile
        if user not in self._means:
            self._means[user] = None
            if self.owned.get(user):
                own = np.fromiter(self.owned[user], np.int64)
                total = self.vectors(np.sort(own)).sum(0, dtype=np.float64)
                self._means[user] = np.asarray(total / max(float(np.linalg.norm(total)), 1e-12), np.float32)
        return self._means[user]

    def named(self, asked: Collection[str]) -> list[int]:
        """Return the owners whose names are among these words."""
        if self._unnamed:
            for owner, called in self._rows.names(self._unnamed & self.owned.keys()).items():
                if name := frozenset(words(called)):
                    self._names.setdefault(min(name), {})[owner] = name  # under one word of it
            self._unnamed.clear()
        known = set(asked)
        return [
            owner for word in known for owner, name in self._names.get(word, NO_NAMES).items() if name.issubset(known)
        ]

    def siblings(self, owner: int, reader: int | None, count: int) -> Integers:
        """Return some of an owner's skills that a reader may see: the most useful first, then the newest."""
        own = np.fromiter(self.owned.get(owner, ()), np.int64)
        seen = own[self.visible_to(reader, own)]
        utility = self.rewards[seen] / np.maximum(self.used[seen], 1)
        return seen[np.lexsort((-seen, -utility))[:count]]

    def around(self, numbers: Integers, reader: int | None) -> Integers:
        """Return the skills just before and after each of these, of those that a reader may see, or -1 for none."""
        return self.timeline.around(numbers, (SHARED,) if reader is None else (SHARED, reader))

    def background(self, user: int | None) -> list[Float32Array]:
        """Return vectors that stand for all skills a user may see: some shared ones, and some of their own."""
        if self._background is None:
            self._background = self.vectors(drawn(np.flatnonzero(self.live & self.shared), BACKGROUND))
        own = drawn(self.private_skills(user), BACKGROUND)
        return [self._background, self.vectors(own)] if len(own) else [self._background]

    def profile(self, user: int) -> Float32Array | None:
        if user not in self._profiles:
            self._profiles[user] = self._rows.profile(user)
        return self._profiles[user]

    def know(self, rows: LiveRows, relations: Iterable[Relation] = ()) -> None:
        """Take over some skills as they are, and some relations."""
        self._relate(relations)
        numbers, needed = rows.numbers, int(rows.numbers[-1]) + 1
        self.owner, self.live, self.shared = (grown(old, needed) for old in (self.owner, self.live, self.shared))
        self.used, self.rewards = grown(self.used, needed), grown(self.rewards, needed)
        known = self.live[numbers]
        changed = ~known
        if known.any():
            old = numbers[known]
            before = self.vectors(old)
            moved = self.shared[old] != rows.shared[known]
            changed[known] = moved | (before != rows.vectors[known]).any(1)
        self.index.put(numbers[changed], rows.vectors[changed], rows.shared[changed])
        self.owner[numbers], self.live[numbers], self.shared[numbers] = rows.owners, True, rows.shared
        self.used[numbers], self.rewards[numbers] = rows.uses, rows.rewards
        self._background = None
        for number, when, shared, owner in zip(
            *(column.tolist() for column in (numbers, rows.valid_from, rows.shared, rows.owners)), strict=True
        ):
            self.timeline.put(number, when, SHARED if shared else owner)
            if owner not in self.owned:
                self._unnamed.add(owner)
            self.owned.setdefault(owner, set()).add(number)
            self._means.pop(owner, None)
            self._private.pop(owner, None)

    def _relate(self, relations: Iterable[Relation]) -> None:
        for kind, one, other in relations:
            relation = self.complements if kind == "COMPLEMENTS" else self.conflicts
            relation.setdefault(one, set()).add(other)
            relation.setdefault(other, set()).add(one)

    def _drop_relations(self, numbers: Iterable[int]) -> None:
        for relation in (self.complements, self.conflicts):
            for number in numbers:
                for other in relation.pop(number, ()):
                    relation[other].discard(number)


class Timeline:
    """Skills by the time from which they hold. Each part has an order of its own, as in `WordIndex`.

    >>> timeline = Timeline()
    >>> for number, when in ((1, 0.0), (2, 60.0), (3, 90.0), (4, 90_000.0)):
    ...     timeline.put(number, when, part=0)
    >>> timeline.around(np.array([2, 4]), (0,)).tolist()
    [[1, 3], [-1, -1]]
    """

    def __init__(self) -> None:
        self._orders: dict[int, list[tuple[float, int]]] = {}
        self._known: dict[int, tuple[int, float]] = {}  # by skill: its part and its time

    def put(self, number: int, when: float, part: int) -> None:
        """Add a skill, or move it."""
        if self._known.get(number) != (part, when):
            self.remove(number)
            self._known[number] = part, when
            insort(self._orders.setdefault(part, []), (when, number))

    def remove(self, number: int) -> None:
        """Remove a skill. An unknown number is ignored."""
        if number in self._known:
            part, when = self._known.pop(number)
            order = self._orders[part]
            del order[bisect_left(order, (when, number))]

    def around(self, numbers: Integers, parts: Iterable[int]) -> Integers:
        """Return for each of these skills the ones just before and just after it in these parts, or -1 for none."""
        found = np.full((len(numbers), 2), NOWHERE, np.int64)
        orders = [(part, self._orders[part]) for part in parts if part in self._orders]
        for row, number in enumerate(numbers.tolist()):
            if number not in self._known:
                continue
            own, when = self._known[number]
            before, after = list[tuple[float, int]](), list[tuple[float, int]]()
            for part, order in orders:
                place = bisect_left(order, (when, number))
                before += order[max(0, place - 1) : place]
                next_place = place + (part == own)
                after += order[next_place : next_place + 1]
            for side, one in enumerate((max(before, default=None), min(after, default=None))):
                if one is not None and abs(one[0] - when) <= GAP:
                    found[row, side] = one[1]
        return found


def drawn(numbers: Integers, count: int) -> Integers:
    """Draw from these numbers by a hash, so that adding one changes at most one that is drawn."""
    if len(numbers) <= count:
        return np.sort(numbers)
    hashes = (numbers * 2654435761) & 0xFFFFFFFF
    return np.sort(numbers[np.argpartition(hashes, count)[:count]])
