"""The communities of a tenant's graph, in step with its store.

The one rule: the store's edges are the truth. Communities are counted from them and from nothing else; what is kept of
them in the store spares the next process a full pass, and can be thrown away at any time.

Users and skills are in communities: a user is bound to the skills that they own, and to those that they used, by how
well that went. Tools and scenarios are left out. With them communities are the scenarios, and to share one with a skill
says nothing of whom it suits; without them they are circles of people who do things alike, as the score needs them.

A new skill goes where its owner is, in far less than a millisecond. When enough has changed, the part that changed is
split again; a graph that was never split, or has doubled since, is split whole.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from agentfw_memory.errors import BadInputError
from agentfw_memory.graph.communities import Communities
from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.stores.interface import Store
from agentfw_memory.graph.vector_index import Integers, grown

__all__ = ["Membership"]

DRIFT = 0.1
"""Beyond this share of nodes in communities that have changed, these communities are split again."""


class Membership:
    """Which communities the nodes of one tenant are in."""

    def __init__(self, store: Store, settings: GraphSettings) -> None:
        self._store, self._settings = store, settings
        self._state = f"communities by {settings.communities}"
        self._communities = self._new()
        self._labels = np.full((0, len(settings.resolutions)), -1, np.int64)
        self._row = 0
        self._gone: set[int] = set()
        self._saved = True
        self._load()

    def together(self, user: int, skills: Integers) -> NDArray[np.float64]:
        """For each skill the share of levels on which it is in one community with a user."""
        if user >= len(self._labels):
            return np.zeros(len(skills))
        mine = self._labels[user]
        if mine[0] < 0:
            return np.zeros(len(skills))
        # A node beyond the end of the labels has none, as has the last place, which no node's number reaches.
        theirs = self._labels[np.minimum(skills, len(self._labels) - 1)]
        together: NDArray[np.int64] = np.count_nonzero(theirs == mine, axis=1)
        return together / len(mine)

    def of(self, node: int) -> tuple[int, ...]:
        """The communities of a node, from the widest; nothing for a node without one."""
        return self._communities.of(node)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many communities there are on each level."""
        known = self._labels[self._labels[:, 0] >= 0] if len(self._labels) else self._labels
        return tuple(len(np.unique(column)) for column in known.T) if len(known) else ()

    def catch_up(self, gone: Iterable[int] = ()) -> None:
        """Take in what is new in the store. `gone` are skills that aren't any more."""
        self._gone.update(number for number in gone if number in self._communities)
        fresh = list(islice(self._store.structure(self._row), len(self._communities) + 1))
        if len(fresh) > len(self._communities):
            self.split_all()
            return
        if fresh:
            self._take(fresh)
        if (fresh or self._gone) and (len(self._gone) > DRIFT * len(self._communities) or self._drifted()):
            self._communities.forget(self._gone)
            self._gone.clear()
            self._communities.refresh()
            self._read_labels()

    def split_all(self) -> None:
        """A full pass over the graph as it is in the store. Ids of communities stay as far as their members do."""
        ends, weights = [np.zeros((0, 2), np.int64)], [np.zeros(0)]
        rows = iter(self._store.structure())
        while batch := list(islice(rows, 50_000)):
            self._row = batch[-1][0]
            ends.append(np.array([(user, skill) for _, user, skill, _ in batch], np.int64))
            weights.append(np.array([weight for *_, weight in batch]))
        edges, weighed = np.concatenate(ends), np.concatenate(weights)
        self._communities.full(np.unique(edges), edges, weighed)
        self._gone.clear()
        self._read_labels()
        self._saved = False

    def save(self) -> None:
        """Keep it in the store, for the next process."""
        if self._saved:
            return
        self._communities.forget(self._gone)
        self._gone.clear()
        buffer = io.BytesIO()
        arrays: dict[str, Any] = {**self._communities.to_state(), "row": np.array(self._row)}
        np.savez(buffer, allow_pickle=False, **arrays)
        with self._store.writing() as change:
            self._store.save_state(change, self._state, buffer.getvalue())
        self._saved = True

    # Within

    def _new(self) -> Communities:
        settings = self._settings
        return Communities(settings.resolutions, method=settings.communities, seed=settings.seed)

    def _load(self) -> None:
        kept = self._store.state(self._state)
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
        except (BadInputError, EOFError, KeyError, OSError, ValueError, zipfile.BadZipFile):
            return  # what can't be read is counted again

    def _take(self, edges: list[tuple[int, int, int, float]]) -> None:
        known = self._communities
        owned: dict[int, dict[int, float]] = {}
        for _, user, skill, weight in edges:
            if skill in known and user in known:
                known.connect(skill, user, weight)
            elif skill in known:
                self._add(user, {skill: weight})
            else:
                around = owned.setdefault(skill, {})
                around[user] = around.get(user, 0.0) + weight
        for skill, around in owned.items():
            self._add(skill, {user: weight for user, weight in around.items() if user in known})
            for user, weight in around.items():
                if user not in known:
                    self._add(user, {skill: weight})
        self._row = edges[-1][0]
        self._saved = False

    def _add(self, node: int, around: dict[int, float]) -> None:
        found = self._communities.add(node, around)
        if node + 1 >= len(self._labels):
            old = len(self._labels)
            self._labels = grown(self._labels, node + 2)
            self._labels[old:] = -1
        self._labels[node] = found

    def _drifted(self) -> bool:
        return self._communities.drift > DRIFT

    def _read_labels(self) -> None:
        state = self._communities.to_state()
        nodes = state["nodes"]
        room = int(nodes.max()) + 2 if len(nodes) else 0
        self._labels = np.full((room, len(self._settings.resolutions)), -1, np.int64)
        self._labels[nodes] = state["labels"].T
