"""The prior over a calendar user's weights, fitted from what training users chose."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from agentfw_plugins.worlds.calendar.choice_model import FITTED, Floats, Prior, maximum


def save_prior(prior: Prior, path: Path, about: Mapping[str, Any]) -> None:
    def rounded(values: Floats) -> list[float]:
        return [round(float(value), 3) for value in values[: len(FITTED)]]

    record = {
        "about": dict(about),
        "features": list(FITTED),
        "mean": rounded(prior.mean),
        "variance": rounded(prior.variance),
        "roles": {name: rounded(prior.roles[name]) for name in sorted(prior.roles)},
    }
    path.write_text(json.dumps(record, indent=None, separators=(",", ":"), ensure_ascii=False) + "\n", "utf-8")


def fit_prior(
    users: Sequence[tuple[str, Sequence[tuple[Floats, int]]]], *, rounds: int = 8, pull: float = 3.0
) -> Prior:
    """Fit the prior from users' choices by empirical Bayes (expectation maximisation).

    `users` are (role, choices) of *training* users. A role's mean is shrunk towards the general
    one as if `pull` average users were in it.
    """
    width = users[0][1][0][0].shape[1]
    prior = Prior(np.zeros(width), np.ones(width), {})
    known: dict[int, Floats] = {}
    for _ in range(rounds):
        found: dict[str, list[tuple[Floats, Floats]]] = {}
        for number, (role, choices) in enumerate(users):
            own = prior.of(role)
            start = known.get(number, own.mean)
            weights, curvature = maximum(own, [rows for rows, _ in choices], [kept for _, kept in choices], start)
            known[number] = weights
            found.setdefault(role, []).append((weights, np.diag(np.linalg.inv(curvature))))
        everybody = [pair for pairs in found.values() for pair in pairs]
        mean: Floats = np.mean([weights for weights, _ in everybody], axis=0)
        roles = {
            role: (np.sum([weights for weights, _ in pairs], axis=0) + pull * mean) / (len(pairs) + pull)
            for role, pairs in sorted(found.items())
        }
        spread = [
            (weights - roles[role]) ** 2 + variance for role, pairs in found.items() for weights, variance in pairs
        ]
        prior = Prior(mean, np.maximum(np.mean(spread, axis=0), 1e-3), roles)
    return prior
