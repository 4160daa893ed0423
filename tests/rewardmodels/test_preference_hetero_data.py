"""Graphs of PyTorch Geometric are fitted as they are, and get the embeddings back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agentfw_rewardmodels import BadInputError, PreferenceModel, PreferenceSettings
from agentfw_rewardmodels.preference.input_tables import read_interactions

torch = pytest.importorskip("torch")
graphs = pytest.importorskip("torch_geometric.data")

SETTINGS = PreferenceSettings(epochs=4, dimensions=8, seed=7)


def graph(users: int = 30, items: int = 20, seed: int = 7) -> Any:
    """Two circles of users, each with items of their own. The last user and the last item have no edges."""
    generator = np.random.default_rng(seed)
    pairs = {
        (user, int(item))
        for user in range(users - 1)
        for item in (2 * generator.integers(0, (items - 1) // 2, 6) + user % 2)
    }
    data = graphs.HeteroData()
    data["user"].num_nodes, data["movie"].num_nodes = users, items
    data["user", "rates", "movie"].edge_index = torch.tensor(sorted(pairs)).T.contiguous()
    return data


def test_a_graph_is_fitted_as_its_edges_would_be() -> None:
    transforms = pytest.importorskip("torch_geometric.transforms")
    data = graph()
    rows = [(str(user), str(item)) for user, item in data["user", "rates", "movie"].edge_index.T.tolist()]

    model = PreferenceModel.fit(transforms.ToUndirected()(data), settings=SETTINGS)

    same = PreferenceModel.fit(rows, settings=SETTINGS)
    assert model.recommend("3") == same.recommend("3")
    assert model.facts["likes"] == len(rows)


def test_the_embeddings_go_back_in_the_order_of_the_nodes() -> None:
    data = graph()
    model = PreferenceModel.fit(data, settings=SETTINGS)

    found = model.to_hetero_data(data)

    assert found.validate()
    assert "embedding" not in data["user"]
    assert found["user"].embedding.shape == (30, 8)
    assert not found["user"].embedding[29].any()
    assert not found["movie"].embedding[19].any()
    ranking = (found["movie"].embedding @ found["user"].embedding[3]).argsort(descending=True).tolist()
    recommended = [int(item) for item, _ in model.recommend("3", 5, by="fused", seen=True)]
    known = [item for item in ranking if str(item) in model.items]
    assert known[:5] == recommended


def test_names_values_times_and_texts_of_a_graph_are_read() -> None:
    data = graphs.HeteroData()
    data["user"].name, data["user"].profile = ["ana", "bob"], ["likes museums", ""]
    data["place"].name, data["place"].text = ["museum", "zoo"], ["Visit the museum", "Go to the zoo"]
    data["user", "visits", "place"].edge_index = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]])
    data["user", "visits", "place"].value = torch.tensor([1.0, 0.0, 0.0, 1.0])
    data["user", "visits", "place"].time = torch.tensor([1, 2, 4, 3])

    table = read_interactions(data)
    model = PreferenceModel.fit(data, settings=SETTINGS, encoder="hash:16")

    assert table.likes == (("ana", "museum"),)
    assert table.dislikes == (("ana", "zoo"), ("bob", "zoo"))
    assert model.explain("ana", "Visit the museum").history[0].text == "Visit the museum"
    assert model.facts["users_without_profile"] == 0  # bob has no like, and so no row


@pytest.mark.parametrize(
    ("where", "attribute", "value", "problem"),
    [
        (("user", "hates", "movie"), "edge_index", torch.zeros(2, 1, dtype=torch.int64), "2 types of edges"),
        ("user", "num_nodes", 3, "a node user that isn't there; there are 3"),
        (("user", "rates", "movie"), "value", torch.ones(3), "3 entries of value"),
        ("movie", "text", ["one"], "20 nodes are of type movie, but there are 1 of text"),
    ],
)
def test_a_graph_that_makes_no_sense_is_refused(where: Any, attribute: str, value: Any, problem: str) -> None:
    data = graph()
    data[where][attribute] = value

    with pytest.raises(BadInputError, match=problem):
        PreferenceModel.fit(data, settings=SETTINGS)


def test_a_graph_without_users_is_refused() -> None:
    with pytest.raises(BadInputError, match="0 types of edges"):
        PreferenceModel.fit(graph().rename("user", "customer"), settings=SETTINGS)
