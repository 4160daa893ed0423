"""A softmax choice model that learns a user's preferences, with a Gaussian prior over the weights.

It sees what any agent sees: the tags of each event, which are features, and which event was kept. After each feedback
the weights are the maximum of the posterior over everything seen in the episode, by Newton's method: with so few rounds
that is exact, takes under a millisecond, and depends on no learning rate and no order.

    learner = ChoiceLearner(Prior.flat())
    learner.observe(matrix(tags), accepted)      # after each feedback
    learner.values(matrix(tags)).argmax()        # what to keep next
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .event_attributes import CHOICES, NEUTRAL, PRIVATE, RELATIONS

__all__ = ["FEATURES", "FITTED", "ChoiceLearner", "Floats", "Prior", "choices", "matrix", "maximum"]

Floats = np.ndarray[Any, np.dtype[np.float64]]

_SIZES = ((1, "1"), (2, "2"), (4, "3-4"), (7, "5-7"), (1000, "8+"))
_MINUTES = ((30, "-30"), (75, "45-75"), (1000, "90+"))
_STEPS = 25  # maximum number of Newton's steps
_TAGS = ("topic", "urgency", "due", "place", "series", "notice", "hold")

FEATURES = (
    *(f"by={value}" for value in CHOICES["by"]),
    *(f"who={value}" for value in RELATIONS),
    *(f"size={name}" for _, name in _SIZES),
    *(f"min={name}" for _, name in _MINUTES),
    *(f"{tag}={value}" for tag in _TAGS for value in CHOICES[tag] if value != NEUTRAL.get(tag)),
    *("series=any", *(f"who={relation}" for relation in PRIVATE)),
)
FITTED = FEATURES[: -len(PRIVATE)]
"""Those that are in the file of a prior."""
_PRIVATE_MEAN, _PRIVATE_VARIANCE = (5.0, 0.5, 5.5), 6.0
"""Most people put family and health before work. This is set and not fitted: family, friend, doctor."""
_PLACE = {name: place for place, name in enumerate(FEATURES)}


def matrix(tags: Sequence[Mapping[str, str]]) -> Floats:
    """A row of zeros and ones per event."""
    rows = np.zeros((len(tags), len(FEATURES)))
    for row, event in zip(rows, tags, strict=True):
        names = [f"{tag}={event[tag]}" for tag in ("by", *_TAGS)]
        names += [f"who={relation}" for relation in event["who"].split(",")]
        names.append(f"size={_bin(_SIZES, event['size'])}")
        names.append(f"min={_bin(_MINUTES, event['min'])}")
        if event["series"] != "none":
            names.append("series=any")
        for name in names:
            if name in _PLACE:
                row[_PLACE[name]] = 1.0
    return rows


def choices(
    events: Sequence[Mapping[str, str]], accepted: str, reasons: Sequence[str] = ()
) -> list[tuple[Floats, int]]:
    """What a decision says: the choice among its events, and a choice for each reason. A reason such as "+who=client"
    or "-due=week" is a choice between an event with only this feature and an event with none."""
    found = [(matrix(events), [event["letter"] for event in events].index(accepted))]
    for reason in reasons:
        rows = np.zeros((2, len(FEATURES)))
        rows[0, _PLACE[reason[1:]]] = 1.0
        found.append((rows, int(reason[0] == "-")))
    return found


def _bin(bins: Sequence[tuple[int, str]], value: str) -> str:
    return next(name for most, name in bins if int(value) <= most)


@dataclass(frozen=True)
class Prior:
    """The prior over a user's weights."""

    mean: Floats
    variance: Floats
    """A variance per feature; features are independent."""
    roles: Mapping[str, Floats]
    """Means for users whose role is known."""

    @classmethod
    def flat(cls) -> Prior:
        """A prior without knowledge: every weight is about 0."""
        return cls(np.zeros(len(FEATURES)), np.ones(len(FEATURES)), {})

    def of(self, role: str) -> Prior:
        """The prior for a role, or the general one for an unknown role."""
        return Prior(self.roles.get(role, self.mean), self.variance, {})

    @classmethod
    def load(cls, path: Path) -> Prior:
        record = json.loads(path.read_text("utf-8"))
        if tuple(record["features"]) != FITTED:
            raise ValueError(f"{path.name} was fitted on other features")
        roles = {name: np.array([*values, *_PRIVATE_MEAN]) for name, values in record["roles"].items()}
        variance = np.array([*record["variance"], *[_PRIVATE_VARIANCE] * len(PRIVATE)])
        return cls(np.array([*record["mean"], *_PRIVATE_MEAN]), variance, roles)


class ChoiceLearner:
    """One user's weights and their uncertainty."""

    def __init__(self, prior: Prior) -> None:
        self.prior = prior
        self.weights: Floats = prior.mean.copy()
        self._shown: list[Floats] = []
        self._accepted: list[int] = []

    def values(self, rows: Floats) -> Floats:
        """The expected value of each event."""
        values: Floats = rows @ self.weights
        return values

    def observe(self, rows: Floats, accepted: int) -> None:
        """Add one round whose answer is known."""
        self.observe_all([(rows, accepted)])

    def observe_all(self, rounds: Sequence[tuple[Floats, int]]) -> None:
        """Add several rounds. The result is the same as one by one, at the cost of one."""
        for rows, accepted in rounds:
            self._shown.append(rows)
            self._accepted.append(accepted)
        if self._shown:
            self.weights, _ = maximum(self.prior, self._shown, self._accepted, self.weights)


def maximum(prior: Prior, shown: Sequence[Floats], accepted: Sequence[int], start: Floats) -> tuple[Floats, Floats]:
    """The most likely weights, and the curvature there (the inverse of the posterior's covariance)."""
    precision = 1.0 / prior.variance
    # A softmax depends on the difference to the kept event: one row per other event.
    gaps = np.concatenate([np.delete(rows, kept, 0) - rows[kept] for rows, kept in zip(shown, accepted, strict=True)])
    counts = [len(rows) - 1 for rows in shown]
    firsts = np.cumsum([0, *counts[:-1]])
    rounds = np.repeat(np.arange(len(counts)), counts)
    weights = start.copy()

    def loss_of(candidate: Floats) -> tuple[float, Floats]:
        powers = np.exp(np.clip(gaps @ candidate, -60, 60))
        sums = 1.0 + np.add.reduceat(powers, firsts)
        away = candidate - prior.mean
        return float(np.log(sums).sum() + 0.5 * (precision * away * away).sum()), powers / sums[rounds]

    loss, shares = loss_of(weights)
    for _ in range(_STEPS):
        gradient = gaps.T @ shares + precision * (weights - prior.mean)
        weighted = gaps * shares[:, None]
        means = np.add.reduceat(weighted, firsts)
        curvature = gaps.T @ weighted - means.T @ means
        curvature[np.diag_indices_from(curvature)] += precision
        step = np.linalg.solve(curvature, gradient)
        if float(np.abs(step).max()) < 1e-3:
            return weights, curvature
        scale = 1.0
        while scale > 1e-3:
            tried, tried_shares = loss_of(weights - scale * step)
            if tried <= loss:
                break
            scale /= 2
        weights, loss, shares = weights - scale * step, tried, tried_shares
    return weights, curvature
