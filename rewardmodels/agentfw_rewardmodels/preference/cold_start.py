"""Predicts the vectors of a user who has a profile but no likes, from those of known users with similar profiles.

    >>> profiles = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> known = np.array([[2.0], [2.2], [0.1], [-0.1]])
    >>> predict_from_profiles(profiles[:1], fit_cold_start(profiles, known)).round(1)
    array([[2.1]], dtype=float32)

This is ridge regression in closed form. Each known user counts once, however many likes they have. The regularisation
is chosen by generalised cross-validation. If profiles say nothing, the prediction is the mean of all users.
"""

from __future__ import annotations

import numpy as np

from agentfw_rewardmodels.preference.encoders import Float32Array
from agentfw_rewardmodels.preference.formulas import Weights, linear

__all__ = ["fit_cold_start", "predict_from_profiles"]

STRENGTHS = 10.0 ** np.arange(-3, 6.01, 0.25)
"""Regularisation strengths to choose from, relative to the size of an average profile."""


def predict_from_profiles(profiles: Float32Array, weights: Weights) -> Float32Array:
    """Return one row per merged profile. Missing profiles give zeros."""
    rows = np.where((profiles != 0).any(-1, keepdims=True), linear(profiles, weights, "profile"), 0.0)
    return np.asarray(rows, np.float32)


def fit_cold_start(profiles: Float32Array, known: Float32Array) -> dict[str, Float32Array]:
    """Return the weights of `predict_from_profiles`, from merged profiles and the vectors of the same users."""
    centre, middle = profiles.mean(0, dtype=np.float64), known.mean(0, dtype=np.float64)
    apart, moved = profiles - centre, known - middle
    sizes, directions = np.linalg.eigh(apart.T @ apart)
    sizes, along = sizes.clip(min=0.0), directions.T @ (apart.T @ moved)
    unit = sizes.sum() / len(profiles)
    best, weight = np.inf, np.zeros((known.shape[1], profiles.shape[1]))
    for strength in STRENGTHS * unit if unit > 0 else ():
        shares = 1.0 / (sizes + strength)
        # The residual sum of squares, without going through the users again.
        left = (moved**2).sum() - ((2.0 - sizes * shares) * shares * (along**2).sum(1)).sum()
        free = len(profiles) - 1 - (sizes * shares).sum()
        if free > 0 and left / free**2 < best:
            best, weight = left / free**2, along.T * shares @ directions.T
    return {
        "profile.weight": weight.astype(np.float32),
        "profile.bias": (middle - weight @ centre).astype(np.float32),
    }
