"""The communities of a tenant's graph, kept in step with its store.

The communities are computed from the edges in the store and from nothing else. Their saved state only spares the next
process a full pass, and can be deleted at any time.

Users and skills are in communities. A user is connected to the skills that they own, and to those that they used, by
the reward, and to the users with the most similar profiles. Tools and scenarios are left out. With them, communities
would follow the scenarios, and sharing one with a skill would say nothing about whom the skill suits.

A new skill joins its owner's community in far less than a millisecond. When enough has changed, the changed part is
split again. A graph that was never split, or has grown by a quarter since, is split as a whole: splitting part after
part keeps what the early graph looked like, when little was known about anybody.
"""

from __future__ import annotations

import io
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np

from agentfw_memory.graph.arrays import Float32Array, Floats, Integers, grown
from agentfw_memory.graph.communities.hierarchy import Communities
from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.rows.graph_rows import GraphRows

DRIFT = 0.1
"""Share of nodes in changed communities beyond which these are split again."""
GROWTH = 1.25
"""Growth of the whole graph beyond which all of it is split again."""
MOST_COMPARED = 20_000
"""Number of users among whom similar ones are looked for. With more, comparing all pairs would take minutes."""
PROFILES_AT_ONCE = 1_000
ROUNDING = 1e-6
PROFILE_WEIGHT = 10.0
"""Weight of an edge between users with similar profiles, where having a skill weighs 1. Most of a user's skills are had
by nobody else. They would put each user into a community of their own."""


def shares(
    mine: Integers, skills: Integers, behind: Mapping[int, Integers], labels: Callable[[Integers], Integers]
) -> Floats:
    """Return for each skill the share of levels on which its community is one of `mine`.

    For a skill that several users are behind, it is the mean over these users. `behind` has them by the skill's place.
    """
    together: Floats = np.count_nonzero(labels(skills) == mine, axis=1) / len(mine)
    if behind:
        users = np.concatenate(list(behind.values()))
        each = np.count_nonzero(labels(users) == mine, axis=1) / len(mine)
        counts = np.array([len(some) for some in behind.values()])
        together[list(behind)] = np.add.reduceat(each, np.cumsum(counts) - counts) / counts
    return together


class Membership:
    """The communities of one tenant's users and skills."""

    def __init__(self, rows: GraphRows, settings: GraphSettings) -> None:
        self._rows, self._settings = rows, settings
        self._state = f"communities by {settings.communities}"
        self._newcomers = _Newcomers(rows, settings.profile_neighbours)
        self._communities = Communities(settings.resolutions, method=settings.communities, seed=settings.seed)
        self._labels = np.full((0, len(settings.resolutions)), -1, np.int64)
        self._row = 0
        self._gone: set[int] = set()
        self._asked: set[int] = set()
        """The skills whose users were asked for."""
        self._behind: dict[int, Integers] = {}
        """The users of each of them that several have."""
        self._saved = True
        self._load()

    def together(self, user: int, skills: Integers) -> Floats:
        """Return for each skill the share of levels on which it shares a community with the user.

        A user without edges is counted to the communities of the users with the most similar profiles. For a skill that
        several users have, the mean over these users counts, because they may be in different communities.
        """
        known = user < len(self._labels) and self._labels[user, 0] >= 0
        mine = self._labels[user] if known else self._newcomers.vote(user, self._labels)
        if mine is None:
            return np.zeros(len(skills))
        # The last row belongs to no node and holds -1. Nodes beyond the end read it.
        return shares(
            mine,
            skills,
            self._users(skills.tolist()),
            lambda nodes: self._labels[np.minimum(nodes, len(self._labels) - 1)],
        )

    def labels(self) -> tuple[Integers, Integers]:
        """Return all users and skills with a community, and their communities on each level."""
        nodes = np.flatnonzero(self._labels[:, 0] >= 0)
        return nodes, self._labels[nodes]

    def _users(self, skills: list[int]) -> dict[int, Integers]:
        """Return by place the users of each of these skills that several users have."""
        missing = sorted(set(skills) - self._asked)
        if missing:
            found: dict[int, list[int]] = {}
            for skill, user in self._rows.owners(missing):
                found.setdefault(skill, []).append(user)
            self._behind.update((skill, np.array(users)) for skill, users in found.items() if len(users) > 1)
            self._asked.update(missing)
        behind = self._behind
        return {place: behind[skill] for place, skill in enumerate(skills) if skill in behind} if behind else {}

    def of(self, node: int) -> tuple[int, ...]:
        """Return the communities of a node, from the coarsest level, or nothing for an unknown node."""
        return self._communities.of(node)

    @property
    def counts(self) -> tuple[int, ...]:
        """The number of communities on each level."""
        known = self._labels[self._labels[:, 0] >= 0] if len(self._labels) else self._labels
        return tuple(len(np.unique(column)) for column in known.T) if len(known) else ()

    def catch_up(self, changed: Iterable[int] = (), gone: Iterable[int] = ()) -> None:
        """Take over what is new in the store. `changed` are skills that are new or different, `gone` ended ones."""
        self._newcomers.catch_up()
        for number in changed if self._asked else ():
            self._asked.discard(number)
            self._behind.pop(number, None)
        self._gone.update(number for number in gone if number in self._communities)
        fresh = list(islice(self._rows.structure(self._row), len(self._communities) + 1))
        if len(fresh) <= len(self._communities):
            self._take(fresh)
        if len(fresh) > len(self._communities) or (fresh and self._communities.growth > GROWTH):
            self.split_all()
        elif (fresh or self._gone) and (
            len(self._gone) > DRIFT * len(self._communities) or self._communities.drift > DRIFT
        ):
            self._communities.forget(self._gone)
            self._gone.clear()
            self._communities.refresh()
            self._read_labels()

    def split_all(self) -> None:
        """Run a full pass over the graph in the store. Communities keep their ids as far as possible."""
        ends, weights = [np.zeros((0, 2), np.int64)], [np.zeros(0)]
        rows = iter(self._rows.structure())
        while batch := list(islice(rows, 50_000)):
            self._row = batch[-1][0]
            ends.append(np.array([(user, skill) for _, user, skill, _ in batch], np.int64))
            weights.append(np.array([weight for *_, weight in batch]))
        similar = list(self._newcomers.pairs(np.unique(np.concatenate(ends)[:, 0])))
        ends.append(np.array(similar, np.int64).reshape(-1, 2))
        weights.append(np.full(len(similar), PROFILE_WEIGHT))
        edges, weighed = np.concatenate(ends), np.concatenate(weights)
        self._communities.full(np.unique(edges), edges, weighed)
        self._gone.clear()
        self._read_labels()
        self._saved = False

    def save(self) -> None:
        """Save the communities in the store for the next process."""
        if self._saved:
            return
        self._communities.forget(self._gone)
        self._gone.clear()
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {**self._communities.to_state(), "row": np.array(self._row)}
        np.savez(buffer, allow_pickle=False, **arrays)
        with self._rows.writing() as change:
            self._rows.save_state(change, self._state, buffer.getvalue())
        self._saved = True

    # Helpers

    def _load(self) -> None:
        kept = self._rows.state(self._state)
        if kept is None:
            return
        settings = self._settings
        try:
            with np.load(io.BytesIO(kept), allow_pickle=False) as arrays:
                state = dict(arrays)
            found = Communities.from_state(state, method=settings.communities, seed=settings.seed)
            if found.resolutions == settings.resolutions:
                self._communities, self._row = found, int(state["row"])
                self._read_labels()
        except (EOFError, LookupError, OSError, ValueError, zipfile.BadZipFile):
            return  # an unreadable state is computed again

    def _take(self, edges: list[tuple[int, int, int, float]]) -> None:
        known = self._communities
        owned: dict[int, dict[int, float]] = {}
        for _, user, skill, weight in edges:
            if skill in known and user in known:
                known.connect(skill, user, weight)
            elif skill in known:
                self._add_user(user, skill, weight)
            else:
                around = owned.setdefault(skill, {})
                around[user] = around.get(user, 0.0) + weight
        for skill, around in owned.items():
            self._add(skill, {user: weight for user, weight in around.items() if user in known})
            for user, weight in around.items():
                if user not in known:
                    self._add_user(user, skill, weight)
        if edges:
            self._row = edges[-1][0]
            self._saved = False

    def _add_user(self, user: int, skill: int, weight: float) -> None:
        similar = self._newcomers.similar(user, np.flatnonzero(self._labels[:, 0] >= 0)).tolist()
        self._add(user, {skill: weight, **dict.fromkeys(similar, PROFILE_WEIGHT)})

    def _add(self, node: int, around: dict[int, float]) -> None:
        found = self._communities.add(node, around)
        if node + 1 >= len(self._labels):
            old = len(self._labels)
            self._labels = grown(self._labels, node + 2)
            self._labels[old:] = -1
        self._labels[node] = found

    def _read_labels(self) -> None:
        state = self._communities.to_state()
        nodes = state["nodes"]
        room = int(nodes.max()) + 2 if len(nodes) else 0
        self._labels = np.full((room, len(self._settings.resolutions)), -1, np.int64)
        self._labels[nodes] = state["labels"].T


class _Newcomers:
    """Finds the users with the most similar profiles, and counts users without skills to their communities.

    What users have in common shows slowly in what they say. Their profiles tell it beforehand.
    """

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
        users, profiles = users[known][:MOST_COMPARED], profiles[known][:MOST_COMPARED]
        for start in range(0, len(users), PROFILES_AT_ONCE):
            similarity = profiles[start : start + PROFILES_AT_ONCE] @ profiles.T
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
