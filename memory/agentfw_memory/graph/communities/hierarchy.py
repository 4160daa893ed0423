"""Communities of a weighted graph at several resolutions, kept up to date while the graph changes.

    >>> graph = Communities(resolutions=(1.0,), seed=7)
    >>> graph.full([1, 2, 3, 4, 5, 6], [(1, 2), (2, 3), (1, 3), (4, 5), (5, 6), (4, 6), (3, 4)])
    >>> graph.of(1) == graph.of(2) != graph.of(5)
    True
    >>> graph.add(7, {5: 1.0, 6: 1.0}) == graph.of(5)
    True

`full` runs Leiden once for each resolution (0.5, 1 and 2: from few large communities to many small ones). `add` puts a
new node into the neighbouring community with the largest gain in modularity.

Each community records how much strength was added or removed since it was last split. Beyond `tolerance` of its
strength it is dirty, and `drift` is the share of nodes in dirty communities. `refresh` runs Leiden over the dirty
communities alone. Each clean community beside them becomes one fixed node with its whole strength, so the gains are
those of the whole graph while the cost is that of the part. If more than half of the nodes are in dirty communities,
or by Louvain, the whole graph is split again.

Over all passes a community keeps its id, as the group that shares most nodes with it.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentfw_memory.graph.arrays import Bools, Floats, Integers
from agentfw_memory.graph.communities.leiden import Method, Network, installed_method, split, split_around

Edges = tuple[Integers, Integers, Floats]

RESOLUTIONS = (0.5, 1.0, 2.0)
"""Our defaults. The parpo-psgm paper's values are not known."""


class Communities:
    """The communities of one graph. Not thread-safe."""

    def __init__(
        self,
        resolutions: Sequence[float] = RESOLUTIONS,
        *,
        method: Method = "leiden",
        seed: int = 0,
        tolerance: float = 0.1,
    ) -> None:
        self.method, self.seed = method, seed
        self._levels = [_Level(float(resolution), tolerance) for resolution in resolutions]
        self._nodes = array("q")
        self._rows: dict[int, int] = {}
        self._sources, self._targets, self._weights = array("q"), array("q"), array("d")
        self._total = 0.0
        self._total_at_split = 0.0

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, node: object) -> bool:
        return node in self._rows

    @property
    def resolutions(self) -> tuple[float, ...]:
        return tuple(level.resolution for level in self._levels)

    @property
    def modularity(self) -> tuple[float, ...]:
        """The exact modularity of the current communities, at each level."""
        return tuple(level.modularity(self._total) for level in self._levels)

    @property
    def drift(self) -> float:
        """The share of nodes that `refresh` would look at, at the level where it is largest."""
        if not self._nodes:
            return 0.0
        return max(level.dirty_nodes() for level in self._levels) / len(self._nodes)

    @property
    def growth(self) -> float:
        """The weight of all edges, as a multiple of their weight at the last full pass."""
        return self._total / self._total_at_split if self._total_at_split else inf

    def of(self, node: int) -> tuple[int, ...]:
        """Return the node's community at each level, or nothing for an unknown node."""
        row = self._rows.get(node)
        return () if row is None else tuple(level.labels[row] for level in self._levels)

    def full(
        self,
        nodes: Sequence[int] | Integers,
        edges: Sequence[tuple[int, int]] | Integers,
        weights: Sequence[float] | Floats | None = None,
    ) -> None:
        """Replace the graph and split all of it at every level. No node is its own neighbour."""
        ids, ends = np.asarray(nodes, np.int64), np.asarray(edges, np.int64).reshape(-1, 2)
        given = np.ones(len(ends)) if weights is None else np.asarray(weights, np.float64)
        order = np.argsort(ids)
        sources, targets = order[np.searchsorted(ids, ends, sorter=order)].T.copy()
        network = Network(len(ids), sources, targets, given)
        found = self._split(range(len(self._levels)), network)

        rows = np.fromiter((self._rows.get(node, -1) for node in ids.tolist()), np.int64, len(ids))
        self._hold(ids, sources, targets, given)
        self._total_at_split = self._total
        for level, groups in zip(self._levels, found, strict=True):
            # A new node has the row -1, which reads the -1 (no name) appended after the last label.
            before = np.append(np.array(level.labels, np.int64), -1)[rows]
            settled = (rows >= 0) & (rows < level.settled)
            level.relabel(_same_names(before, groups, settled, level.next), sources, targets, given)

    def add(self, node: int, neighbours: Mapping[int, float]) -> tuple[int, ...]:
        """Add a node with edges to known nodes. Return its community at each level."""
        rows = [(self._rows[other], weight) for other, weight in neighbours.items()]
        mine = self._rows[node] = len(self._nodes)
        self._nodes.append(node)
        for row, weight in rows:
            self._edge(mine, row, weight)
        found = []
        for level in self._levels:
            votes: dict[int, float] = {}
            for row, weight in rows:
                community = level.labels[row]
                votes[community] = votes.get(community, 0.0) + weight
            found.append(level.join(votes, self._total))
        return tuple(found)

    def connect(self, one: int, other: int, weight: float = 1.0) -> None:
        """Add an edge between two known nodes, or add weight to their edge."""
        rows = self._rows[one], self._rows[other]
        self._edge(*rows, weight)
        for level in self._levels:
            level.bind(*rows, weight)

    def forget(self, nodes: Iterable[int]) -> int:
        """Remove nodes with their edges, and return how many there were. Communities that lose much become dirty."""
        gone = {row for row in map(self._rows.get, nodes) if row is not None}
        if not gone:
            return 0
        stays = np.ones(len(self._nodes), bool)
        stays[list(gone)] = False
        kept, place = np.flatnonzero(stays), np.cumsum(stays) - 1
        sources, targets, weights = self._edges()
        left = stays[sources] & stays[targets]
        sources, targets, weights = place[sources[left]], place[targets[left]], weights[left]
        for level in self._levels:
            level.drop(kept, sources, targets, weights)
        self._hold(np.array(self._nodes, np.int64)[kept], sources, targets, weights)
        return len(gone)

    def refresh(self) -> int:
        """Split the dirty communities again. Return the number of nodes looked at, summed over levels.

        A level is left as it is if its modularity would fall.
        """
        dirty = [place for place, level in enumerate(self._levels) if level.dirty]
        if not dirty:
            return 0
        edges = self._edges()
        labels = {place: np.array(self._levels[place].labels, np.int64) for place in dirty}
        free = {place: np.isin(labels[place], np.fromiter(self._levels[place].dirty, np.int64)) for place in dirty}
        louvain = installed_method(self.method) == "louvain"
        whole = [place for place in dirty if louvain or 2 * free[place].sum() > len(self)]
        after = dict(zip(whole, self._split(whole, Network(len(self), *edges)), strict=True)) if whole else {}
        for place in dirty:
            level, before = self._levels[place], labels[place]
            if place in after:
                found = _same_names(before, after[place], np.arange(len(self)) < level.settled, level.next)
            else:
                found = self._split_part(place, before, free[place], edges)
            was = level.modularity(self._total)
            level.relabel(found, *edges)
            if level.modularity(self._total) < was:
                level.relabel(before, *edges)
        return int(sum(rows.sum() for rows in free.values()))

    def to_state(self) -> dict[str, NDArray[Any]]:
        """Return the whole state as arrays of numbers, which can be saved without pickle."""
        changes = [(place, *row) for place, level in enumerate(self._levels) for row in level.changes()]
        sources, targets, weights = self._edges()
        return {
            "resolutions": np.array(self.resolutions),
            "nodes": np.array(self._nodes, np.int64),
            "sources": sources,
            "targets": targets,
            "weights": weights,
            "total_at_split": np.array(self._total_at_split),
            "labels": np.array([level.labels for level in self._levels], np.int64),
            "settled": np.array([level.settled for level in self._levels], np.int64),
            "next": np.array([level.next for level in self._levels], np.int64),
            "changes": np.array(changes, np.float64).reshape(-1, 4),
        }

    @classmethod
    def from_state(
        cls, state: Mapping[str, NDArray[Any]], *, method: Method = "leiden", seed: int = 0, tolerance: float = 0.1
    ) -> Communities:
        """Restore what `to_state` returned. Raises ValueError, KeyError or IndexError for anything else."""
        made = cls(state["resolutions"].tolist(), method=method, seed=seed, tolerance=tolerance)
        ids, labels = state["nodes"], state["labels"]
        edges: Edges = state["sources"], state["targets"], state["weights"]
        if labels.shape != (len(made._levels), len(ids)) or len({len(column) for column in edges}) > 1:
            raise ValueError("its arrays don't match each other")
        made._hold(ids, *edges)
        made._total_at_split = float(state["total_at_split"])
        for place, level in enumerate(made._levels):
            level.next = int(state["next"][place])
            level.relabel(labels[place], *edges)
            mine = state["changes"][state["changes"][:, 0] == place]
            changes = [(int(name), changed, basis) for _, name, changed, basis in mine.tolist()]
            level.restore(int(state["settled"][place]), changes)
        return made

    def _hold(self, ids: Integers, sources: Integers, targets: Integers, weights: Floats) -> None:
        self._nodes = array("q", ids.tobytes())
        self._rows = {node: row for row, node in enumerate(ids.tolist())}
        self._sources, self._targets = array("q", sources.tobytes()), array("q", targets.tobytes())
        self._weights, self._total = array("d", weights.tobytes()), float(weights.sum())

    def _split(self, places: Sequence[int], network: Network) -> list[Integers]:
        seeds = [self._seed(place, "full") for place in places]
        return split(network, [self.resolutions[place] for place in places], seeds, method=self.method)

    def _split_part(
        self,
        place: int,
        before: Integers,
        free: Bools,
        edges: Edges,
    ) -> Integers:
        """Split the free rows.

        Each clean community that they touch becomes one node with a fixed label. A loop gives it its strength. One more
        node stands for the rest of the graph, so nothing else has to be looked at.
        """
        level = self._levels[place]
        sources, targets, weights = edges
        touching = free[sources] | free[targets]
        sources, targets, weights = sources[touching], targets[touching], weights[touching]
        rows = np.flatnonzero(free)
        clean = np.unique(before[np.concatenate([sources[~free[sources]], targets[~free[targets]]])])
        place_of = np.where(free, np.cumsum(free) - 1, len(rows) + np.searchsorted(clean, before))
        sources, targets = place_of[sources], place_of[targets]

        count = len(rows) + len(clean) + 1
        holders = np.arange(len(rows), count)
        bound = (np.bincount(sources, weights, count) + np.bincount(targets, weights, count))[holders]
        strength = np.array([*(level.strength[name] for name in clean.tolist()), 0.0])
        loops = np.maximum(strength - bound, 0.0) / 2.0
        loops[-1] = max(self._total - float(weights.sum()) - float(loops.sum()), 0.0)
        network = Network(
            count,
            np.concatenate([sources, holders]),
            np.concatenate([targets, holders]),
            np.concatenate([weights, loops]),
        )
        seed = self._seed(place, "part")
        found = split_around(network, len(rows), resolution=level.resolution, seed=seed)

        after = before.copy()
        names = np.full(int(found.max()) + 1, -1, np.int64)
        names[found[len(rows) : -1]] = clean
        after[rows] = names[found[: len(rows)]]
        alone = rows[after[rows] < 0]
        after[alone] = _same_names(before[alone], found[place_of[alone]], alone < level.settled, level.next)
        return after

    def _edges(self) -> Edges:
        return (
            np.array(self._sources, np.int64),
            np.array(self._targets, np.int64),
            np.array(self._weights, np.float64),
        )

    def _edge(self, row: int, other: int, weight: float) -> None:
        self._sources.append(row)
        self._targets.append(other)
        self._weights.append(weight)
        self._total += weight

    def _seed(self, place: int, what: str) -> int:
        return random.Random(f"{self.seed}/{self.resolutions[place]}/{what}").getrandbits(31)


class _Level:
    """The communities at one resolution. Rows are indexes of `labels`, and a community's id is never used again.

    Every change updates the sums that modularity is made of (the weight inside communities, their strengths and the
    total weight), so modularity is always exact and costs nothing to read.
    """

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

    def modularity(self, total: float) -> float:
        """Return the modularity at this resolution, in a graph with a total edge weight of `total`."""
        if total <= 0.0:
            return 0.0
        squares = sum(value * value for value in self.strength.values())
        return self.inside / total - self.resolution * squares / (4.0 * total * total)

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


def _same_names(before: Integers, after: Integers, settled: Bools, next_name: int) -> Integers:
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
