"""The values that a preference model returns.

Each value is a plain dataclass. `as_dict` turns it into JSON values, and `table` into aligned text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np


class _Value:
    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        """JSON values. NaN is None, because JSON has no NaN."""
        values: dict[str, Any] = asdict(self)  # type: ignore[call-overload]
        return {name: None if isinstance(value, float) and np.isnan(value) else value for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class NearItem:
    """A known item whose text is similar to an action."""

    item: str
    text: str
    similarity: float
    """Cosine similarity of the two texts."""
    weight: float
    """Share of this item in the action's position. All shares sum to 1."""
    popularity: float
    """0 to 1."""
    interest: float
    """How much the user's own interest favours the item, a cosine."""


@dataclass(frozen=True, slots=True)
class PreferenceScore(_Value):
    """The score of an action for a user."""

    user: str
    text: str
    score: float
    """Both branches together, a cosine (formula 47)."""
    interest: float
    """The user's own interest (46)."""
    conformity: float
    """The pull of what is popular (46)."""
    interest_z: float
    """Standardised over this user's scores of all known items, so that users can be compared."""
    conformity_z: float
    reward: float
    """From 0 to 1, computed from the two standardised scores (56)."""
    interest_share: float
    """Share of interest in the user's behaviour, from 0 to 1. The rest is conformity."""
    nearest: tuple[NearItem, ...]
    """The known items that the score is based on, most similar first."""


@dataclass(frozen=True, slots=True)
class OwnItem:
    """An item that the user liked, and its closeness to the action in the collaborative space."""

    item: str
    text: str
    closeness: float


@dataclass(frozen=True, slots=True)
class Explanation(_Value):
    """A score and the evidence for it."""

    score: PreferenceScore
    history: tuple[OwnItem, ...]
    """The items the user liked that are closest to the action."""

    def table(self) -> str:
        one = self.score
        lines = [
            f"{one.user}: {one.text}",
            f"reward {one.reward:.3f}   interest {one.interest:+.3f} (z {one.interest_z:+.2f})   "
            f"conformity {one.conformity:+.3f} (z {one.conformity_z:+.2f})",
            f"share of interest in their behaviour {one.interest_share:.2f}",
            "",
            *table(
                ("similar known items", "similar", "weight", "popular", "liked"),
                [
                    (near.text or near.item, near.similarity, near.weight, near.popularity, near.interest)
                    for near in one.nearest
                ],
            ),
        ]
        if self.history:
            own = [(own.text or own.item, own.closeness) for own in self.history]
            lines += ["", *table(("close to what they liked", "close"), own)]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Evaluation(_Value):
    """How well a model finds held-out likes."""

    recall: float
    ndcg: float
    users: int
    """Number of users with held-out likes."""
    count: int
    """Length of the ranked list."""


def table(head: Sequence[str], rows: Sequence[Sequence[str | float]], width: int = 44) -> list[str]:
    """Return lines with aligned columns. The first column is text, cut to `width`.

    >>> table(("item", "liked"), [("museum", 0.5)])
    ['item      liked', 'museum    0.500']
    """
    texts = [" ".join(str(row[0]).split()) for row in rows]
    texts = [text if len(text) <= width else text[: width - 1] + "…" for text in texts]
    shown = [[text, *(f"{value:.3f}" for value in row[1:])] for text, row in zip(texts, rows, strict=True)]
    first = max(len(line[0]) for line in [[head[0]], *shown])
    sizes = [max(8, len(name)) for name in head[1:]]
    return [
        line[0].ljust(first) + "".join(cell.rjust(size + 1) for cell, size in zip(line[1:], sizes, strict=True))
        for line in [list(head), *shown]
    ]
