"""One level of the community hierarchy: the community of each node at one resolution, and its modularity.

    >>> level = Level(resolution=1.0, tolerance=0.1)
    >>> level.join({}, 0.0), level.join({0: 2.0}, 2.0)      # a single node, then one with an edge of weight 2 to it
    (0, 0)
    >>> level.modularity(total=2.0)
    0.0

Every change updates the sums that modularity is made of (the weight inside communities, the squares of their
strengths, the total weight), so modularity is always exact and costs nothing to read.

Rows are indexes of `labels`. `Communities` knows which node has which row. A community's id is never used again.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from agentfw_memory.graph.arrays import Bools, Floats, Integers

__all__ = ["Level", "same_names"]


class Level:
    """The communities at one resolution."""

    __slots__ = (
        "basis",
        "changed",
        "dirty",
        "inside",
        "labels",
        "next",
        "resolution",
        "settled",
        "size",
        "strength",
        "tolerance",
    )

    def __init__(self, resolution: float, tolerance: float) -> None:
        self.resolution, self.tolerance = resolution, tolerance
        self.labels = array("q")
        self.settled = 0  # number of rows at the last split; later rows are new
        self.next = 0
        self.inside = 0.0  # total weight of edges inside communities
        self.strength: dict[int, float] = {}  # by community: the sum of the strengths of its nodes
        self.size: dict[int, int] = {}
        self.basis: dict[int, float] = {}  # by community: its strength at the last split
        self.changed: dict[int, float] = {}  # by community: strength added or removed since then
        self.dirty: set[int] = set()

    @property
    def squares(self) -> float:
        return sum(value * value for value in self.strength.values())

    def modularity(self, total: float) -> float:
        """Return the modularity at this resolution, in a graph with a total edge weight of `total`."""
        if total <= 0.0:
            return 0.0
        return self.inside / total - self.resolution * self.squares / (4.0 * total * total)

    def join(self, votes: Mapping[int, float], total: float) -> int:
        """Add a row to the community with the largest gain in modularity, or to a new one. Return the community.

        `votes` holds the edge weight to each community, and `total` the weight of the graph including these edges.
        """
        mine = sum(votes.values())
        best, most = -1, 0.0
        for community, weight in votes.items():
            strength = self.strength[community] + weight
            self.strength[community] = strength
            self._note(community, weight)
            gain = weight - self.resolution * mine * strength / (2.0 * total)
            if gain > most or (gain == most and best >= 0 and community < best):
                best, most = community, gain
        if best < 0:
            best, self.next = self.next, self.next + 1
            self.strength[best], self.size[best], self.basis[best] = mine, 1, mine
        else:
            self.inside += votes[best]
            self.strength[best] += mine
            self.size[best] += 1
            self._note(best, mine)
        self.labels.append(best)
        return best

    def bind(self, row: int, other: int, weight: float) -> None:
        """Add an edge between two rows."""
        one, two = self.labels[row], self.labels[other]
        if one == two:
            self.inside += weight
        for community in (one, two):
            self.strength[community] += weight
            self._note(community, weight)

    def relabel(self, labels: Integers, sources: Integers, targets: Integers, weights: Floats) -> None:
        """Use these labels, and recompute everything. All changes count as settled."""
        self._count(labels, sources, targets, weights)
        self.basis, self.changed, self.dirty, self.settled = dict(self.strength), {}, set(), len(labels)

    def drop(self, kept: Integers, sources: Integers, targets: Integers, weights: Floats) -> None:
        """Keep only these rows, with the edges between them. What is removed counts as a change."""
        before = self.strength
        self._count(np.array(self.labels, np.int64)[kept], sources, targets, weights)
        self.settled = int((kept < self.settled).sum())
        for name in before.keys() - self.strength.keys():
            self.basis.pop(name, None)
            self.changed.pop(name, None)
            self.dirty.discard(name)
        for name, strength in self.strength.items():
            if before[name] > strength:
                self._note(name, before[name] - strength)

    def dirty_nodes(self) -> int:
        return sum(self.size[name] for name in self.dirty)

    def changes(self) -> Iterable[tuple[int, float, float]]:
        """Yield (community, changed strength, strength at the last split): the state besides the labels."""
        return ((name, self.changed.get(name, 0.0), basis) for name, basis in self.basis.items())

    def restore(self, settled: int, changes: Sequence[tuple[int, float, float]]) -> None:
        """Restore what `changes` returned, after `relabel`."""
        if {name for name, _, _ in changes} != self.strength.keys():
            raise ValueError("its changes and its labels name different communities")
        self.settled = settled
        for name, changed, basis in changes:
            self.basis[name] = basis
            if changed:
                self._note(name, changed)

    def _note(self, community: int, weight: float) -> None:
        changed = self.changed.get(community, 0.0) + weight
        self.changed[community] = changed
        if changed > self.tolerance * self.basis[community]:
            self.dirty.add(community)

    def _count(self, labels: Integers, sources: Integers, targets: Integers, weights: Floats) -> None:
        names, places = np.unique(labels, return_inverse=True)
        one, two = places[sources], places[targets]
        strength = np.bincount(one, weights, len(names)) + np.bincount(two, weights, len(names))
        self.labels = array("q", labels.tobytes())
        self.inside = float(weights[one == two].sum())
        self.strength = dict(zip(names.tolist(), strength.tolist(), strict=True))
        self.size = dict(zip(names.tolist(), np.bincount(places, minlength=len(names)).tolist(), strict=True))
        self.next = max(self.next, int(names[-1]) + 1 if len(names) else 0)


def same_names(before: Integers, after: Integers, settled: Bools, next_name: int) -> Integers:
    """Rename the groups of `after` by the names of `before`. Each name goes to the group that shares most rows with it.

    A name of -1 in `before` means none. Settled rows, which are older than the last split, count first, so that new
    rows don't take a name with them when they leave a community. Larger overlaps are served first, then smaller names,
    so the result doesn't depend on how the splitter numbered its groups. Groups without a name get new ones, from
    `next_name` on.
    """
    groups, first, places = np.unique(after, return_index=True, return_inverse=True)
    known = before >= 0
    names: dict[int, int] = {}
    taken: set[int] = set()
    if known.any():
        old, olds = np.unique(before[known], return_inverse=True)
        pairs, which = np.unique(olds * len(groups) + places[known], return_inverse=True)
        counts, first_counts = np.bincount(which), np.bincount(which, settled[known])
        for pair in pairs[np.lexsort((pairs, -counts, -first_counts))].tolist():
            name, group = int(old[pair // len(groups)]), pair % len(groups)
            if group not in names and name not in taken:
                names[group] = name
                taken.add(name)
    # In the order of their first rows, not of the splitter's numbers.
    for group in np.argsort(first).tolist():
        if group not in names:
            names[group], next_name = next_name, next_name + 1
    return np.array([names[group] for group in range(len(groups))], np.int64)[places]
