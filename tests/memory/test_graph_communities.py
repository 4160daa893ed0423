"""Communities: known at once, good at any moment, with names that stay, and without those who were forgotten."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfw_memory.errors import MissingExtraError
from agentfw_memory.graph.communities.hierarchy import Communities
from agentfw_memory.graph.communities.leiden import Method, Network, installed_method, split, split_around

pytest.importorskip("igraph")
pytest.importorskip("leidenalg")

METHODS: tuple[Method, ...] = ("leiden", "louvain")
Graph = tuple[list[int], list[tuple[int, int]], list[float]]


@pytest.fixture(params=METHODS)
def method(request: pytest.FixtureRequest) -> Method:
    pytest.importorskip("networkx")
    if request.param == "leiden" and installed_method("leiden") != "leiden":
        pytest.skip("needs igraph and leidenalg")
    found: Method = request.param
    return found


def planted(blocks: int, size: int, seed: int, *, inside: int = 6, between: float = 0.5) -> Graph:
    """A graph of dense blocks; node ids are no rows."""
    generator = random.Random(seed)
    nodes = [10 * node + 3 for node in range(blocks * size)]
    edges = []
    for place in range(blocks * size):
        first = place // size * size
        edges += [(place, first + generator.randrange(size)) for _ in range(inside)]
        if generator.random() < between:
            edges.append((place, generator.randrange(blocks * size)))
    kept = [(nodes[one], nodes[other]) for one, other in edges if one != other]
    return nodes, kept, [1.0 + generator.random() for _ in kept]


def made(graph: Graph, **settings: Any) -> Communities:
    communities = Communities(**{"seed": 7, **settings})
    communities.full(*graph)
    return communities


def partition(communities: Communities, nodes: list[int]) -> list[tuple[int, ...]]:
    return [communities.of(node) for node in nodes]


def modularity(graph: Graph, labels: dict[int, int], resolution: float) -> float:
    """The formula, written out."""
    nodes, edges, weights = graph
    total, strength = sum(weights), dict.fromkeys(nodes, 0.0)
    for (one, other), weight in zip(edges, weights, strict=True):
        strength[one] += weight
        strength[other] += weight
    inside = sum(weight for (a, b), weight in zip(edges, weights, strict=True) if labels[a] == labels[b])
    squares: dict[int, float] = {}
    for node, label in labels.items():
        squares[label] = squares.get(label, 0.0) + strength[node]
    return inside / total - resolution * sum(value**2 for value in squares.values()) / (4 * total**2)


def graph_of(communities: Communities) -> Graph:
    state = communities.to_state()
    ids = state["nodes"].tolist()
    ends = zip(state["sources"].tolist(), state["targets"].tolist(), strict=True)
    return ids, [(ids[one], ids[other]) for one, other in ends], state["weights"].tolist()


def assert_exact(communities: Communities) -> None:
    """Modularity as it is kept is that of the formula, at every level."""
    graph = graph_of(communities)
    for place, resolution in enumerate(communities.resolutions):
        labels = {node: communities.of(node)[place] for node in graph[0]}
        expected = modularity(graph, labels, resolution) if graph[1] else 0.0
        assert communities.modularity[place] == pytest.approx(expected, abs=1e-9)


def test_planted_blocks_are_found(method: Method) -> None:
    graph = planted(8, 20, seed=1)
    communities = made(graph, resolutions=(1.0,), method=method)
    found = [communities.of(node)[0] for node in graph[0]]
    assert all(len(set(found[start : start + 20])) == 1 for start in range(0, 160, 20))
    assert len(set(found)) == 8
    assert_exact(communities)


def test_higher_resolutions_give_more_communities(method: Method) -> None:
    communities = made(planted(30, 8, seed=2, between=2.0), resolutions=(0.2, 1.0, 8.0), method=method)
    counts = [len({labels[place] for labels in partition(communities, graph_of(communities)[0])}) for place in range(3)]
    assert counts[0] < counts[1] < counts[2]


@pytest.mark.slow
def test_one_seed_one_result_whatever_was_drawn_before(method: Method) -> None:
    graph = planted(20, 10, seed=3, inside=3, between=1.0)
    first = partition(made(graph, method=method), graph[0])
    random.random()
    assert partition(made(graph, method=method), graph[0]) == first
    others = {tuple(partition(made(graph, method=method, seed=seed), graph[0])) for seed in range(8, 14)}
    assert others != {tuple(first)}


def test_igraph_draws_from_the_process_as_before() -> None:
    igraph = pytest.importorskip("igraph")

    def drawn() -> list[tuple[int, int]]:
        random.seed(5)
        edges: list[tuple[int, int]] = igraph.Graph.Erdos_Renyi(20, m=30).get_edgelist()
        return edges

    before = drawn()
    made(planted(3, 5, seed=1))
    assert drawn() == before


def test_a_new_node_is_with_its_neighbours_at_once(method: Method) -> None:
    graph = planted(8, 20, seed=1)
    communities = made(graph, method=method)
    home, away = graph[0][:20], graph[0][40]
    assert communities.add(1, {home[0]: 1.0, home[1]: 1.0, away: 0.5}) == communities.of(home[0])
    assert communities.of(1) == communities.of(home[0])
    assert_exact(communities)


def test_a_node_without_edges_is_a_community_of_its_own() -> None:
    communities = made(planted(2, 5, seed=1))
    taken = set(partition(communities, graph_of(communities)[0]))
    labels = communities.add(1, {})
    assert not {label for row in taken for label in row[:1]} & set(labels[:1])
    assert communities.of(2) == ()
    assert (1 in communities, 2 in communities, len(communities)) == (True, False, 11)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.tuples(st.integers(0, 30), st.floats(0.1, 5.0)), max_size=4)),
        st.tuples(st.just("connect"), st.integers(0, 30), st.integers(0, 30)),
        st.tuples(st.just("forget"), st.lists(st.integers(0, 30), max_size=3)),
        st.tuples(st.just("refresh")),
        st.tuples(st.just("full")),
    ),
    max_size=25,
)


def play(communities: Communities, steps: list[Any]) -> list[Any]:
    """Do the steps; what each answered."""
    answers: list[Any] = []
    new = 1000
    for name, *given_values in steps:
        if name == "add":
            known = {node: weight for node, weight in given_values[0] if node in communities}
            answers.append(communities.add(new, known))
            new += 1
        elif name == "connect":
            one, other = given_values
            if one != other and one in communities and other in communities:
                communities.connect(one, other, 2.0)
        elif name == "forget":
            answers.append(communities.forget(given_values[0]))
        elif name == "refresh":
            before = communities.modularity
            communities.refresh()
            assert all(now >= was - 1e-9 for now, was in zip(communities.modularity, before, strict=True))
            assert communities.drift == 0.0
        else:
            communities.full(*graph_of(communities))
        answers.append((communities.modularity, communities.drift))
    return answers


def ring(method: Method = "leiden", tolerance: float = 0.1) -> Communities:
    nodes = list(range(31))
    edges = [(node, node + 1) for node in range(30)] + [(node, node + 2) for node in range(0, 28, 3)]
    communities = Communities(method=method, seed=7, tolerance=tolerance)
    communities.full(nodes, edges)
    return communities


@pytest.mark.slow
@settings(deadline=None)
@given(STEPS)
def test_after_any_steps_modularity_is_exact_and_the_state_is_whole(steps: list[Any]) -> None:
    communities = ring()
    play(communities, steps)
    assert_exact(communities)
    again = Communities.from_state(communities.to_state(), seed=7)
    nodes = graph_of(communities)[0]
    assert partition(again, nodes) == partition(communities, nodes)
    assert again.modularity == pytest.approx(communities.modularity)
    assert again.drift == communities.drift
    assert again.add(5000, {}) == communities.add(5000, {})


@pytest.mark.slow
@settings(deadline=None)
@given(STEPS)
def test_the_same_steps_give_the_same_communities(steps: list[Any]) -> None:
    one, other = ring(), ring()
    assert play(one, steps) == play(other, steps)
    assert all(np.array_equal(a, b) for a, b in zip(one.to_state().values(), other.to_state().values(), strict=True))


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(STEPS)
def test_louvain_keeps_the_same_promises(steps: list[Any]) -> None:
    communities = ring("louvain")
    play(communities, steps)
    assert_exact(communities)


@pytest.mark.slow
@settings(deadline=None)
@given(STEPS, st.sets(st.integers(0, 30), min_size=1, max_size=5))
def test_a_forgotten_node_leaves_no_trace(steps: list[Any], gone: set[int]) -> None:
    communities = ring()
    play(communities, steps)
    here = {node for node in gone if node in communities}
    assert communities.forget(gone) == len(here)
    state = communities.to_state()
    assert not gone & set(state["nodes"].tolist())
    assert state["labels"].shape == (3, len(communities))
    assert max([*state["sources"].tolist(), *state["targets"].tolist()], default=-1) < len(communities)
    for place in range(3):
        labels = set(state["labels"][place].tolist())
        assert {int(name) for level, name, _, _ in state["changes"] if level == place} == labels
    assert communities.forget(gone) == 0


@pytest.mark.slow
@settings(deadline=None)
@given(STEPS)
def test_without_change_a_refresh_and_a_full_pass_keep_every_name(steps: list[Any]) -> None:
    communities = ring()
    play(communities, steps)
    communities.refresh()
    nodes = graph_of(communities)[0]
    before = partition(communities, nodes)
    communities.refresh()
    assert partition(communities, nodes) == before
    communities.full(*graph_of(communities))
    once = partition(communities, nodes)
    communities.full(*graph_of(communities))
    assert partition(communities, nodes) == once


def test_names_stay_over_a_pass_with_another_seed(method: Method) -> None:
    graph = planted(12, 12, seed=4)
    communities = made(graph, resolutions=(1.0,), method=method)
    before = partition(communities, graph[0])
    communities.seed = 8
    communities.full(*graph)
    after = partition(communities, graph[0])
    assert sum(one == other for one, other in zip(before, after, strict=True)) >= 0.9 * len(before)


def test_a_new_subject_gets_a_community_of_its_own_and_the_rest_keeps_its_names(method: Method) -> None:
    graph = planted(12, 20, seed=5)
    communities = made(graph, method=method)
    before = partition(communities, graph[0])
    generator = random.Random(1)
    new: list[int] = []
    for node in range(100_000, 100_040):
        # The first is tied to an old node only, the others mostly to each other.
        neighbours = dict.fromkeys(generator.sample(new, min(len(new), 5)), 1.0) or {graph[0][0]: 1.0}
        communities.add(node, neighbours)
        new.append(node)
    assert communities.drift > 0
    nodes_looked_at = communities.refresh()
    assert communities.drift == 0
    assert 0 < nodes_looked_at < 0.5 * 3 * len(communities)
    assert len({communities.of(node)[2] for node in new} & {labels[2] for labels in before}) == 0
    after = partition(communities, graph[0])
    assert sum(one == other for one, other in zip(before, after, strict=True)) >= 0.9 * len(before)
    whole = made(graph_of(communities), method=method)
    assert communities.modularity == pytest.approx(whole.modularity, abs=0.01)


def test_where_most_has_changed_everything_is_split_anew(method: Method) -> None:
    communities = Communities(method=method, seed=7)
    graph = planted(6, 12, seed=6)
    for node in graph[0]:
        communities.add(node, {})
    for (one, other), weight in zip(graph[1], graph[2], strict=True):
        communities.connect(one, other, weight)
    assert communities.drift == 1.0
    assert communities.refresh() == 3 * len(communities)
    assert communities.modularity == pytest.approx(made(graph, method=method).modularity, abs=0.02)


def test_a_small_change_is_no_drift_and_a_large_one_is() -> None:
    graph = planted(8, 20, seed=1)
    communities = made(graph, tolerance=0.05)
    communities.connect(graph[0][0], graph[0][1], 0.5)
    assert communities.drift == 0.0
    communities.connect(graph[0][0], graph[0][1], 50.0)
    assert 0.0 < communities.drift < 0.5
    assert_exact(communities)


def test_splitting_a_part_finds_what_splitting_the_whole_would(method: Method) -> None:
    """Two triangles that move, beside a holder with a strong tie to one node of the second."""
    sources, targets = [0, 1, 2, 3, 4, 5, 0, 6, 5], [1, 2, 0, 4, 5, 3, 3, 6, 6]
    network = Network(7, np.array(sources), np.array(targets), np.array([1.0, 1, 1, 1, 1, 1, 0.1, 2, 9]))
    labels = split_around(network, 6, resolution=1.0, seed=7, method=method).tolist()
    assert labels[0] == labels[1] == labels[2]
    assert labels[5] == labels[6]
    assert labels[0] not in labels[3:]


def test_a_graph_without_edges_and_one_without_nodes(method: Method) -> None:
    assert split(Network(3, [], [], []), [1.0], [7], method=method)[0].tolist() == [0, 1, 2]
    communities = Communities(method=method)
    communities.full([], [])
    assert (len(communities), communities.modularity, communities.drift) == (0, (0.0,) * 3, 0.0)
    assert communities.refresh() == communities.forget([1]) == 0
    communities.full([4, 9], [])
    assert len(set(partition(communities, [4, 9]))) == 2


@pytest.mark.slow
def test_without_leiden_it_is_louvain_and_without_both_an_error_that_says_what_to_install() -> None:
    code = """
import sys
for name in {missing!r}: sys.modules[name] = None
from agentfw_memory.graph.communities.hierarchy import Communities
some = Communities(resolutions=(1.0,), seed=7)
some.full(range(6), [(0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5), (2, 3)])
some.add(6, {{5: 1.0}})
for node in range(7, 12):
    some.add(node, {{node - 1: 3.0, node - 2: 3.0}})
print(some.refresh() > 0, some.of(0) == some.of(2) != some.of(3))
print(*(sys.modules.get(name) for name in {missing!r}))
"""
    for missing in (["igraph", "leidenalg"], ["leidenalg"]):
        done = subprocess.run(
            [sys.executable, "-c", code.format(missing=missing)], capture_output=True, text=True, check=True
        )
        assert done.stdout.split() == ["True", "True", *["None"] * len(missing)]
    done = subprocess.run(
        [sys.executable, "-c", code.format(missing=["igraph", "networkx"])], capture_output=True, text=True, check=False
    )
    assert MissingExtraError.__name__ in done.stderr
    assert 'needs the extra "memory"' in done.stderr
