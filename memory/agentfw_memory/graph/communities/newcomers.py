"""Finds the users with the most similar profiles, and counts users without skills to their communities.

What users have in common shows slowly in what they say. Their profiles tell it beforehand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from agentfw_memory.graph.arrays import Float32Array, Integers
from agentfw_memory.graph.rows.graph_rows import GraphRows

__all__ = ["Newcomers"]

MOST = 20_000
"""Number of users among whom similar ones are looked for. With more, comparing all pairs would take minutes."""
BLOCK = 1_000
ROUNDING = 1e-6


class Newcomers:
    """The profiles of one tenant, as of the last `catch_up`."""

    def __init__(self, rows: GraphRows, neighbours: int) -> None:
        self._rows, self._neighbours = rows, neighbours
        self._profiles: dict[int, Float32Array] = {}
        self._counter = 0
        self._stacked: tuple[Integers, Float32Array] | None = None

    def catch_up(self) -> None:
        """Take over new and changed profiles."""
        counter = self._rows.store.head().counter
        if self._neighbours and counter != self._counter:
            for user in self._rows.profiles_changed(self._counter):
                profile = self._rows.profile(user)
                if profile is not None:
                    self._profiles[user] = profile
                    self._stacked = None
            self._counter = counter

    def vote(self, user: int, labels: Integers) -> Integers | None:
        """Return a community for each level, from a table of labels by node, or None if nobody can vote.

        A tie goes to the community of the user with the more similar profile.
        """
        users, _ = self._all()
        known = users[users < len(labels)]
        nearest = self.similar(user, known[labels[known, 0] >= 0])
        if not len(nearest):
            return None
        rows = labels[nearest]
        return np.array([Counter(column.tolist()).most_common(1)[0][0] for column in rows.T], np.int64)

    def similar(self, user: int, among: Integers) -> Integers:
        """Return those of these users whose profiles are the most similar to a user's, the most similar first."""
        if user not in self._profiles:
            return np.zeros(0, np.int64)
        users, profiles = self._all()
        others = np.isin(users, among) & (users != user)
        if not others.any():
            return np.zeros(0, np.int64)
        similarity = profiles[others] @ self._profiles[user]
        nearest: Integers = users[others][self._nearest(similarity)]
        return nearest

    def pairs(self, among: Integers) -> Iterator[tuple[int, int]]:
        """Return each of these users with those of them whose profiles are the most similar."""
        users, profiles = self._all()
        known = np.isin(users, among)
        users, profiles = users[known][:MOST], profiles[known][:MOST]
        for start in range(0, len(users), BLOCK):
            similarity = profiles[start : start + BLOCK] @ profiles.T
            for row, values in enumerate(similarity):
                user = start + row
                others = np.delete(np.arange(len(users)), user)
                yield from ((int(users[user]), int(other)) for other in users[others][self._nearest(values[others])])

    def _nearest(self, similarity: Float32Array) -> Integers:
        """Return the places of the most similar ones, the most similar first.

        Only those are taken that are at least as similar as the mean. Among few users, others would be everybody.
        """
        places = np.arange(len(similarity))
        if len(places) > self._neighbours:
            # Sorting all of them would take most of the time. Ties still go to the first.
            places = np.flatnonzero(similarity >= np.partition(similarity, -self._neighbours)[-self._neighbours])
        order: Integers = places[np.argsort(-similarity[places], kind="stable")[: self._neighbours]]
        return order[similarity[order] >= np.mean(similarity) - ROUNDING] if len(order) else order

    def _all(self) -> tuple[Integers, Float32Array]:
        if self._stacked is None:
            users = np.array(sorted(self._profiles), np.int64)
            rows = [self._profiles[user] for user in users.tolist()]
            self._stacked = users, np.stack(rows) if rows else np.zeros((0, 1), np.float32)
        return self._stacked
