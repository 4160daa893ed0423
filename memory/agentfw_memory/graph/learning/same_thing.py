"""Finds what was said before about the same thing as a new saying, by the same person or shared by another.

A saying that is called a correction is about the most similar older one, or about the one just before it in its
conversation. Any other saying is about an older one only if both are nearly the same text. Both are kept. They share a
node, by which the newer one comes first and the older one is marked.
"""

from __future__ import annotations

import numpy as np

from agentfw_memory.graph.arrays import Float32Array
from agentfw_memory.graph.recall.newest_first import EVERY_ANSWER
from agentfw_memory.graph.recall.recall import Recaller
from agentfw_memory.graph.rows.graph_rows import GraphRows
from agentfw_memory.graph.rows.row_types import EdgeRow
from agentfw_memory.graph.stores.store import Change

NEARLY_THE_SAME = 0.85
"""Similarity from which on two sayings are about the same thing though neither is called a correction."""
CORRECTED = 0.45
"""Minimum similarity of a correction to what it corrects, unless that was said just before."""


class SameThing:
    """What is about the same thing, for one tenant."""

    def __init__(self, rows: GraphRows, recaller: Recaller) -> None:
        self._rows, self._recaller = rows, recaller

    def older(self, owner: str, vector: Float32Array, corrects: bool, just_before: list[int]) -> int | None:
        """Return the older skill that a new saying is about."""
        user, cache = self._rows.find("user", owner), self._recaller.cache
        shared = np.flatnonzero(cache.live & cache.shared[: len(cache.live)])
        known = np.union1d(shared, np.array(sorted(cache.owned.get(user, ())) if user is not None else [], np.int64))
        if len(known):
            (nearest,), (similarity,) = cache.index.among(vector, 1, known)
            said = "case" not in self._rows.metadata([int(nearest)]).get(int(nearest), {})
            if said and similarity >= (CORRECTED if corrects else NEARLY_THE_SAME):
                return int(nearest)
        return just_before[-1] if corrects and just_before else None

    def connect(self, change: Change, owner: str, older: int, newer: int) -> None:
        """Let two skills state the same."""
        known = [name for name, _ in self._rows.facts([older]) if not name.endswith(EVERY_ANSWER)]
        name = known[0] if known else f"{owner.casefold()}: s{older}"
        node = self._rows.nodes(change, "fact", [name])[name]
        self._rows.add_edges(change, [EdgeRow("STATES", one, node) for one in (older, newer)])
        self._rows.touch(change, [older, newer])
