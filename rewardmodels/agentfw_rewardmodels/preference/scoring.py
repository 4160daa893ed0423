"""Scores actions for users with a trained model's arrays, in numpy alone (formulas 43 to 47 and 56).

The one rule: nothing as large as users x items is ever held. Pairs are scored as pairs, likeness of texts in blocks,
and a user's mean and spread over all items come from the items' mean and covariance, not from scoring them.

Where the paper standardises scores with the statistics of the training set, a user here is standardised over the known
items with their own: only then do the rewards of a user who likes everything and one who likes little mean the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentfw_rewardmodels.preference.encoders import Float32Array
from agentfw_rewardmodels.preference.formulas import Weights, action, branch, fused, gate, normalised, softmax
from agentfw_rewardmodels.preference.preference_settings import PreferenceSettings
from agentfw_rewardmodels.preference.results import Scores

__all__ = ["Neighbours", "Scorer", "Stances", "newcomers", "stances"]

AT_ONCE = 4_000_000
"""Likenesses of texts held at a time (16 MB)."""
GROUPS = 16
"""Places in a group of items that the search for the nearest compares by their highest."""
SAMPLED = 4096
"""Items whose places the mean and spread are taken from, where there are more."""
LEAST_SPREAD = 1e-3
STEPS = 10_000.0
"""Likenesses are told apart to so many steps."""


@dataclass(frozen=True, slots=True)
class Stances:
    """What there is to know of some users: rows of length 1, and the share of interest."""

    interest: Float32Array
    conformity: Float32Array
    fused: Float32Array
    share: Float32Array

    def of(self, rows: Any) -> Stances:
        return Stances(self.interest[rows], self.conformity[rows], self.fused[rows], self.share[rows])

    def replaced(self, rows: Any, others: Stances) -> Stances:
        """The same with others in these rows."""
        copies = [part.copy() for part in (self.interest, self.conformity, self.fused, self.share)]
        for part, other in zip(copies, (others.interest, others.conformity, others.fused, others.share), strict=True):
            part[rows] = other
        return Stances(*copies)


@dataclass(frozen=True, slots=True)
class Neighbours:
    """For each text its nearest known items."""

    items: NDArray[np.int64]
    similarity: Float32Array
    weight: Float32Array


def stances(users: Float32Array, weights: Weights, settings: PreferenceSettings) -> Stances:
    """A switched-off branch is zero, and the other one is everything."""
    nothing = np.zeros_like(users)
    interest = branch(users, weights, "interest") if settings.branches != "conformity" else nothing
    conformity = branch(users, weights, "conformity") if settings.branches != "interest" else nothing
    if settings.branches == "both":
        share = gate(interest, conformity, weights)
    else:
        share = np.full(len(users), float(settings.branches == "interest"), np.float32)
    return Stances(
        *(np.asarray(rows, np.float32) for rows in (interest, conformity, fused(interest, conformity, share), share))
    )


def newcomers(by_profile: Float32Array, settings: PreferenceSettings) -> Stances:
    """Of users who have a profile and no likes: both branches count alike, since nobody has seen yet which one does."""
    interest, conformity = (np.asarray(normalised(by_profile[:, branch]), np.float32) for branch in (1, 2))
    share = {"both": 0.5, "interest": 1.0, "conformity": 0.0}[settings.branches]
    shares = np.full(len(by_profile), share, np.float32)
    return Stances(interest, conformity, np.asarray(fused(interest, conformity, shares), np.float32), shares)


class Scorer:
    """Knows the items; is told the users as `Stances`."""

    def __init__(
        self, items: Float32Array, texts: Float32Array, weights: Weights, settings: PreferenceSettings
    ) -> None:
        self._weights, self._settings = weights, settings
        self._texted = np.flatnonzero((texts != 0).any(-1)) if texts.size else np.zeros(0, np.int64)
        self._padded = np.zeros((-(-len(self._texted) // GROUPS) * GROUPS, texts.shape[1]), np.float32)
        self._padded[: len(self._texted)] = texts[self._texted]
        self.items = np.asarray(normalised(items), np.float32)
        self._of_items = _Spread.of(self.items)
        if len(self._texted):
            some = np.random.default_rng(settings.seed).permutation(len(self._texted))[:SAMPLED]
            self._of_places = _Spread.of(self.places(self._padded[some]))

    @property
    def reads_texts(self) -> bool:
        """Whether there is any item with a text to compare with."""
        return bool(len(self._texted))

    def nearest(self, vectors: Float32Array) -> Neighbours:
        """(43): the known items whose texts are most alike, most alike first."""
        count = min(self._settings.nearest, len(self._texted))
        found = np.empty((len(vectors), count), np.int64)
        alike = np.empty((len(vectors), count), np.float32)
        step = max(1, AT_ONCE // len(self._texted))
        for begin in range(0, len(vectors), step):
            part = slice(begin, begin + step)
            scores = vectors[part] @ self._padded.T
            scores[:, len(self._texted) :] = -np.inf
            found[part], alike[part] = _highest(scores, count)
        weight = softmax(alike / self._settings.nearest_temperature)
        return Neighbours(self._texted[found], alike, np.asarray(weight, np.float32))

    def places(self, vectors: Float32Array, near: Neighbours | None = None) -> Float32Array:
        """(44, 45): where actions stand in the collaborative space."""
        near = near or self.nearest(vectors)
        known = normalised(np.einsum("nk,nkd->nd", near.weight, self.items[near.items]))
        if "action.weight" not in self._weights:
            return np.asarray(known, np.float32)
        share = self._settings.collaborative_share
        return np.asarray(normalised(share * known + (1 - share) * action(vectors, self._weights)), np.float32)

    def scores(self, users: Stances, places: Float32Array) -> Scores:
        """(46, 47, 56), one user and one action's place a row."""
        return self._scores(users, places, self._of_places)

    def item_scores(self, users: Stances, items: Sequence[int]) -> Scores:
        """The same of known items, by their own embeddings."""
        return self._scores(users, self.items[items], self._of_items)

    def _scores(self, users: Stances, places: Float32Array, spread: _Spread) -> Scores:
        score = (normalised(users.fused) * places).sum(-1)
        interest, conformity = (users.interest * places).sum(-1), (users.conformity * places).sum(-1)
        interest_z = spread.standard(interest, users.interest)
        conformity_z = spread.standard(conformity, users.conformity)
        settings = self._settings
        wanted = settings.interest_weight * interest_z + settings.conformity_weight * conformity_z
        reward = 0.5 * (1.0 + np.tanh(0.5 * wanted))
        return Scores(
            *(np.asarray(one, np.float32) for one in (score, interest, conformity, interest_z, conformity_z, reward))
        )


@dataclass(frozen=True, slots=True)
class _Spread:
    """The mean and the covariance of what can be scored."""

    mean: Float32Array
    covariance: Float32Array

    @classmethod
    def of(cls, rows: Float32Array) -> _Spread:
        mean = rows.mean(0)
        return cls(mean, np.asarray((rows - mean).T @ (rows - mean) / len(rows), np.float32))

    def standard(self, values: Any, users: Float32Array) -> Any:
        """These scores of users as deviations from what those users give on average."""
        variance = np.einsum("nd,nd->n", users @ self.covariance, users)
        return (values - users @ self.mean) / np.maximum(np.sqrt(np.maximum(variance, 0.0)), LEAST_SPREAD)


def _highest(scores: Float32Array, count: int) -> tuple[NDArray[np.int64], Float32Array]:
    """The places and values of the `count` highest of each row, highest first; rows have a multiple of GROUPS places.

    The highest of each group are compared first: a group whose highest isn't among the `count` best has none of them.
    That leaves a few groups to sort through instead of all items, with the same result. Values are rounded before they
    are compared, so that the last digits, which depend on how many are asked for at once, decide nothing.
    """
    length = scores.shape[1] // GROUPS
    if length > count:
        highest = _rounded(scores.reshape(len(scores), GROUPS, length).max(1))
        groups = np.argpartition(-highest, count - 1, axis=1)[:, :count]
        candidates = (groups[:, None, :] + np.arange(GROUPS)[None, :, None] * length).reshape(len(scores), -1)
        scores = np.take_along_axis(scores, candidates, 1)
    else:
        candidates = np.broadcast_to(np.arange(scores.shape[1]), scores.shape)
    scores = _rounded(scores)
    best = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    best.sort(axis=1)
    values = np.take_along_axis(scores, best, 1)
    order = np.argsort(-values, axis=1, kind="stable")
    found = np.take_along_axis(candidates, np.take_along_axis(best, order, 1), 1)
    return found, np.take_along_axis(values, order, 1)


def _rounded(values: Float32Array) -> Float32Array:
    return np.asarray(np.rint(values * STEPS) / STEPS, np.float32)
