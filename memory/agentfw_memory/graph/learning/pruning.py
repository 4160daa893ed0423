"""Chooses which skills to merge and which to retire when an owner has too many.

The functions take vectors and counts and return rows. They store nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentfw_memory.errors import BadInputError
from agentfw_memory.graph.arrays import Float32Array

__all__ = ["Cut", "near_duplicates", "prune"]

BLOCK = 1024
"""Rows of similarities computed at a time: 4 MB for a thousand vectors."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The rows to merge and the rows to retire."""

    merged: tuple[tuple[int, int], ...] = ()
    """Pairs of the row that stays and the row that is merged into it."""
    retired: tuple[int, ...] = ()


def near_duplicates(vectors: Float32Array, threshold: float) -> list[tuple[int, int]]:
    """Return pairs of rows more similar than the threshold: the row that stays, and the one that duplicates it.

    The earlier row stays. A removed row has no duplicates of its own, so a chain of small steps doesn't merge its two
    ends.
    """
    gone = np.zeros(len(vectors), bool)
    found: list[tuple[int, int]] = []
    for start in range(0, len(vectors), BLOCK):
        similarity = vectors[start : start + BLOCK] @ vectors[start:].T
        for row, others in enumerate(similarity, start):
            if gone[row]:
                continue
            alike = np.flatnonzero(others > threshold) + start
            for other in alike[alike > row].tolist():
                if not gone[other]:
                    gone[other] = True
                    found.append((row, other))
    return found


def prune(
    vectors: Float32Array, utilities: Sequence[float], uses: Sequence[int], *, maximum: int, merge_above: float
) -> Cut:
    """Reduce a list of skills, oldest first, to a maximum: merge near duplicates, then retire the least useful.

    Of two near duplicates the more useful one stays. A skill's usefulness is its mean reward with one imagined use of
    reward 0.5 added, so that a skill without any use isn't the first to go.
    """
    if maximum < 0:
        raise BadInputError(f"can't keep a maximum of {maximum} skills", fix="pass a maximum of 0 or more")
    excess = len(vectors) - maximum
    if excess <= 0:
        return Cut()
    worth = [(0.5 + utility * count) / (1 + count) for utility, count in zip(utilities, uses, strict=True)]
    # Most useful first, and among equals newest first. The first of two duplicates stays.
    order = sorted(range(len(vectors)), key=lambda row: (-worth[row], -row))
    alike = near_duplicates(vectors[order], merge_above)
    merged = [(order[stays], order[goes]) for stays, goes in alike][:excess]
    gone = {goes for _, goes in merged}
    left = [row for row in reversed(order) if row not in gone]
    return Cut(tuple(merged), tuple(left[: excess - len(merged)]))
