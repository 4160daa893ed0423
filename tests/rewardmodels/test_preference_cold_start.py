"""What is expected of somebody of whom there is a profile alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agentfw_rewardmodels.preference.cold_start import STRENGTHS, fit_cold_start, predict_from_profiles


def world(users: int, told: float, seed: int = 3) -> tuple[Any, Any, Any]:
    """Profiles of three views, where these users stand, and how standing follows from profiles; the rest is chance."""
    generator = np.random.default_rng(seed)
    profiles = np.asarray(generator.normal(0.2, 1.0, (users, 12)), np.float32)
    rule = generator.normal(0.0, 1.0, (12, 4))
    chance = generator.normal(0.0, 1.0, (users, 4))
    return profiles, np.asarray(2.0 + told * profiles @ rule + chance, np.float32), told * rule


def test_profiles_are_believed_as_far_as_they_told_of_others() -> None:
    for told in (0.0, 0.1, 1.0):
        profiles, standing, rule = world(400, told)
        newcomers, _, _ = world(400, told, seed=4)

        found = predict_from_profiles(newcomers, fit_cold_start(profiles, standing))

        error = ((found - (2.0 + newcomers @ rule)) ** 2).mean()
        # Everything that chance lets one learn: 12 of 400 degrees of freedom, and never more than was to be told.
        assert error < min(2 * 13 / 400, 0.02 + (newcomers @ rule).var()), told


def test_the_strength_is_that_of_generalised_cross_validation() -> None:
    """Worked out the long way: every strength's residuals over its free numbers, with the whole smoothing matrix."""
    profiles, standing, _ = world(60, 0.3)
    apart, moved = profiles - profiles.mean(0), standing - standing.mean(0)
    unit = np.trace(apart.T @ apart) / len(profiles)

    def tried(strength: float) -> tuple[float, Any]:
        weight = np.linalg.solve(apart.T @ apart + strength * unit * np.eye(12), apart.T @ moved)
        smoothing = apart @ np.linalg.solve(apart.T @ apart + strength * unit * np.eye(12), apart.T)
        return ((moved - apart @ weight) ** 2).sum() / (59 - np.trace(smoothing)) ** 2, weight

    _, weight = min((tried(strength) for strength in STRENGTHS), key=lambda one: one[0])

    assert fit_cold_start(profiles, standing)["profile.weight"] == pytest.approx(weight.T, abs=1e-4)


@pytest.mark.parametrize("alike", [np.zeros((5, 3)), np.ones((5, 3)), np.ones((1, 3))])
def test_of_profiles_that_are_all_alike_what_everybody_is_like_is_expected(alike: Any) -> None:
    standing = np.arange(2.0 * len(alike), dtype=np.float32).reshape(-1, 2)

    found = predict_from_profiles(np.ones_like(alike), fit_cold_start(alike, standing))

    assert found == pytest.approx(np.tile(standing.mean(0), (len(alike), 1)))
