"""The skills that a recall looks at: candidates by similarity, and what is connected to them.

Hundreds of skills are connected to the candidates and few are recalled, so they are kept as arrays.
"""

from __future__ import annotations

from collections.abc import Collection
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

    everything: Integers
    """The pool, which begins with the candidates, and the neighbours that aren't in it."""
    candidates: Integers
    others: Integers
    outside: Bools
    """Which of the others aren't candidates."""

    @classmethod
    def of(cls, cache: GraphCache, pool: Integers, around: Integers) -> Neighbours:
        """Take the skills around each candidate, or -1 for none, to those of the pool."""
        there = around >= 0
        numbers = np.concatenate([pool, around[there]])
        firsts = cache.first_places(numbers)
        once = firsts == np.arange(len(numbers))
        others = (np.cumsum(once) - 1)[firsts[len(pool) :]]
        return cls(numbers[once], np.repeat(np.arange(len(around)), there.sum(1)), others, others >= len(around))


def connected(
    cache: GraphCache, candidates: Integers, around: Integers, user: int | None, settings: GraphSettings
) -> Pool:
    """Return the candidates, and the skills that are connected to them: each once, by its first connection.

    `around` has the skills just before and after each candidate, or -1.
    """
    groups: list[tuple[int, str, Integers]] = []
    first = candidates.tolist() if settings.siblings else []
    if settings.second_hop == "owner":
        groups = [(place, "owner", cache.siblings(int(cache.owner[one]), user)) for place, one in enumerate(first)]
    else:
        times = [two[two >= 0] for two in around]
        for place, number in enumerate(first):
            if related := cache.complements.get(number):
                groups.append((place, "complement", _visible(cache, related, user)))
            if used := cache.connections.used_with(number):
                groups.append((place, "trajectory", _visible(cache, used, user)))
            if len(times[place]):
                groups.append((place, "time", times[place]))
        seen: set[int] = set()
        for place, number in enumerate(first):
            for scenario in sorted(cache.connections.scenarios.get(number, set()) - seen):
                groups.append((place, "scenario", cache.mates(scenario, user)))
                seen.add(scenario)
    numbers = np.concatenate([candidates, *(others for *_, others in groups)])
    sizes = [len(candidates), *(len(others) for *_, others in groups)]
    through = np.repeat([-1, *(place for place, *_ in groups)], sizes)
    connections = np.repeat([0, *(CONNECTIONS.index(connection) for _, connection, _ in groups)], sizes)
    once = np.flatnonzero(cache.first_places(numbers) == np.arange(len(numbers)))
    return Pool(numbers[once], through[once], connections[once])


def _visible(cache: GraphCache, skills: Collection[int], user: int | None) -> Integers:
    numbers = np.array([skill for skill in skills if skill < len(cache.live) and cache.live[skill]], np.int64)
    return numbers[cache.visible_to(user, numbers)]
