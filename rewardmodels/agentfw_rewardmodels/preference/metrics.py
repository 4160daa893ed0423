"""Metrics of rankings: recall, NDCG and AUC.

>>> recall_and_ndcg(np.array([[0, 2, 1]]), [{2}])
(array([1.]), array([0.63092975]))
>>> auc([0.9, 0.8, 0.1], [True, True, False])
1.0
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["auc", "by_user", "recall_and_ndcg", "top"]


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


def recall_and_ndcg(
    ranked: NDArray[np.integer[Any]], relevant: Sequence[set[int]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return recall and NDCG of each user.

    Recall is relative to all relevant items, NDCG to the best possible list of this length.
    """
    count = ranked.shape[1]
    hits = np.array(
        [[item in wanted for item in row] for row, wanted in zip(ranked.tolist(), relevant, strict=True)], bool
    ).reshape(len(relevant), count)
    discount = 1.0 / np.log2(np.arange(2, count + 2))
    sizes = np.array([len(wanted) for wanted in relevant])
    best = np.concatenate([[0.0], np.cumsum(discount)])[np.minimum(sizes, count)]
    return hits.sum(1) / sizes, (hits * discount).sum(1) / best


def auc(scores: Sequence[float] | NDArray[Any], positive: Sequence[bool] | NDArray[np.bool_]) -> float:
    """Return how often a positive scores above a negative. Ties count half."""
    values, kinds = np.asarray(scores, np.float64), np.asarray(positive, bool)
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    above = int(kinds.sum())
    below = len(kinds) - above
    return float((ranks[kinds].sum() - above * (above + 1) / 2) / (above * below))
