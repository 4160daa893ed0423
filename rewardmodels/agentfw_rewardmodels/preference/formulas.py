"""The formulas that training and scoring share, for torch tensors and numpy arrays alike.

    >>> normalised(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])

Both use the same code, so that scoring can't drift away from training. `weights` maps names to arrays, and shapes are
(rows, dimensions).

Numbers in docstrings are those of the formulas in appendix B.1 of the parpo-psgm paper. The branches (26) are written
as a correction of the user's embedding, x + MLP(x), so that they start as what LightGCN already knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = [
    "Array",
    "Weights",
    "action",
    "attention",
    "branch",
    "fused",
    "gate",
    "linear",
    "normalised",
    "softmax",
    "tanh",
]

Array = Any
"""A torch tensor or a numpy array."""
Weights = Mapping[str, Array]


def tanh(x: Array) -> Array:
    return np.tanh(x) if isinstance(x, np.ndarray) else x.tanh()


def softmax(x: Array) -> Array:
    """Over the last axis."""
    if not isinstance(x, np.ndarray):
        return x.softmax(-1)
    shares = np.exp(x - x.max(-1, keepdims=True))
    return shares / shares.sum(-1, keepdims=True)


def normalised(x: Array) -> Array:
    """Scale rows to unit length."""
    return x / (((x * x).sum(-1) + 1e-12) ** 0.5)[..., None]


def linear(x: Array, weights: Weights, name: str) -> Array:
    return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def mlp(x: Array, weights: Weights, name: str) -> Array:
    return linear(linear(x, weights, f"{name}.first").clip(min=0.0), weights, f"{name}.second")


def branch(users: Array, weights: Weights, name: str) -> Array:
    """(26): return the vectors of users in a branch ("interest" or "conformity"), of unit length."""
    return normalised(users + mlp(users, weights, name))


def gate(interest: Array, conformity: Array, weights: Weights) -> Array:
    """(31): return the share of interest of each user, from 0 to 1.

    A softmax over two values is a logistic function of their difference.
    """
    difference = _asked(interest, weights) - _asked(conformity, weights)
    return 0.5 * (1.0 + tanh(0.5 * difference))


def fused(interest: Array, conformity: Array, share: Array) -> Array:
    """(32): mix the two branches."""
    return share[..., None] * interest + (1.0 - share[..., None]) * conformity


def attention(views: Array, present: Array, weights: Weights) -> Array:
    """(18-20): merge the views of users, of shape (users, views, dimensions). Absent views have no weight."""
    asked = tanh(linear(views, weights, "views")) @ weights["views.asks"]
    return (softmax(asked - 1e9 * (1.0 - present))[..., None] * views).sum(-2)


def action(texts: Array, weights: Weights) -> Array:
    """(38): return the position of texts in the collaborative space, of unit length."""
    return normalised(linear(texts, weights, "action"))


def _asked(rows: Array, weights: Weights) -> Array:
    return tanh(linear(rows, weights, "gate")) @ weights["gate.asks"]
