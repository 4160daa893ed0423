"""Draws the batches of training: likes, and for each one an item that the user doesn't like.

What an epoch draws depends only on the seed and the number of the epoch, so a resumed training gets the same batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentfw_rewardmodels.preference.dataset import Pairs

__all__ = ["Drawer", "Places", "tensor"]

Ints = NDArray[np.int64]
TRIES = 10
"""Attempts to draw an item that isn't liked. A user who likes nearly everything may get one that is."""


@dataclass(frozen=True, slots=True)
class Places:
    """A batch as indexes of users and items. `user` and `item` index the distinct `users` and `items`."""

    users: Ints
    items: Ints
    others: Ints
    user: Ints
    item: Ints
    compared: Ints
    """Indexes in `users`, sorted: the users whose contrastive losses are computed."""
    liked: NDArray[np.bool_]
    """Shape (compared, items): what each of these users is known to like."""


class Drawer:
    """Draws batches from the likes of a dataset."""

    def __init__(self, likes: Pairs, users: int, items: int, batch: int, contrast_users: int, seed: int) -> None:
        self._likes, self._items, self._batch, self._seed = likes, items, batch, seed
        self._contrast_users = contrast_users
        self._keys = np.sort(likes[0] * items + likes[1])
        self._starts = np.searchsorted(self._keys, np.arange(users + 1) * items)
        self._slots = np.full(items, -1, np.int64)

    def epoch(self, number: int) -> Iterator[Places]:
        generator = np.random.default_rng([self._seed, number])
        likes = self._likes[:, generator.permutation(self._likes.shape[1])]
        others = self._others(likes[0], generator)
        for begin in range(0, likes.shape[1], self._batch):
            part = slice(begin, begin + self._batch)
            yield self.places(likes[:, part], others[part], generator)

    def generator(self, epoch: int) -> np.random.Generator:
        """Return the generator for other random choices in an epoch."""
        return np.random.default_rng([self._seed, epoch, 1])

    def places(self, likes: Pairs, others: Ints, generator: np.random.Generator) -> Places:
        users, user = np.unique(likes[0], return_inverse=True)
        items, item = np.unique(likes[1], return_inverse=True)
        compared = np.arange(len(users))
        if 0 < self._contrast_users < len(users):
            compared = np.sort(generator.choice(len(users), self._contrast_users, replace=False, shuffle=False))
        return Places(users, items, others, user, item, compared, self._liked(users[compared], items))

    def _liked(self, users: Ints, items: Ints) -> NDArray[np.bool_]:
        counts = self._starts[users + 1] - self._starts[users]
        rows = np.repeat(np.arange(len(users)), counts)
        edges = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts) + self._starts[users][rows]
        self._slots[items] = np.arange(len(items))
        slots = self._slots[self._keys[edges] % self._items]
        self._slots[items] = -1
        mask = np.zeros((len(users), len(items)), bool)
        mask[rows[slots >= 0], slots[slots >= 0]] = True
        return mask

    def _others(self, users: Ints, generator: np.random.Generator) -> Ints:
        others = generator.integers(0, self._items, len(users))
        for _ in range(TRIES):
            keys = users * self._items + others
            found = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            wrong = np.flatnonzero(self._keys[found] == keys)
            if not len(wrong):
                break
            others[wrong] = generator.integers(0, self._items, len(wrong))
        return others


def tensor(array: Any, device: str) -> Any:
    import torch

    return torch.from_numpy(array).to(device)
