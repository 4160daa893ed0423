"""Reports on what a model learned about one user or about all, as a table and as a picture.

A report says how much of a behaviour is interest and how much is conformity, and lists the items it is based on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentfw_rewardmodels.preference.encoders import Float32Array
from agentfw_rewardmodels.preference.model_state import ModelState
from agentfw_rewardmodels.preference.results import table
from agentfw_rewardmodels.preference.scoring import UserVectors

LISTED = 10
INK, INTEREST, CONFORMITY = "#1f2933", "#2b7a78", "#d98e04"


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
class UserReport:
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

    def as_dict(self) -> dict[str, Any]:
        # Replace NaN by None, because JSON has no NaN.
        return {
            name: None if isinstance(value, float) and np.isnan(value) else value
            for name, value in asdict(self).items()
        }

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

    def plot(self) -> str:
        """Return an SVG of these items, with their interest and conformity."""
        rows = [(one.text or one.item, one.interest, one.conformity) for one in self.interests]
        share = f"share of interest {self.interest_share:.2f}"
        return _bars(f"{self.user}: {share}", rows, ("interest", "conformity"))


@dataclass(frozen=True, slots=True)
class ModelReport:
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

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

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

    def plot(self) -> str:
        """Return an SVG of the number of users by share of interest."""
        whole = max(1, *self.interest_shares)
        rows = [
            (f"{place / 10:.1f} to {(place + 1) / 10:.1f}: {count:,}", count / whole)
            for place, count in enumerate(self.interest_shares)
        ]
        return _bars("share of interest, by number of users", rows, ("users",))


def _bars(title: str, rows: Sequence[tuple[Any, ...]], names: Sequence[str]) -> str:
    """Return horizontal bars, from a zero line in the middle, or at the left if no value is negative."""
    colours = (INTEREST, CONFORMITY)
    height, label, width = 14 * len(names) + 10, 260, 300
    least = min([0.0, *(value for _, *values in rows for value in values)])
    zero = label + width * (0.5 if least < 0 else 0.0)
    scale = label + width - zero
    parts = [f'<text x="10" y="24" font-weight="bold">{escape(title)}</text>']
    for place, name in enumerate(names):
        parts.append(f'<text x="{label + 90 * place}" y="44" fill="{colours[place]}">{escape(name)}</text>')
    for line, (text, *values) in enumerate(rows):
        top = 56 + line * height
        short = text if len(text) <= 36 else text[:35] + "…"
        parts.append(f'<text x="10" y="{top + 12}">{escape(short)}</text>')
        for place, value in enumerate(values):
            size = min(1.0, abs(value)) * scale
            left = zero if value >= 0 else zero - size
            parts.append(
                f'<rect x="{left:.1f}" y="{top + 14 * place}" width="{size:.1f}" height="11" fill="{colours[place]}"/>'
            )
    total = 66 + height * len(rows)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {label + width + 20} {total}" '
        f'font-family="sans-serif" font-size="12" fill="{INK}">{"".join(parts)}</svg>\n'
    )


def _standard(values: Any) -> Any:
    return (values - values.mean()) / max(float(values.std()), 1e-6)


def _share(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.2f}"
