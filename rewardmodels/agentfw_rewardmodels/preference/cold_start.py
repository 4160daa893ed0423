"""What is expected of somebody who has a profile and no likes: what known users with such profiles are like.

The one rule: ridge regression, in closed form. Every known user counts once, however much they like, and how far
profiles are believed is found by what they say of users who are left out (generalised cross-validation). So nothing is
trained, and where profiles tell nothing a newcomer is like everybody.

    >>> profiles = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> known = np.array([[2.0], [2.2], [0.1], [-0.1]])
    >>> expected(profiles[:1], believed(profiles, known)).round(1)
    array([[2.1]], dtype=float32)
"""

from __future__ import annotations

import numpy as np

from agentfw_rewardmodels.preference.encoders import Float32Array
from agentfw_rewardmodels.preference.formulas import Weights, linear

__all__ = ["believed", "expected"]

STRENGTHS = 10.0 ** np.arange(-3, 6.01, 0.25)
"""How many average users a profile must outweigh before it is believed."""


def expected(profiles: Float32Array, weights: Weights) -> Float32Array:
    """One row for each merged profile; zeros where there is none."""
    rows = np.where((profiles != 0).any(-1, keepdims=True), linear(profiles, weights, "profile"), 0.0)
    return np.asarray(rows, np.float32)


def believed(profiles: Float32Array, known: Float32Array) -> dict[str, Float32Array]:
    """The weights of `expected`, from merged profiles and what is known of the same users, in rows of any width."""
    centre, middle = profiles.mean(0, dtype=np.float64), known.mean(0, dtype=np.float64)
    apart, moved = profiles - centre, known - middle
    sizes, directions = np.linalg.eigh(apart.T @ apart)
    sizes, along = sizes.clip(min=0.0), directions.T @ (apart.T @ moved)
    unit = sizes.sum() / len(profiles)
    best, weight = np.inf, np.zeros((known.shape[1], profiles.shape[1]))
    for strength in STRENGTHS * unit if unit > 0 else ():
        shares = 1.0 / (sizes + strength)
        # What is left unsaid, without going through the users again.
        left = (moved**2).sum() - ((2.0 - sizes * shares) * shares * (along**2).sum(1)).sum()
        free = len(profiles) - 1 - (sizes * shares).sum()
        if free > 0 and left / free**2 < best:
            best, weight = left / free**2, along.T * shares @ directions.T
    return {
        "profile.weight": weight.astype(np.float32),
        "profile.bias": (middle - weight @ centre).astype(np.float32),
    }
