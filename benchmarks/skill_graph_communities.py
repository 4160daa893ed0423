"""What communities of a growing graph cost: a full pass compared with igraph's own calls, and then the growth.

    python benchmarks/skill_graph_communities.py
    python benchmarks/skill_graph_communities.py --nodes 20000 --repeats 3 --json

Both sides see the same graph, in one process and in turns, and are measured in CPU seconds on one core. "igraph" is
`community_leiden` once per resolution, on a graph that is already built. Our full pass builds the graph itself, names
the communities, and computes what later changes need.

There are two graphs: `planted` has dense groups of 100 nodes, and `scale-free` grows by preferential attachment and has
hardly any groups. There are two kinds of growth: `everywhere` connects each new node to nodes of a random group, and
`one subject` connects the new nodes with each other. The graph is refreshed when the growth requires it. Modularity is
compared with that of a full pass over the grown graph.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import igraph
import numpy as np

from agentfw_benchmarks import Options, median_of, ratios, shown, tell, timed
from agentfw_memory.graph.communities.hierarchy import RESOLUTIONS, Communities

FULL_LIMIT, GROWTH_LIMIT, MODULARITY_LIMIT = 1.3, 1 / 20, 0.01
GROUP = 100
DEGREE = 5


def planted(nodes: int, edges: int, seed: int) -> np.ndarray[Any, Any]:
    """Four edges in five lie within a group."""
    generator = np.random.default_rng(seed)
    inside = edges * 4 // 5
    groups = generator.integers(0, nodes // GROUP, inside)
    one, other = (groups * GROUP + generator.integers(0, GROUP, inside) for _ in range(2))
    across = generator.integers(0, nodes, (edges - inside, 2))
    made = np.vstack([np.column_stack([one, other]), across])
    return made[made[:, 0] != made[:, 1]]


def scale_free(nodes: int, edges: int, seed: int) -> np.ndarray[Any, Any]:
    igraph.set_random_number_generator(random.Random(seed))
    graph = igraph.Graph.Barabasi(nodes, m=edges // nodes)
    igraph.set_random_number_generator(random)
    return np.array(graph.get_edgelist())


GRAPHS: dict[str, Callable[[int, int, int], np.ndarray[Any, Any]]] = {"planted": planted, "scale-free": scale_free}


def everywhere(nodes: int, count: int, seed: int) -> list[dict[int, float]]:
    """Each new node has its neighbours in one group of 100, and one more anywhere."""
    generator = np.random.default_rng(seed)
    new = []
    for _ in range(count):
        group = int(generator.integers(0, nodes // GROUP)) * GROUP
        near = generator.integers(group, group + GROUP, DEGREE - 1)
        new.append(dict.fromkeys([*near.tolist(), int(generator.integers(0, nodes))], 1.0))
    return new


def one_subject(nodes: int, count: int, seed: int) -> list[dict[int, float]]:
    """Each new node has its neighbours among the new ones before it, and one more anywhere."""
    generator = np.random.default_rng(seed)
    new = []
    for place in range(count):
        near = nodes + generator.integers(0, place, DEGREE - 1) if place else []
        new.append(dict.fromkeys([*near, int(generator.integers(0, nodes))], 1.0))
    return new


GROWTH = {"everywhere": everywhere, "one subject": one_subject}


def cpu_seconds(call: Callable[..., object], *arguments: object) -> float:
    return timed(call, *arguments, clock=time.process_time)


def measure(nodes: int, edges: int, added: int, repeats: int, seed: int) -> dict[str, Any]:
    rows = []
    for name, make in GRAPHS.items():
        ends = make(nodes, edges, seed)
        theirs = igraph.Graph(nodes, edges=ends.tolist())
        weights = [1.0] * len(ends)
        seconds: dict[str, list[float]] = {"igraph": [], "full": [], **{growth: [] for growth in GROWTH}}
        slowest: dict[str, list[float]] = {growth: [] for growth in GROWTH}
        apart: dict[str, list[float]] = {growth: [] for growth in GROWTH}
        for repeat in range(repeats):
            seconds["igraph"].append(cpu_seconds(igraph_leiden, theirs, weights, seed + repeat))
            communities = Communities(seed=seed + repeat)
            seconds["full"].append(cpu_seconds(communities.full, range(nodes), ends))
            state = communities.to_state()
            for growth, grow in GROWTH.items():
                grown = Communities.from_state(state, seed=seed + repeat)
                cost, worst = add_all(grown, grow(nodes, added, seed + repeat), nodes)
                seconds[growth].append(cost)
                slowest[growth].append(worst)
                apart[growth].append(behind(grown, seed + repeat))
        rows.append(
            {
                "graph": name,
                "edges": len(ends),
                "igraph": seconds["igraph"],
                "full": seconds["full"],
                "full against igraph": median_of(ratios(seconds["full"], seconds["igraph"])),
                "growth": [
                    {
                        "growth": growth,
                        "seconds": seconds[growth],
                        "against full": median_of(ratios(seconds[growth], seconds["full"])),
                        "slowest add, ms": 1000 * float(np.median(slowest[growth])),
                        "modularity behind a full pass": max(apart[growth]),
                    }
                    for growth in GROWTH
                ],
            }
        )
    return {"nodes": nodes, "added": added, "repeats": repeats, "seed": seed, "graphs": rows}


def igraph_leiden(graph: igraph.Graph, weights: list[float], seed: int) -> None:
    igraph.set_random_number_generator(random.Random(seed))
    for resolution in RESOLUTIONS:
        graph.community_leiden("modularity", weights=weights, resolution=resolution)
    igraph.set_random_number_generator(random)


def add_all(communities: Communities, new: Sequence[dict[int, float]], first: int) -> tuple[float, float]:
    """Seconds for all adds and the refresh; seconds of the slowest of a hundred adds, as a mean within the hundred."""
    total = worst = 0.0
    for start in range(0, len(new), 100):
        began = time.process_time()
        for place, neighbours in enumerate(new[start : start + 100], first + start):
            communities.add(place, neighbours)
        spent = time.process_time() - began
        total, worst = total + spent, max(worst, spent / len(new[start : start + 100]))
    return total + cpu_seconds(communities.refresh), worst


def behind(communities: Communities, seed: int) -> float:
    """How much modularity a full pass over the same graph has more, at the level where it is most."""
    state = communities.to_state()
    ends = np.column_stack([state["nodes"][state["sources"]], state["nodes"][state["targets"]]])
    whole = Communities(seed=seed)
    whole.full(state["nodes"], ends, state["weights"])
    return max(full - ours for full, ours in zip(whole.modularity, communities.modularity, strict=True))


def show(result: dict[str, Any]) -> None:
    levels = ", ".join(map(str, RESOLUTIONS))
    print(f"{result['nodes']:,} nodes, levels {levels}, CPU seconds, medians of {result['repeats']} with 95% intervals")
    for row in result["graphs"]:
        ratio = shown(row["full against igraph"], ".2f")
        print(f"\n{row['graph']}, {row['edges']:,} edges")
        print(f"  igraph alone {np.median(row['igraph']):8.2f} s")
        print(f"  full pass    {np.median(row['full']):8.2f} s   {ratio} x igraph   (limit {FULL_LIMIT})")
        for growth in row["growth"]:
            print(
                f"  + {result['added']:,} {growth['growth']:<12}{np.median(growth['seconds']):6.3f} s   "
                f"{shown(growth['against full'], '.4f')} x full   (limit {GROWTH_LIMIT})   "
                f"slowest add {growth['slowest add, ms']:.3f} ms   "
                f"modularity behind by {growth['modularity behind a full pass']:.4f} at most (limit {MODULARITY_LIMIT})"
            )


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    added = (1_000, "nodes added after the full pass")
    options = Options(__doc__, nodes=100_000, edges=500_000, added=added, repeats=7, seed=7).parse_args(arguments)
    result = measure(options.nodes, options.edges, options.added, options.repeats, options.seed)
    return tell(result, options.json, show)


if __name__ == "__main__":
    main()
