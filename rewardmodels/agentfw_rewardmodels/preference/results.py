"""What a preference model answers with.

The one rule: every answer is a plain value that prints as a table where it is one, and turns into JSON with `as_dict`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Evaluation", "Explanation", "NearItem", "OwnItem", "PreferenceScore", "Scores"]


@dataclass(frozen=True, slots=True)
class NearItem:
    """A known item that an action text is like."""

    item: str
    text: str
    similarity: float
    """Of the two texts, a cosine."""
    weight: float
    """How much of the action's place comes from this item; all of them sum to 1."""
    popularity: float
    """0 to 1."""
    interest: float
    """How much this user likes the item for its own sake, a cosine."""


@dataclass(frozen=True, slots=True)
class PreferenceScore:
    """What a user thinks of an action."""

    user: str
    text: str
    score: float
    """Both branches together, a cosine (formula 47)."""
    interest: float
    """What is this user's own (46)."""
    conformity: float
    """What comes from doing as everybody does (46)."""
    interest_z: float
    """Standardised over what this user thinks of the known items, so that users can be compared."""
    conformity_z: float
    reward: float
    """0 to 1, from the two standardised scores (56)."""
    interest_share: float
    """How much of this user's behaviour is interest, 0 to 1; the rest is conformity."""
    nearest: tuple[NearItem, ...]
    """The known items that the score rests on, most alike first."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Scores:
    """Many scores at once, one place a pair."""

    score: NDArray[np.float32]
    interest: NDArray[np.float32]
    conformity: NDArray[np.float32]
    interest_z: NDArray[np.float32]
    conformity_z: NDArray[np.float32]
    reward: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class OwnItem:
    """Something that the user liked, and how close it is to the action in the collaborative space."""

    item: str
    text: str
    closeness: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a score is what it is."""

    score: PreferenceScore
    history: tuple[OwnItem, ...]
    """Of what the user liked, that which is closest to the action."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def table(self) -> str:
        one = self.score
        lines = [
            f"{one.user}: {one.text}",
            f"reward {one.reward:.3f}   interest {one.interest:+.3f} (z {one.interest_z:+.2f})   "
            f"conformity {one.conformity:+.3f} (z {one.conformity_z:+.2f})",
            f"share of interest in all that they do {one.interest_share:.2f}",
            "",
            *table(
                ("like these known items", "alike", "weight", "popular", "liked"),
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
class Evaluation:
    """How well held-out likes are found."""

    recall: float
    ndcg: float
    users: int
    """Who had something held out."""
    count: int
    """Length of the list."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def table(head: Sequence[str], rows: Sequence[Sequence[str | float]], width: int = 44) -> list[str]:
    """Lines with aligned columns; the first column is text and is cut to `width`.

    >>> table(("item", "liked"), [("museum", 0.5)])
    ['item      liked', 'museum    0.500']
    """
    shown = [[_cut(str(row[0]), width), *(f"{value:.3f}" for value in row[1:])] for row in rows]
    first = max(len(line[0]) for line in [[head[0]], *shown])
    sizes = [max(8, len(name)) for name in head[1:]]
    return [
        line[0].ljust(first) + "".join(cell.rjust(size + 1) for cell, size in zip(line[1:], sizes, strict=True))
        for line in [list(head), *shown]
    ]


def _cut(text: str, width: int) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= width else plain[: width - 1] + "…"
