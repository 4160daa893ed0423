"""The propagation is LightGCN's: checked against the formula written densely, and against PyTorch Geometric's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agentfw_rewardmodels.preference.propagation import Adjacency, matrix_of, propagate, propagated

USERS, ITEMS, LAYERS = 30, 20, 3


@pytest.fixture
def likes() -> Any:
    keys = np.random.default_rng(1).choice(USERS * ITEMS, 120, replace=False)
    return np.stack([keys // ITEMS, keys % ITEMS])


@pytest.fixture
def embeddings() -> Any:
    return np.random.default_rng(2).normal(size=(USERS + ITEMS, 8)).astype(np.float32)


def dense(likes: Any) -> Any:
    matrix = np.zeros((USERS + ITEMS, USERS + ITEMS))
    matrix[likes[0], likes[1] + USERS] = matrix[likes[1] + USERS, likes[0]] = 1
    degrees = np.maximum(matrix.sum(1), 1)
    return matrix / np.sqrt(degrees[:, None] * degrees)


def test_the_numpy_propagation_is_the_formula(likes: Any, embeddings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = dense(likes)
    wanted = sum(np.linalg.matrix_power(matrix, n) @ embeddings for n in range(LAYERS + 1)) / (LAYERS + 1)

    for at_once in (1, 7, 500_000):
        monkeypatch.setattr("agentfw_rewardmodels.preference.propagation.ROWS_AT_ONCE", at_once)
        found = propagated(embeddings, Adjacency.of(likes, USERS, ITEMS), LAYERS)
        np.testing.assert_allclose(found, wanted, atol=1e-5)


@pytest.mark.slow
def test_outputs_and_gradients_are_those_of_pytorch_geometric(likes: Any, embeddings: Any) -> None:
    torch = pytest.importorskip("torch")
    models = pytest.importorskip("torch_geometric.nn.models")
    theirs = models.LightGCN(USERS + ITEMS, 8, LAYERS)
    theirs.embedding.weight.data.copy_(torch.from_numpy(embeddings))
    shift = np.array([[0], [USERS]])
    edges = torch.from_numpy(np.concatenate([likes + shift, likes[::-1] + shift[::-1]], 1))
    ours = torch.from_numpy(embeddings).requires_grad_()
    target = torch.randn(USERS + ITEMS, 8)

    out = propagate(ours, matrix_of(Adjacency.of(likes, USERS, ITEMS), "cpu"), LAYERS)
    their_out = theirs.get_embedding(edges)
    ((out - target) ** 2).sum().backward()
    ((their_out - target) ** 2).sum().backward()

    torch.testing.assert_close(out, their_out, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(ours.grad, theirs.embedding.weight.grad, rtol=1e-4, atol=1e-4)
