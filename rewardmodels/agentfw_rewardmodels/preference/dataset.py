"""The training data as numbers: users and items by index, likes as pairs of indexes, texts as vectors.

    >>> data = Dataset.build(read_interactions([("ana", "zoo"), ("bob", "zoo"), ("bob", "sea")]))
    >>> data.users, data.items, popularity(data.likes, 2, "linear").tolist()
    (('ana', 'bob'), ('zoo', 'sea'), [1.0, 0.5])

Users and items are in the order in which they first occur, so the same table always gives the same dataset.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentfw_rewardmodels.errors import BadInputError
from agentfw_rewardmodels.preference.encoders import Encoder, Float32Array
from agentfw_rewardmodels.preference.input_tables import Interactions, Profiles, read_interactions

__all__ = ["Dataset", "Pairs", "encoded_items", "encoded_views", "places_of", "popularity", "read_pairs"]

Pairs = NDArray[np.int64]
"""Array of shape (2, likes): indexes of users, indexes of items."""
MINIMUM_LIKES_TO_HOLD_OUT = 5
"""Users with fewer likes keep them all, because one of two would be half of what is known."""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Users, items and likes. Without texts, the arrays of texts have no dimensions."""

    users: tuple[str, ...]
    items: tuple[str, ...]
    likes: Pairs
    texts: Float32Array
    """Shape (items, text dimensions). Items without a text have zeros."""
    views: Float32Array
    """Shape (users, views, text dimensions). Missing views are zeros."""
    view_names: tuple[str, ...]
    facts: Mapping[str, int]

    @classmethod
    def build(
        cls,
        interactions: Interactions,
        texts: Mapping[str, str] | None = None,
        profiles: Profiles | None = None,
        encoder: Encoder | None = None,
    ) -> Dataset:
        texts, profiles = texts or {}, profiles or {}
        if not interactions.likes:
            raise BadInputError(
                "the interactions contain no like", fix="pass at least one interaction with a value above 0"
            )
        users = tuple(dict.fromkeys([*(user for user, _ in interactions.likes), *profiles]))
        items = tuple(dict.fromkeys([*(item for _, item in interactions.likes), *texts]))
        likes = places_of(interactions.likes, users, items)
        if len(items) < 2:
            raise BadInputError(
                "the interactions contain only one item", fix="pass interactions with two or more items"
            )
        view_names = tuple(sorted({name for views in profiles.values() for name in views}))
        facts = {
            "users": len(users),
            "items": len(items),
            "likes": len(interactions.likes),
            "dislikes": len(interactions.dislikes),
            "duplicates": interactions.duplicates,
            "contradictions": interactions.contradictions,
            "items_without_text": sum(item not in texts for item in items),
            "users_without_profile": sum(user not in profiles for user in users),
            "users_with_one_like": int((np.bincount(likes[0], minlength=len(users)) == 1).sum()),
        }
        return cls(
            users,
            items,
            likes,
            encoded_items(items, texts, encoder),
            encoded_views([profiles.get(user, {}) for user in users], view_names, encoder),
            view_names,
            facts,
        )

    def without(self, share: float, generator: np.random.Generator) -> tuple[Dataset, Pairs]:
        """Hold out a share of each user's likes. Return the rest and the held-out likes. Users with few keep all."""
        counts = np.bincount(self.likes[0], minlength=len(self.users))
        order = generator.permutation(self.likes.shape[1])
        shuffled = self.likes[:, order]
        by_user = np.argsort(shuffled[0], kind="stable")
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        rank = np.arange(len(by_user)) - np.repeat(starts, counts)
        quota = np.where(counts >= MINIMUM_LIKES_TO_HOLD_OUT, np.maximum(1, np.round(counts * share)), 0)
        held = np.zeros(len(by_user), bool)
        held[order[by_user]] = rank < np.repeat(quota, counts)
        return replace(self, likes=self.likes[:, ~held]), self.likes[:, held]


def places_of(pairs: Sequence[tuple[str, str]], users: Sequence[str], items: Sequence[str]) -> Pairs:
    """Convert pairs of names to pairs of indexes. Pairs with an unknown name are left out."""
    user_place, item_place = {user: n for n, user in enumerate(users)}, {item: n for n, item in enumerate(items)}
    known = [(user_place[user], item_place[item]) for user, item in pairs if user in user_place and item in item_place]
    return np.array(known, np.int64).reshape(-1, 2).T.copy()


def popularity(likes: Pairs, items: int, kind: str) -> Float32Array:
    """Return the popularity of each item from 0 to 1: its likes, or their logarithm, relative to the maximum."""
    counts = np.bincount(likes[1], minlength=items).astype(np.float32)
    if kind == "log":
        counts = np.log1p(counts)
    return np.asarray(counts / np.maximum(counts.max(), 1e-12), np.float32)


def encoded_items(items: Sequence[str], texts: Mapping[str, str], encoder: Encoder | None) -> Float32Array:
    if encoder is None or not texts:
        return np.zeros((len(items), 0), np.float32)
    rows = encoder.encode([texts[item] for item in items if item in texts])
    result = np.zeros((len(items), rows.shape[1]), np.float32)
    result[[item in texts for item in items]] = rows
    return result


def encoded_views(profiles: Sequence[Mapping[str, str]], names: Sequence[str], encoder: Encoder | None) -> Float32Array:
    """Return an array of shape (profiles, views, text dimensions)."""
    if encoder is None or not names:
        return np.zeros((len(profiles), 0, 0), np.float32)
    where = [(row, column) for row, views in enumerate(profiles) for column, name in enumerate(names) if name in views]
    rows = encoder.encode([profiles[row][names[column]] for row, column in where])
    result = np.zeros((len(profiles), len(names), rows.shape[1]), np.float32)
    if where:
        row_places, column_places = map(list, zip(*where, strict=True))
        result[row_places, column_places] = rows
    return result


def read_pairs(source: Any, users: Sequence[str], items: Sequence[str], what: str) -> Pairs:
    """Read the likes between known users and items from a table."""
    return places_of(read_interactions(source, what).likes, users, items)
