"""The communities of a tenant's users and skills at several resolutions, in step with its store.

A user is connected to the skills that they own, to those that they used, by the reward, and to the users with the most
similar profiles. Tools and scenarios are left out. With them, communities would follow the scenarios, and sharing one
with a skill would say nothing about whom the skill suits. The graph is split again when it has grown by a quarter.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Literal

import numpy as np

from ..errors import needing
from .graph_rows import GraphRows
from .graph_settings import GraphSettings
from .index.vector_index import grown
from .records import EdgeKind, Float32Array, Floats, Integers, Use

Method = Literal["leiden", "louvain"]

GROWTH = 1.25  # growth of the number of edges beyond which the graph is split again
MINIMUM_WEIGHT = 0.05  # minimum reward of a use that connects its user and skill. Modularity needs weights above zero
ITERATIONS = 2  # passes of Leiden over the graph. A third one changes modularity only in the fourth digit
MOST_COMPARED = 20_000
"""Number of users among whom similar ones are looked for. With more, comparing all pairs would take minutes."""
PROFILES_AT_ONCE = 1_000
ROUNDING = 1e-6
PROFILE_WEIGHT = 10.0
"""Weight of an edge between users with similar profiles, where having a skill weighs 1. Most of a user's skills are had
by nobody else. They would put each user into a community of their own."""

_igraph_generator = threading.Lock()  # igraph has one generator for the whole process


def split(count: int, ends: Integers, weights: Floats, resolution: float, *, method: Method, seed: int) -> Integers:
    """Return a community for each of the nodes 0 to count - 1. The same edges and seed give the same ones.

    >>> triangles = np.array([(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3), (0, 3)])
    >>> found = split(6, triangles, np.ones(7), 1.0, method="louvain", seed=7).tolist()
    >>> found[0] == found[1] == found[2] != found[3] == found[4] == found[5]
    True
    """
    if not len(ends):
        return np.arange(count)
    with needing("finding communities", "memory"):
        import igraph
    graph = igraph.Graph(count, edges=ends.tolist())
    if method == "louvain":
        find = graph.community_multilevel
    else:
        find = partial(graph.community_leiden, "modularity", n_iterations=ITERATIONS)
    with _igraph_generator:
        igraph.set_random_number_generator(random.Random(seed))
        try:
            found = find(weights=weights.tolist(), resolution=resolution)
        finally:
            igraph.set_random_number_generator(random)
    return np.array(found.membership, np.int64)


def shares(
    mine: Integers, skills: Integers, behind: Mapping[int, Integers], labels: Callable[[Integers], Integers]
) -> Floats:
    """Return for each skill the share of levels on which its community is one of `mine`. For a skill that several users
    are behind, it is the mean over these users. `behind` has them by the skill's place."""
    together: Floats = np.count_nonzero(labels(skills) == mine, axis=1) / len(mine)
    for place, users in behind.items():
        together[place] = float((labels(users) == mine).mean())
    return together


class Membership:
    """The communities of one tenant's users and skills."""

    def __init__(self, rows: GraphRows, settings: GraphSettings) -> None:
        self._rows, self._settings = rows, settings
        self._state = f"communities by {settings.communities}"
        self._newcomers = _Newcomers(rows, settings.profile_neighbours)
        self._labels = np.full((1, len(settings.resolutions)), -1, np.int64)
        """By node: its community on each level. The last row belongs to no node and holds -1."""
        self._row = self._edges = self._split_at = 0
        self._behind: dict[int, Integers] = {}  # of each skill that was asked for: the users who have it
        self._saved = True
        with suppress(LookupError, TypeError, ValueError):  # an unreadable state is computed again
            kept = json.loads(rows.state(self._state) or b"{}")
            if kept and kept["levels"] == list(settings.resolutions):
                self._use(np.array(kept["nodes"], np.int64), np.array(kept["labels"], np.int64))
                self._row, self._edges, self._split_at = kept["at"]

    def together(self, user: int, skills: Integers) -> Floats:
        """Return for each skill the share of levels on which it shares a community with the user. A user without edges
        is counted to the communities of the users with the most similar profiles. For a skill that several users have,
        the mean over these users counts, because they may be in different communities."""
        known = self._labels[min(user, len(self._labels) - 1)]
        mine = known if known[0] >= 0 else self._newcomers.vote(user, self._labels)
        if mine is None:
            return np.zeros(len(skills))
        if missing := sorted({one for one in skills.tolist() if one not in self._behind}):
            found: dict[int, list[int]] = {one: [] for one in missing}
            for skill, owner in self._rows.owners(missing):
                found[skill].append(owner)
            self._behind.update((skill, np.array(users, np.int64)) for skill, users in found.items())
        behind = {place: self._behind[skill] for place, skill in enumerate(skills.tolist())}
        several, last = {place: some for place, some in behind.items() if len(some) > 1}, len(self._labels) - 1
        return shares(mine, skills, several, lambda nodes: self._labels[np.minimum(nodes, last)])

    def labels(self) -> tuple[Integers, Integers]:
        """Return all users and skills with a community, and their communities on each level."""
        nodes = np.flatnonzero(self._labels[:, 0] >= 0)
        return nodes, self._labels[nodes]

    def of(self, node: int) -> tuple[int, ...]:
        """Return the communities of a node, from the coarsest level, or nothing for an unknown node."""
        found: list[int] = self._labels[min(node, len(self._labels) - 1)].tolist()
        return tuple(found) if found[0] >= 0 else ()

    @property
    def counts(self) -> tuple[int, ...]:
        nodes, labels = self.labels()
        return tuple(len(np.unique(column)) for column in labels.T) if len(nodes) else ()

    def catch_up(self, changed: Iterable[int] = (), gone: Iterable[int] = ()) -> None:
        """Take over what is new in the store. `changed` are skills that are new or different, `gone` ended ones."""
        self._newcomers.catch_up()
        for number in changed if self._behind else ():
            self._behind.pop(number, None)
        ended = np.array([one for one in gone if self.of(one)], np.int64)
        if len(ended):
            self._labels[ended], self._saved = -1, False
        room = int((GROWTH - 1.0) * self._split_at) + self._split_at - self._edges
        fresh = list(islice(self._connections(self._row), max(room, 0) + 1))
        if len(fresh) > room:
            self.split_all()
            return
        for row, _, use in fresh:
            if not self.of(use.user):
                self._put(use.user, self._newcomers.vote(use.user, self._labels), self.of(use.skill))
            if not self.of(use.skill):
                self._put(use.skill, None, self.of(use.user))
            self._row, self._edges, self._saved = row, self._edges + 1, False

    def split_all(self) -> None:
        self._newcomers.catch_up()
        rows, ends, weights = self._connections(0), [np.zeros((0, 2), np.int64)], [np.zeros(0)]
        while batch := list(islice(rows, 50_000)):
            self._row = batch[-1][0]
            ends.append(np.array([(use.user, use.skill) for *_, use in batch], np.int64))
            weights.append(np.array([use.reward for *_, use in batch]))
        self._edges = self._split_at = sum(map(len, ends))
        similar = list(self._newcomers.pairs(np.unique(np.concatenate(ends)[:, 0])))
        ends.append(np.array(similar, np.int64).reshape(-1, 2))
        weights.append(np.full(len(similar), PROFILE_WEIGHT))
        nodes, places = np.unique(np.concatenate(ends), return_inverse=True)
        places, weighed = places.reshape(-1, 2), np.concatenate(weights)
        chosen, levels = self._settings, list[Integers]()
        for resolution in chosen.resolutions:
            seed = random.Random(f"{chosen.seed}/{resolution}/full").getrandbits(31)
            levels.append(split(len(nodes), places, weighed, resolution, method=chosen.communities, seed=seed))
        self._use(nodes, np.array(levels, np.int64).T)
        self._saved = False

    def save(self) -> None:
        if self._saved:
            return
        nodes, labels = self.labels()
        state = {"nodes": nodes.tolist(), "labels": labels.tolist(), "levels": self._settings.resolutions}
        state["at"] = self._row, self._edges, self._split_at
        with self._rows.writing() as change:
            self._rows.save_state(change, self._state, json.dumps(state).encode())
        self._saved = True

    def _connections(self, after: int) -> Iterator[tuple[int, EdgeKind, Use]]:
        return self._rows.uses(after, ("OWNS", "EXECUTED"), MINIMUM_WEIGHT)

    def _use(self, nodes: Integers, labels: Integers) -> None:
        found = np.full((int(nodes.max(initial=-1)) + 2, len(self._settings.resolutions)), -1, np.int64)
        found[nodes] = labels.reshape(len(nodes), found.shape[1])
        self._labels = found

    def _put(self, node: int, voted: Integers | None, others: tuple[int, ...]) -> None:
        """Put a new node into the communities that were voted for, or into those of another, or into new ones."""
        old = len(self._labels)
        if node + 1 >= old:
            self._labels = grown(self._labels, node + 2)
            self._labels[old:] = -1
        self._labels[node] = voted if voted is not None else others or self._labels.max(0) + 1


class _Newcomers:
    """Finds the users with the most similar profiles, and counts users without skills to their communities."""

    def __init__(self, rows: GraphRows, neighbours: int) -> None:
        self._rows, self._neighbours = rows, neighbours
        self._profiles: dict[int, Float32Array] = {}
        self._counter = 0
        self._stacked: tuple[Integers, Float32Array] | None = None

    def catch_up(self) -> None:
        counter = self._rows.store.head().counter
        if self._neighbours and counter != self._counter:
            if changed := self._rows.profiles(self._counter):
                self._profiles |= changed
                self._stacked = None
            self._counter = counter

    def vote(self, user: int, labels: Integers) -> Integers | None:
        """Return a community for each level, from a table of labels by node, or None if nobody can vote. A tie goes to
        the community of the user with the more similar profile."""
        if user not in self._profiles:
            return None
        users, profiles = self._all()
        others = (users < len(labels)) & (users != user)
        others[others] = labels[users[others], 0] >= 0
        nearest = users[others][self._nearest(profiles[others] @ self._profiles[user])]
        if not len(nearest):
            return None
        return np.array([Counter(column.tolist()).most_common(1)[0][0] for column in labels[nearest].T], np.int64)

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
        """Return the places of the most similar ones, the most similar first. Only those are taken that are at least as
        similar as the mean. Among few users, others would be everybody."""
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
