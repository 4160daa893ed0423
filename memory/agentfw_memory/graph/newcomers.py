"""Counts users without skills to the communities of the users who are most like them.

Communities come from what users have and use, so a newcomer is in none. What is known of a newcomer is their profile.
The users with the most similar profiles vote on each level.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from agentfw_memory.graph.arrays import Float32Array, Integers
from agentfw_memory.graph.stores.interface import Store

__all__ = ["Newcomers"]


class Newcomers:
    """The profiles of one tenant, as of the last `catch_up`."""

    def __init__(self, store: Store, neighbours: int) -> None:
        self._store, self._neighbours = store, neighbours
        self._profiles: dict[int, Float32Array] = {}
        self._counter = 0

    def catch_up(self) -> None:
        """Take over new and changed profiles."""
        counter = self._store.counter()
        if self._neighbours and counter != self._counter:
            for user in self._store.profiles_changed(self._counter):
                profile = self._store.profile(user)
                if profile is not None:
                    self._profiles[user] = profile
            self._counter = counter

    def vote(self, user: int, labels: Integers) -> Integers | None:
        """Return a community for each level, from a table of labels by node, or None if nobody can vote.

        A tie goes to the community of the user with the more similar profile.
        """
        if user not in self._profiles:
            return None
        voters = [one for one in self._profiles if one < len(labels) and labels[one, 0] >= 0 and one != user]
        if not voters or not self._neighbours:
            return None
        similarity = np.stack([self._profiles[one] for one in voters]) @ self._profiles[user]
        nearest = np.lexsort((np.array(voters), -similarity))[: self._neighbours]
        rows = labels[np.array(voters)[nearest]]
        return np.array([Counter(column.tolist()).most_common(1)[0][0] for column in rows.T], np.int64)
