"""LightGCN's propagation (25) over the graph of users and items, as products with a sparse matrix.

    >>> graph = Adjacency.of(np.array([[0, 1], [0, 0]]), users=2, items=1)
    >>> (propagated(np.eye(3, dtype=np.float32), graph, layers=1) * 100).astype(int).tolist()
    [[50, 0, 35], [0, 50, 35], [35, 35, 50]]

Nodes are users, then items. The normalised adjacency is symmetric, so the backward pass is the forward pass again.
Training multiplies with torch's CSR. Scoring uses `propagated`, in numpy, so a model can take in new interactions
without torch.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .encoders import Float32Array

ROWS_AT_ONCE = 500_000
"""Edges that the numpy product holds at a time (128 MB at 64 dimensions)."""


@dataclass(frozen=True, slots=True)
class Adjacency:
    """A sparse matrix in compressed rows."""

    starts: NDArray[np.int64]
    columns: NDArray[np.int64]
    values: Float32Array

    @classmethod
    def of(cls, likes: NDArray[np.int64], users: int, items: int) -> Adjacency:
        """Return D^-1/2 A D^-1/2 of the likes, each of which counts once."""
        rows, columns = np.concatenate([likes, likes[::-1]], axis=1) + np.repeat(
            [[0, users], [users, 0]], likes.shape[1], axis=1
        )
        degrees = np.maximum(np.bincount(rows, minlength=users + items), 1).astype(np.float32)
        values = 1.0 / np.sqrt(degrees[rows] * degrees[columns])
        order = np.lexsort((columns, rows))
        starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=users + items))]).astype(np.int64)
        return cls(starts, columns[order].astype(np.int64), values[order].astype(np.float32))

    def neighbours(self, node: int) -> NDArray[np.int64]:
        return self.columns[self.starts[node] : self.starts[node + 1]]


def propagated(embeddings: Float32Array, graph: Adjacency, layers: int) -> Float32Array:
    """Return the mean over all layers, in numpy."""
    total, layer = embeddings.copy(), embeddings
    for _ in range(layers):
        result = np.zeros_like(layer)
        filled = np.flatnonzero(np.diff(graph.starts))
        begin = 0
        while begin < len(filled):
            # At least one row at a time, and as many as fit.
            limit = graph.starts[filled[begin]] + ROWS_AT_ONCE
            end = max(begin + 1, int(np.searchsorted(graph.starts[filled + 1], limit, side="right")))
            rows = filled[begin:end]
            edges = slice(graph.starts[rows[0]], graph.starts[rows[-1] + 1])
            messages = layer[graph.columns[edges]] * graph.values[edges, None]
            result[rows] = np.add.reduceat(messages, graph.starts[rows] - graph.starts[rows[0]], axis=0)
            begin = end
        layer = result
        total += layer
    return np.asarray(total / (layers + 1), np.float32)


def matrix_of(graph: Adjacency, device: str) -> Any:
    """Return an adjacency as a sparse torch matrix. It is symmetric, so the backward pass multiplies with it, too."""
    import torch

    # 32-bit indexes are MKL's own. Others would be converted at each product.
    starts, columns = torch.from_numpy(graph.starts).int(), torch.from_numpy(graph.columns).int()
    nodes = len(graph.starts) - 1
    parts = (part.to(device) for part in (starts, columns, torch.from_numpy(graph.values)))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta", category=UserWarning)
        return torch.sparse_csr_tensor(*parts, (nodes, nodes), check_invariants=False)


def propagate(embeddings: Any, matrix: Any, layers: int) -> Any:
    """Return the mean over all layers, in torch, with its gradient."""
    return _function().apply(embeddings, matrix, layers)


@cache
def _function() -> Any:
    """Return the autograd function. It is defined on first use, because its base class is torch's."""
    import torch

    def mean(embeddings: Any, matrix: Any, layers: int) -> Any:
        total, layer = embeddings.clone(), embeddings
        for _ in range(layers):
            layer = matrix @ layer
            total += layer
        return total.div_(layers + 1)

    class Propagation(torch.autograd.Function):  # type: ignore[misc]  # torch is Any here
        @staticmethod
        def forward(context: Any, embeddings: Any, *about: Any) -> Any:
            context.about = about
            return mean(embeddings, *about)

        @staticmethod
        def backward(context: Any, *gradients: Any) -> Any:
            return mean(gradients[0], *context.about), None, None

    return Propagation
