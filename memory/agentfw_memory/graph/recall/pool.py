"""The skills that a recall looks at: candidates by similarity, and what is connected to them.

Hundreds of skills are connected to the candidates and few are recalled, so they are kept as arrays.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from agentfw_memory.graph.arrays import Bools, Integers
from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.recall.graph_cache import GraphCache

__all__ = ["Found", "Neighbours", "Pool", "connected"]

CONNECTIONS = ("complement", "trajectory", "time", "scenario", "owner")
"""How a skill may be connected to a candidate."""


@dataclass(frozen=True, slots=True)
class Found:
    """How a skill that isn't a candidate was found: through which candidate, and how the two are connected."""

    candidate: int
    connection: str


@dataclass(frozen=True, slots=True)
class Pool:
    """The skills that may be recalled: the candidates, followed by what is connected to them."""

    numbers: Integers
    through: Integers
    """By skill: the place of the candidate that it was found through, or -1 for a candidate."""
    connections: Integers
    """By skill: the place in CONNECTIONS of how the two are connected."""

    def found(self, place: int) -> Found | None:
        """Return how the skill at a place was found."""
        through = int(self.through[place])
        return Found(int(self.numbers[through]), CONNECTIONS[self.connections[place]]) if through >= 0 else None


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Candidates and the skills just before and after them, as places in one array of skills."""

    candidates: Integers
    others: Integers
    outside: Bools
    """Which of the others aren't candidates."""

    @classmethod
    def of(cls, everything: Integers, candidates: Integers, around: Sequence[Sequence[int]]) -> Neighbours:
        """Find the skills around each candidate in `everything`, which begins with the candidates."""
        order = np.argsort(everything)
        flat = np.array([other for others in around for other in others], np.int64)
        others = order[np.searchsorted(everything, flat, sorter=order)]
        sizes = [len(some) for some in around]
        return cls(np.repeat(np.arange(len(sizes)), sizes), others, others >= len(candidates))


def connected(
    cache: GraphCache,
    candidates: Integers,
    around: Sequence[Sequence[int]],
    user: int | None,
    settings: GraphSettings,
) -> Pool:
    """Return the candidates, and the skills that are connected to them: each once, by its first connection."""
    groups: list[tuple[int, str, Collection[int]]] = []
    first = candidates.tolist() if settings.siblings else []
    if settings.second_hop == "owner":
        groups = [(place, "owner", cache.siblings(int(cache.owner[one]), user)) for place, one in enumerate(first)]
    else:
        for place, number in enumerate(first):
            if related := cache.complements.get(number):
                groups.append((place, "complement", _visible(cache, related, user)))
            if used := cache.connections.used_with(number):
                groups.append((place, "trajectory", _visible(cache, used, user)))
            if around:
                groups.append((place, "time", around[place]))
        seen: set[int] = set()
        for place, number in enumerate(first):
            for scenario in sorted(cache.connections.scenarios.get(number, set()) - seen):
                groups.append((place, "scenario", cache.mates(scenario, user)))
                seen.add(scenario)
    numbers = np.concatenate([candidates, *(np.asarray(others, np.int64) for *_, others in groups)])
    sizes = [len(candidates), *(len(others) for *_, others in groups)]
    places = np.sort(np.unique(numbers, return_index=True)[1])
    through = np.repeat([-1, *(place for place, *_ in groups)], sizes)
    connections = np.repeat([0, *(CONNECTIONS.index(connection) for _, connection, _ in groups)], sizes)
    return Pool(numbers[places], through[places], connections[places])


def _visible(cache: GraphCache, skills: Collection[int], user: int | None) -> list[int]:
    numbers = np.array([skill for skill in skills if skill < len(cache.live) and cache.live[skill]], np.int64)
    found: list[int] = numbers[cache.visible_to(user, numbers)].tolist()
    return found
