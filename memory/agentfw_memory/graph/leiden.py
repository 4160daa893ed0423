"""Splitting a weighted graph into communities: igraph's Leiden, leidenalg where some labels are fixed, or Louvain.

The one rule: the same graph and the same seed give the same labels, whatever else the process has drawn before.

    >>> triangles = Network(6, [0, 1, 2, 3, 4, 5, 0], [1, 2, 0, 4, 5, 3, 3], [1.0] * 7)
    >>> [labels] = split(triangles, [1.0], [7])
    >>> len(set(labels[:3].tolist())), len(set(labels.tolist()))
    (1, 2)

`split` divides the whole graph. `split_around` moves only some of the nodes and leaves the labels of the others fixed;
since a fixed community is then one node of its own, its cost grows with what moves and not with the graph.

Both of Leiden's libraries are GPL and belong to the extra `memory`; networkx has Louvain and is there as well.
"""

from __future__ import annotations

import importlib.util
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from agentfw_memory.errors import MissingExtraError

__all__ = ["Method", "Network", "installed_method", "split", "split_around"]

Method = Literal["leiden", "louvain"]
"""`leiden` is Leiden where its libraries are installed, and Louvain otherwise."""
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

ITERATIONS = 2
"""How often Leiden goes over the whole graph. More gains little: a third changes modularity in the fourth digit."""

_igraph_generator = threading.Lock()


@dataclass(frozen=True, slots=True)
class Network:
    """An undirected weighted graph over the nodes 0 to count - 1. Parallel edges add up; a loop counts twice for its
    node's strength, as everywhere in the literature."""

    count: int
    sources: Sequence[int] | Integers
    targets: Sequence[int] | Integers
    weights: Sequence[float] | Floats


def installed_method(method: Method) -> Method:
    """What splits here when this method is asked for."""
    if method == "leiden" and _installed("igraph") and _installed("leidenalg"):
        return "leiden"
    if not _installed("networkx"):
        raise MissingExtraError("finding communities", "memory", module="networkx")
    return "louvain"


def split(
    network: Network, resolutions: Sequence[float], seeds: Sequence[int], *, method: Method = "leiden"
) -> list[Integers]:
    """For each resolution a label for each node, 0 upward, that makes modularity large."""
    if not len(network.sources):
        return [np.arange(network.count, dtype=np.int64) for _ in resolutions]
    if installed_method(method) == "louvain":
        graph = _networkx(network)
        return [_louvain(graph, resolution, seed) for resolution, seed in zip(resolutions, seeds, strict=True)]
    graph, weights = _igraph(network), _plain(network.weights)
    return [
        _leiden(graph, seed, "modularity", weights=weights, resolution=resolution)
        for resolution, seed in zip(resolutions, seeds, strict=True)
    ]


def split_around(network: Network, free: int, *, resolution: float, seed: int, method: Method = "leiden") -> Integers:
    """Labels for a network in which only the first `free` nodes move; each of the others, the holders, has a label of
    its own, and a free node with a holder's label has joined it.

    Leiden splits the free nodes alone, with the strengths that they have in the whole network, so that what it gains is
    what the whole gains; then each may still move over to a holder.
    """
    if not free or not len(network.sources):
        return np.arange(network.count, dtype=np.int64)
    if installed_method(method) == "louvain":
        return _louvain_around(network, free, resolution, seed)
    import leidenalg

    sources, targets, weights = map(np.asarray, (network.sources, network.targets, network.weights))
    inner = (sources < free) & (targets < free)
    strength = np.bincount(sources, weights, network.count) + np.bincount(targets, weights, network.count)
    split_alone = _leiden(
        _igraph(Network(free, sources[inner], targets[inner], weights[inner])),
        seed,
        "CPM",
        weights=weights[inner].tolist(),
        node_weights=strength[:free].tolist(),
        resolution=resolution / (2.0 * float(weights.sum())),
    )
    holders = np.arange(network.count - free) + int(split_alone.max()) + 1
    partition = leidenalg.RBConfigurationVertexPartition(
        _igraph(network),
        initial_membership=[*split_alone.tolist(), *holders.tolist()],
        weights=weights.tolist(),
        resolution_parameter=resolution,
    )
    optimiser = leidenalg.Optimiser()
    optimiser.set_rng_seed(seed)
    optimiser.move_nodes(partition, is_membership_fixed=[place >= free for place in range(network.count)])
    return np.array(partition.membership, np.int64)


def _leiden(graph: Any, seed: int, objective: str, **settings: Any) -> Integers:
    import igraph

    # igraph has one generator for the whole process, which others may use too: it is borrowed and given back.
    with _igraph_generator:
        igraph.set_random_number_generator(random.Random(seed))
        try:
            found = graph.community_leiden(objective, n_iterations=ITERATIONS, **settings)
        finally:
            igraph.set_random_number_generator(random)
    return np.array(found.membership, np.int64)


def _igraph(network: Network) -> Any:
    import igraph

    # A list of pairs is what igraph reads fastest, before arrays.
    edges = list(zip(_plain(network.sources), _plain(network.targets), strict=True))
    return igraph.Graph(network.count, edges=edges)


def _networkx(network: Network) -> Any:
    import networkx

    graph: Any = networkx.Graph()
    graph.add_nodes_from(range(network.count))
    for source, target, weight in zip(*map(_plain, (network.sources, network.targets, network.weights)), strict=True):
        # networkx keeps one edge a pair; ours may come in several parts.
        before = graph.get_edge_data(source, target, {"weight": 0.0})["weight"]
        graph.add_edge(source, target, weight=before + weight)
    return graph


def _louvain(graph: Any, resolution: float, seed: int) -> Integers:
    import networkx

    labels = np.empty(len(graph), np.int64)
    communities = networkx.community.louvain_communities(graph, weight="weight", resolution=resolution, seed=seed)
    for label, members in enumerate(communities):
        labels[list(members)] = label
    return labels


def _louvain_around(network: Network, free: int, resolution: float, seed: int) -> Integers:
    """Louvain can't hold a node. So it splits all of it, and where it put several holders together, the free nodes with
    them go to the one that they are bound to most."""
    found = _louvain(_networkx(network), resolution, seed)
    # The labels from `count` on are those of groups; a holder's is its own place.
    answer = np.concatenate([found[:free] + network.count, np.arange(free, network.count)])
    bonds: dict[int, dict[int, float]] = {}
    ends = (_plain(network.sources), _plain(network.targets))
    for one, other, weight in zip(*ends, _plain(network.weights), strict=True):
        for mover, holder in ((one, other), (other, one)):
            if mover < free <= holder and found[holder] == found[mover]:
                mine = bonds.setdefault(mover, {})
                mine[holder] = mine.get(holder, 0.0) + weight
    for mover, mine in bonds.items():
        answer[mover] = max(mine, key=lambda holder: (mine[holder], -holder))
    return answer


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _plain(values: Any) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)
