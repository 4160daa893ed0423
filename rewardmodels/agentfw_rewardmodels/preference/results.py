"""The values that a preference model returns.

Each value is a plain dataclass. `as_dict` turns it into JSON values, and `table` into aligned text. A report says what
a model learned about one user or about all: how much of a behaviour is interest and how much is conformity, and the
items it is based on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .encoders import Float32Array
    from .model_state import ModelState
    from .scoring import UserVectors


class _Value:
    """What a model returns."""

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


LISTED = 10


@dataclass(frozen=True, slots=True)
class Liked:
    """An item in a user's report."""

    item: str
    text: str
    interest: float
    """A cosine."""
    conformity: float
    popularity: float
    known: bool
    """Whether the user is known to like it."""


@dataclass(frozen=True, slots=True)
class UserReport(_Value):
    """What the model learned about one user."""

    user: str
    likes: int
    interest_share: float
    """Share of interest in the behaviour, from 0 to 1."""
    conforming_likes: float
    """Share of the likes that conformity explains better than interest, or NaN without likes."""
    popularity_of_likes: float
    """Mean popularity from 0 to 1, or NaN without likes."""
    interests: tuple[Liked, ...]
    """The items that interest this user most, liked before or not."""

    @classmethod
    def of(
        cls,
        user: str,
        state: ModelState,
        of_user: UserVectors,
        item_scores: tuple[Float32Array, Float32Array],
        own: NDArray[np.int64],
        popularity: Float32Array,
    ) -> UserReport:
        """Create a report. `item_scores` holds interest and conformity of the user for every item."""
        interest, conformity = item_scores
        leaning = _standard(conformity) - _standard(interest)
        liked = set(own.tolist())
        best = np.argsort(-interest, kind="stable")[:LISTED]
        return cls(
            user,
            len(own),
            float(of_user.share[0]),
            float((leaning[own] > 0).mean()) if len(own) else float("nan"),
            float(popularity[own].mean()) if len(own) else float("nan"),
            tuple(
                Liked(
                    state.items[place],
                    state.titles.get(state.items[place], ""),
                    float(interest[place]),
                    float(conformity[place]),
                    float(popularity[place]),
                    int(place) in liked,
                )
                for place in best
            ),
        )

    def table(self) -> str:
        lines = [
            f"{self.user}: {self.likes} likes, share of interest {self.interest_share:.2f}",
            f"likes that conformity explains better {_share(self.conforming_likes)}   "
            f"popularity of what they like {_share(self.popularity_of_likes)}",
            "",
            *table(
                ("most interesting", "interest", "conformity", "popular"),
                [
                    (
                        f"{one.text or one.item}{'' if one.known else ' (new)'}",
                        one.interest,
                        one.conformity,
                        one.popularity,
                    )
                    for one in self.interests
                ],
            ),
        ]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class ModelReport(_Value):
    """What the model learned about all users."""

    facts: dict[str, int]
    epochs: int
    metric: float | None
    """The best NDCG on the validation split, or None without one."""
    interest_shares: tuple[int, ...]
    """Number of users with a share of interest of 0 to 0.1, 0.1 to 0.2 and so on."""

    @classmethod
    def of(cls, state: ModelState, shares: Float32Array) -> ModelReport:
        metrics = [one["metric"] for one in state.history if "metric" in one]
        counts, _ = np.histogram(shares, bins=10, range=(0.0, 1.0))
        return cls(dict(state.facts), len(state.history), max(metrics, default=None), tuple(map(int, counts)))

    def table(self) -> str:
        lines = [f"{name.replace('_', ' '):<24}{count:>10,}" for name, count in self.facts.items()]
        lines.append(f"{'epochs':<24}{self.epochs:>10,}")
        if self.metric is not None:
            lines.append(f"{'NDCG@20, validation':<24}{self.metric:>10.4f}")
        lines += ["", "share of interest   users"]
        lines += [
            f"{place / 10:.1f} to {(place + 1) / 10:.1f}{count:>16,}"
            for place, count in enumerate(self.interest_shares)
        ]
        return "\n".join(lines)


def _standard(values: Any) -> Any:
    return (values - values.mean()) / max(float(values.std()), 1e-6)


def _share(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f}"
