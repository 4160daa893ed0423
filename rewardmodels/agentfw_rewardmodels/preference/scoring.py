"""Scores actions for users with the arrays of a trained model, in numpy (formulas 43 to 47 and 56).

Nothing of the size users x items is held in memory: a user's mean and deviation over all items come from the items'
mean and covariance. The paper standardises scores with statistics of the training set. Here each user is standardised
with their own scores of the known items, so that those who like everything and those who like little are comparable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .encoders import Float32Array
from .formulas import UserVectors, Weights, action, fused, normalised, softmax
from .preference_settings import PreferenceSettings

BLOCK_SIZE = 4_000_000  # number of text similarities held at a time (16 MB)
SAMPLED = 4096  # maximum number of items whose positions give the mean and covariance
USERS_AT_ONCE = 512  # number of users whose scores of all items are held at a time
MINIMUM_DEVIATION = 1e-3
RESOLUTION = 10_000.0  # similarities are rounded to 1 / RESOLUTION


@dataclass(frozen=True, slots=True)
class Scores:
    """Many scores, one entry per pair."""

    score: NDArray[np.float32]
    interest: NDArray[np.float32]
    conformity: NDArray[np.float32]
    interest_z: NDArray[np.float32]
    conformity_z: NDArray[np.float32]
    reward: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The nearest known items of each text."""

    items: NDArray[np.int64]
    similarity: Float32Array
    weight: Float32Array


def new_user_vectors(by_profile: Float32Array, settings: PreferenceSettings) -> UserVectors:
    """Return the vectors of users with a profile and no likes. Both branches get the same share."""
    interest, conformity = (np.asarray(normalised(by_profile[:, branch]), np.float32) for branch in (1, 2))
    share = {"both": 0.5, "interest": 1.0, "conformity": 0.0}[settings.branches]
    shares = np.full(len(by_profile), share, np.float32)
    return UserVectors(interest, conformity, fused(interest, conformity, shares), shares)


class Scorer:
    """Scores items and actions for users."""

    def __init__(
        self,
        items: Float32Array,
        texts: Float32Array,
        weights: Weights,
        settings: PreferenceSettings,
        average: Float32Array | None = None,
    ) -> None:
        """`average` is the interest of the average user, for `beyond_average`."""
        self._weights, self._settings, self._average = weights, settings, average
        self._texted = np.flatnonzero((texts != 0).any(-1)) if texts.size else np.zeros(0, np.int64)
        self._texts = np.asarray(texts[self._texted], np.float32)
        self.reads_texts = bool(len(self._texted))
        self.items = np.asarray(normalised(items), np.float32)
        self._of_items = _Spread.of(self.items)
        if self.reads_texts:
            some = np.random.default_rng(settings.seed).permutation(len(self._texted))[:SAMPLED]
            self._of_places = _Spread.of(self.places(self._texts[some]))

    def nearest(self, vectors: Float32Array) -> Neighbours:
        """(43): return the known items with the most similar texts, most similar first."""
        count = min(self._settings.nearest, len(self._texted))
        found = np.empty((len(vectors), count), np.int64)
        similarity = np.empty((len(vectors), count), np.float32)
        step = max(1, BLOCK_SIZE // len(self._texted))
        for begin in range(0, len(vectors), step):
            part = slice(begin, begin + step)
            # Rounded first, because the last digits depend on the batch size.
            scores = np.rint(vectors[part] @ self._texts.T * RESOLUTION) / RESOLUTION
            found[part] = top(scores, count)
            similarity[part] = np.take_along_axis(scores, found[part], 1)
        weight = softmax(similarity / self._settings.nearest_temperature)
        return Neighbours(self._texted[found], similarity, np.asarray(weight, np.float32))

    def places(self, vectors: Float32Array, near: Neighbours | None = None) -> Float32Array:
        """(44, 45): return the positions of actions in the collaborative space."""
        near = near or self.nearest(vectors)
        known = normalised(np.einsum("nk,nkd->nd", near.weight, self.items[near.items]))
        if "action.weight" not in self._weights:
            return np.asarray(known, np.float32)
        share = self._settings.collaborative_share
        return np.asarray(normalised(share * known + (1 - share) * action(vectors, self._weights)), np.float32)

    def scores(self, users: UserVectors, places: Float32Array, *, known: bool = False) -> Scores:
        """(46, 47, 56): score one user and one position per row: that of an action, or of a known item."""
        spread = self._of_items if known else self._of_places
        score = (normalised(users.fused) * places).sum(-1)
        interest, conformity = (users.interest * places).sum(-1), (users.conformity * places).sum(-1)
        settings, own, liking = self._settings, users.interest, interest
        if settings.beyond_average and self._average is not None:
            own = spread.beyond(users.interest, self._average)
            liking = (own * places).sum(-1)
        interest_z = spread.standard(liking, own)
        conformity_z = spread.standard(conformity, users.conformity)
        wanted = settings.interest_weight * interest_z + settings.conformity_weight * conformity_z
        reward = 0.5 * (1.0 + np.tanh(0.5 * wanted))
        return Scores(
            *(np.asarray(one, np.float32) for one in (score, interest, conformity, interest_z, conformity_z, reward))
        )


@dataclass(frozen=True, slots=True)
class _Spread:
    """The mean and covariance of all positions that can be scored."""

    mean: Float32Array
    covariance: Float32Array

    @classmethod
    def of(cls, rows: Float32Array) -> _Spread:
        mean = rows.mean(0)
        return cls(mean, np.asarray((rows - mean).T @ (rows - mean) / len(rows), np.float32))

    def beyond(self, users: Float32Array, average: Float32Array) -> Float32Array:
        """Remove what users share with the average user. The scores of the rest don't correlate with the average's."""
        alike = self.covariance @ average
        share = users @ alike / max(float(average @ alike), MINIMUM_DEVIATION**2)
        return np.asarray(users - np.outer(share, average), np.float32)

    def standard(self, values: Any, users: Float32Array) -> Any:
        """Standardise scores by each user's mean and deviation."""
        variance = np.einsum("nd,nd->n", users @ self.covariance, users)
        return (values - users @ self.mean) / np.maximum(np.sqrt(np.maximum(variance, 0.0)), MINIMUM_DEVIATION)


def by_user(pairs: NDArray[np.int64]) -> tuple[NDArray[np.int64], list[set[int]]]:
    """Return the users of these pairs, sorted, and the items of each.

    >>> by_user(np.array([[3, 1, 3], [0, 2, 5]]))
    (array([1, 3]), [{2}, {0, 5}])
    """
    order = np.argsort(pairs[0], kind="stable")
    users, starts = np.unique(pairs[0][order], return_index=True)
    return users, [set(part.tolist()) for part in np.split(pairs[1][order], starts[1:])]


def top(scores: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Return the indexes of the `count` highest scores of each row, highest first. Ties go to the lower index."""
    count = min(count, scores.shape[1])
    found = np.argpartition(-scores, count - 1, axis=1)[:, :count]
    found.sort(axis=1)
    order = np.argsort(-np.take_along_axis(scores, found, 1), axis=1, kind="stable")
    return np.take_along_axis(found, order, 1)


def found_likes(
    held_out: NDArray[np.int64],
    count: int,
    scores_of: Callable[[NDArray[np.int64]], Any],
    known_of: Callable[[int], NDArray[np.int64]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return recall and NDCG of each user with held-out likes. What is known to be liked isn't ranked."""
    users, relevant = by_user(held_out)
    ranked = []
    for begin in range(0, len(users), USERS_AT_ONCE):
        some = users[begin : begin + USERS_AT_ONCE]
        scores = scores_of(some)
        for row, user in zip(scores, some, strict=True):
            row[known_of(user)] = -np.inf
        ranked.append(top(scores, count))
    return recall_and_ndcg(np.concatenate(ranked), relevant)


def recall_and_ndcg(
    ranked: NDArray[np.integer[Any]], relevant: Sequence[set[int]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return recall and NDCG of each user.

    Recall is relative to all relevant items, NDCG to the best possible list of this length.

    >>> recall_and_ndcg(np.array([[0, 2, 1]]), [{2}])
    (array([1.]), array([0.63092975]))
    """
    count = ranked.shape[1]
    hits = np.array(
        [[item in wanted for item in row] for row, wanted in zip(ranked.tolist(), relevant, strict=True)], bool
    ).reshape(len(relevant), count)
    discount = 1.0 / np.log2(np.arange(2, count + 2))
    sizes = np.array([len(wanted) for wanted in relevant])
    best = np.concatenate([[0.0], np.cumsum(discount)])[np.minimum(sizes, count)]
    return hits.sum(1) / sizes, (hits * discount).sum(1) / best
