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
the whole graph is split again.

Over all passes a community keeps its id, as the group that shares most nodes with it.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentfw_memory.errors import BadInputError
from agentfw_memory.graph.arrays import Bools, Floats, Integers
from agentfw_memory.graph.communities.leiden import Method, Network, split, split_around
from agentfw_memory.graph.communities.level import Level, same_names

__all__ = ["RESOLUTIONS", "Communities", "Refreshed"]

Edges = tuple[Integers, Integers, Floats]

RESOLUTIONS = (0.5, 1.0, 2.0)
"""Our defaults. The parpo-psgm paper's values are not known."""
STATE_VERSION = 1


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What a refresh did: the number of levels, of nodes looked at (summed over levels), and of nodes that moved."""

    levels: int
    nodes: int
    moved: int


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
        if not resolutions or not all(0.0 < value < inf for value in resolutions):
            raise BadInputError(f"invalid resolutions {tuple(resolutions)}", fix="pass one or more positive numbers")
        if not 0.0 < tolerance < inf:
            raise BadInputError(f"invalid tolerance {tolerance}", fix="pass a positive share, such as 0.1")
        self.method, self.seed, self.tolerance = method, seed, tolerance
        self._levels = [Level(float(resolution), tolerance) for resolution in resolutions]
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

    def members(self, level: int, community: int) -> list[int]:
        """Return the nodes of a community."""
        labels = np.array(self._levels[level].labels, np.int64)
        return [self._nodes[row] for row in np.flatnonzero(labels == community).tolist()]

    def full(
        self,
        nodes: Sequence[int] | Integers,
        edges: Sequence[tuple[int, int]] | Integers,
        weights: Sequence[float] | Floats | None = None,
    ) -> None:
        """Replace the graph and split all of it at every level."""
        ids = np.asarray(nodes, np.int64).reshape(-1)
        ends = np.asarray(edges, np.int64).reshape(-1, 2)
        given = np.ones(len(ends)) if weights is None else np.asarray(weights, np.float64).reshape(-1)
        sources, targets = _checked(ids, ends, given)
        network = Network(len(ids), sources, targets, given)
        found = self._split(range(len(self._levels)), network)

        rows = np.fromiter((self._rows.get(node, -1) for node in ids.tolist()), np.int64, len(ids))
        self._hold(ids, sources, targets, given)
        self._total_at_split = self._total
        for level, groups in zip(self._levels, found, strict=True):
            # A new node has the row -1, which reads the -1 (no name) appended after the last label.
            before = np.append(np.array(level.labels, np.int64), -1)[rows]
            settled = (rows >= 0) & (rows < level.settled)
            level.relabel(same_names(before, groups, settled, level.next), sources, targets, given)

    def add(self, node: int, neighbours: Mapping[int, float]) -> tuple[int, ...]:
        """Add a node with edges to known nodes. Return its community at each level."""
        if node in self._rows:
            raise BadInputError(f"node {node} already exists", fix="use `connect` to add edges")
        rows = [(self._row(other), _weight(weight)) for other, weight in neighbours.items()]
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
        rows = self._row(one), self._row(other)
        if one == other:
            raise BadInputError(f"node {one} can't be its own neighbour", fix="pass two different nodes")
        self._edge(*rows, _weight(weight))
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

    def refresh(self) -> Refreshed:
        """Split the dirty communities again. A level is left as it is if its modularity would fall."""
        dirty = [place for place, level in enumerate(self._levels) if level.dirty]
        if not dirty:
            return Refreshed(0, 0, 0)
        edges = self._edges()
        labels = {place: np.array(self._levels[place].labels, np.int64) for place in dirty}
        free = {place: np.isin(labels[place], np.fromiter(self._levels[place].dirty, np.int64)) for place in dirty}
        whole = [place for place in dirty if 2 * free[place].sum() > len(self)]
        after = dict(zip(whole, self._split(whole, Network(len(self), *edges)), strict=True)) if whole else {}
        moved = 0
        for place in dirty:
            level, before = self._levels[place], labels[place]
            if place in after:
                found = same_names(before, after[place], np.arange(len(self)) < level.settled, level.next)
            else:
                found = self._split_part(place, before, free[place], edges)
            was = level.modularity(self._total)
            level.relabel(found, *edges)
            if level.modularity(self._total) < was:
                found = before
                level.relabel(found, *edges)
            moved += int((before != found).sum())
        return Refreshed(len(dirty), int(sum(rows.sum() for rows in free.values())), moved)

    def to_state(self) -> dict[str, NDArray[Any]]:
        """Return the whole state as arrays of numbers, which can be saved without pickle."""
        changes = [(place, *row) for place, level in enumerate(self._levels) for row in level.changes()]
        sources, targets, weights = self._edges()
        return {
            "version": np.array([STATE_VERSION]),
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
        """Restore what `to_state` returned."""
        try:
            version = int(state["version"][0])
            if version != STATE_VERSION:
                raise BadInputError(
                    f"communities of format {version} can't be read by this version, which reads {STATE_VERSION}",
                    fix="run `full` again",
                )
            made = cls(state["resolutions"].tolist(), method=method, seed=seed, tolerance=tolerance)
            made._restore(state)
        except BadInputError:
            raise
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise BadInputError(f"not a state of communities: {error}", fix="run `full` again") from error
        return made

    def _restore(self, state: Mapping[str, NDArray[Any]]) -> None:
        ids, weights = np.asarray(state["nodes"], np.int64), np.asarray(state["weights"], np.float64)
        sources, targets = np.asarray(state["sources"], np.int64), np.asarray(state["targets"], np.int64)
        labels = np.asarray(state["labels"], np.int64)
        if labels.shape != (len(self._levels), len(ids)) or not len(sources) == len(targets) == len(weights):
            raise BadInputError("not a state of communities: its arrays don't match each other", fix="run `full` again")
        self._hold(ids, sources, targets, weights)
        # In a state from before this was kept, nothing is known, and the next change splits the whole graph.
        self._total_at_split = float(state.get("total_at_split", 0.0))
        for place, level in enumerate(self._levels):
            level.next = int(state["next"][place])
            level.relabel(labels[place], sources, targets, weights)
            mine = state["changes"][state["changes"][:, 0] == place]
            changes = [(int(name), changed, basis) for _, name, changed, basis in mine.tolist()]
            level.restore(int(state["settled"][place]), changes)

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
        found = split_around(network, len(rows), resolution=level.resolution, seed=seed, method=self.method)

        after = before.copy()
        names = np.full(int(found.max()) + 1, -1, np.int64)
        names[found[len(rows) : -1]] = clean
        after[rows] = names[found[: len(rows)]]
        alone = rows[after[rows] < 0]
        after[alone] = same_names(before[alone], found[place_of[alone]], alone < level.settled, level.next)
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

    def _row(self, node: int) -> int:
        row = self._rows.get(node)
        if row is None:
            raise BadInputError(f"unknown node {node}", fix="add it first")
        return row

    def _seed(self, place: int, what: str) -> int:
        return random.Random(f"{self.seed}/{self.resolutions[place]}/{what}").getrandbits(31)


def _weight(weight: float) -> float:
    if not 0.0 < weight < inf:
        raise BadInputError(f"invalid weight of an edge: {weight}", fix="pass a positive, finite weight")
    return weight


def _checked(ids: Integers, ends: Integers, weights: Floats) -> tuple[Integers, Integers]:
    """Check the graph and return the rows of the edges' ends."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    if (ordered[1:] == ordered[:-1]).any():
        raise BadInputError("a node occurs twice", fix="pass each node once")
    if len(weights) != len(ends):
        raise BadInputError(f"{len(ends)} edges, but {len(weights)} weights", fix="pass one weight per edge")
    if not (np.isfinite(weights) & (weights > 0.0)).all():
        raise BadInputError("an edge has a weight that isn't positive and finite", fix="leave out edges without weight")
    if not len(ends):
        return ends[:, 0], ends[:, 1]
    spots = np.searchsorted(ordered, ends)
    if not len(ids) or (spots == len(ids)).any() or (ordered[spots] != ends).any():
        raise BadInputError("an end of an edge isn't among the nodes", fix="pass all nodes, also those without edges")
    rows = order[spots]
    if (rows[:, 0] == rows[:, 1]).any():
        raise BadInputError("an edge connects a node with itself", fix="leave such edges out")
    return np.ascontiguousarray(rows[:, 0]), np.ascontiguousarray(rows[:, 1])
