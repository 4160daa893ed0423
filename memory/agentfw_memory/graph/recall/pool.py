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
COMPLEMENT, TRAJECTORY, TIME, SCENARIO, OWNER = range(len(CONNECTIONS))


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

    @property
    def about_the_same(self) -> Bools:
        """Which skills were found through a scenario, a trajectory or a complement of a candidate."""
        same: Bools = (self.through >= 0) & (self.connections != TIME) & (self.connections != OWNER)
        return same

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
    first = candidates.tolist() if settings.siblings else []
    groups: list[tuple[int, int, Integers]] = []
    near: list[tuple[int, int, int]] = []
    if settings.second_hop == "owner":
        owners = cache.owner[candidates].tolist()
        groups = [(place, OWNER, cache.siblings(owners[place], user)) for place in range(len(first))]
    else:
        beside = around.tolist()
        for place, number in enumerate(first):
            if related := cache.complements.get(number):
                near += [(place, COMPLEMENT, other) for other in _visible(cache, related, user)]
            if used := cache.connections.used_with(number):
                near += [(place, TRAJECTORY, other) for other in _visible(cache, used, user)]
            near += [(place, TIME, other) for other in beside[place] if other >= 0]
        seen: set[int] = set()
        for place, number in enumerate(first):
            for scenario in sorted(cache.connections.scenarios.get(number, ())):
                if scenario not in seen:
                    groups.append((place, SCENARIO, cache.mates(scenario, user)))
                    seen.add(scenario)
    connections = np.array(near, np.int64).reshape(-1, 3).T
    places, kinds = np.array([(place, kind) for place, kind, _ in groups], np.int64).reshape(-1, 2).T
    sizes = [len(others) for *_, others in groups]
    numbers = np.concatenate([candidates, connections[2], *(others for *_, others in groups)])
    through = np.concatenate([np.full(len(candidates), -1), connections[0], np.repeat(places, sizes)])
    kinds = np.concatenate([np.zeros(len(candidates), np.int64), connections[1], np.repeat(kinds, sizes)])
    once = np.flatnonzero(cache.first_places(numbers) == np.arange(len(numbers)))
    return Pool(numbers[once], through[once], kinds[once])


def _visible(cache: GraphCache, skills: Collection[int], user: int | None) -> list[int]:
    numbers = np.array([skill for skill in skills if skill < len(cache.live) and cache.live[skill]], np.int64)
    found: list[int] = numbers[cache.visible_to(user, numbers)].tolist()
    return found
