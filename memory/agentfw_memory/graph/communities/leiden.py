"""Splits a weighted graph into communities, with Leiden or Louvain.

    >>> triangles = Network(6, [0, 1, 2, 3, 4, 5, 0], [1, 2, 0, 4, 5, 3, 3], [1.0] * 7)
    >>> [labels] = split(triangles, [1.0], [7])
    >>> len(set(labels[:3].tolist())), len(set(labels.tolist()))
    (1, 2)

`split` divides the whole graph, with igraph's Leiden. `split_around` moves only some of the nodes and keeps the labels
of the others, with leidenalg. There a fixed community is a single node, so the cost grows with the number of moving
nodes and not with the graph.

The same graph and seed give the same labels, whatever else the process has drawn at random.

igraph and leidenalg are GPL and belong to the extra `memory`. Without them, networkx's Louvain is used, which can't fix
nodes and splits the whole graph each time.
"""

from __future__ import annotations

import importlib.util
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from agentfw_memory.errors import MissingExtraError
from agentfw_memory.graph.arrays import Floats, Integers

Method = Literal["leiden", "louvain"]
"""`leiden` falls back to Louvain if its libraries aren't installed."""


ITERATIONS = 2
"""Passes of Leiden over the whole graph. A third one changes modularity only in the fourth digit."""

_igraph_generator = threading.Lock()


@dataclass(frozen=True, slots=True)
class Network:
    """An undirected weighted graph over the nodes 0 to count - 1.

    Parallel edges add up. A loop counts twice towards its node's strength, as is usual in the literature.
    """

    count: int
    sources: Sequence[int] | Integers
    targets: Sequence[int] | Integers
    weights: Sequence[float] | Floats


def installed_method(method: Method) -> Method:
    """Return the method that is used when this one is asked for."""
    if method == "leiden" and _installed("igraph") and _installed("leidenalg"):
        return "leiden"
    if not _installed("networkx"):
        raise MissingExtraError("finding communities", "memory", module="networkx")
    return "louvain"


def split(
    network: Network, resolutions: Sequence[float], seeds: Sequence[int], *, method: Method = "leiden"
) -> list[Integers]:
    """Return labels of all nodes, from 0, for each resolution."""
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


def split_around(network: Network, free: int, *, resolution: float, seed: int) -> Integers:
    """Return labels by Leiden for a network in which only the first `free` nodes move.

    Each of the other nodes, the holders, keeps a label of its own. A free node with a holder's label has joined it.

    Leiden splits the free nodes alone, but with their strengths in the whole network, so its gains are those of the
    whole network. Afterwards each free node may still join a holder.
    """
    if not free or not np.any(network.weights):  # nothing holds anything together
        return np.arange(network.count, dtype=np.int64)
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

    # igraph has one random generator for the whole process, so it is replaced here and then restored.
    with _igraph_generator:
        igraph.set_random_number_generator(random.Random(seed))
        try:
            found = graph.community_leiden(objective, n_iterations=ITERATIONS, **settings)
        finally:
            igraph.set_random_number_generator(random)
    return np.array(found.membership, np.int64)


def _igraph(network: Network) -> Any:
    import igraph

    # igraph reads a list of pairs faster than arrays.
    edges = list(zip(_plain(network.sources), _plain(network.targets), strict=True))
    return igraph.Graph(network.count, edges=edges)


def _networkx(network: Network) -> Any:
    import networkx

    graph: Any = networkx.Graph()
    graph.add_nodes_from(range(network.count))
    for source, target, weight in zip(*map(_plain, (network.sources, network.targets, network.weights)), strict=True):
        # networkx keeps one edge per pair, while ours may be given in several parts.
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


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _plain(values: Any) -> list[Any]:
    return values.tolist() if isinstance(values, np.ndarray) else list(values)
