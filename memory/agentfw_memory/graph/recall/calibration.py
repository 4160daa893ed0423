"""How much each term of the graph can tell apart on this graph, from 0 (nothing) to 1.

A term is a claim, and what the claim is about decides how it is checked, without anybody's judgement:

- The terms of user and community say what helps a person, whatever they ask. If that is true, people were more
  successful with the skills that a term prefers for them, and the rewards of the trajectories say so. Where nobody has
  used anything yet, these terms count for nothing: a person with many notes may well ask for something else. Only the
  user term of somebody with a profile counts always.
- The term of complements says that what was used together before helps together again. If that is true, people were
  more successful with a skill of others beside one that it complemented by then. What many have used has many
  complements, whether it suits anybody or not, and would come before a person's own wishes. With few uses to look at,
  it is believed.
- The term of neighbours says that what was said one after the other belongs together. If that is true, such skills are
  more similar to each other than any two are. With few pairs to look at, it is believed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Protocol

import numpy as np

from agentfw_memory.graph.arrays import Floats, Integers
from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.index.vector_index import products
from agentfw_memory.graph.recall.graph_cache import GraphCache

__all__ = ["SAMPLE", "TRUSTED", "Together", "Trust", "calibrated"]

SAMPLE = 256
"""Number of skills that are compared."""
FULL = 0.25
"""Difference, in standard deviations, from which a term counts fully: between a small and a medium effect."""
BELIEVED = 30
"""Number of pairs or uses at which what was measured counts half."""
SAME = 1e-9
"""Standard deviation below which values differ by rounding only."""


@dataclass(frozen=True, slots=True)
class Trust:
    """The share of its weight that each term counts with."""

    user: float = 1.0
    community: float = 1.0
    neighbours: float = 1.0
    complements: float = 1.0


TRUSTED = Trust()


class Together(Protocol):
    """Says how close users and skills are, as `Membership` does."""

    def together(self, user: int, skills: Integers) -> Floats: ...


def calibrated(
    cache: GraphCache, membership: Together | None, settings: GraphSettings, sample: Integers | None = None
) -> Trust:
    """Check each claim on a sample of the skills, or on the trajectories of the graph."""
    sample = cache.sample(SAMPLE) if sample is None else sample

    def similarity_to(user: int, skills: Integers) -> Floats:
        person = cache.user_vector(user)
        return np.zeros(len(skills)) if person is None else products(cache.vectors(skills), person).astype(np.float64)

    return Trust(
        user=_by_uses(cache, similarity_to),
        community=0.0 if membership is None else _by_uses(cache, membership.together),
        neighbours=_by_texts(cache, sample) if len(sample) > 1 else 1.0,
        complements=_by_pairs(cache, settings),
    )


def _by_texts(cache: GraphCache, sample: Integers) -> float:
    """Return how much more similar neighbours are than any two skills are."""
    vectors, owners = cache.vectors(sample), cache.owner[sample]
    alike = np.asarray(vectors @ vectors.T, np.float64)[~np.eye(len(sample), dtype=np.bool_)]
    around = np.empty((len(sample), 2), np.int64)
    for owner in set(owners.tolist()):
        around[owners == owner] = cache.around(sample[owners == owner], owner)
    there = around >= 0
    pairs = int(there.sum())
    if not pairs:
        return 1.0
    ones, others = cache.vectors(np.repeat(sample, there.sum(1))), cache.vectors(around[there])
    similar = float(np.einsum("ij,ij->i", ones, others).mean())
    effect = (similar - float(alike.mean())) / (float(alike.std()) or 1.0)
    return _believed(effect, pairs)


def _by_uses(cache: GraphCache, term: Callable[[int, Integers], Floats]) -> float:
    """Return how well a term predicts the rewards of what people used of others."""
    by_user: dict[int, list[tuple[int, float]]] = {}
    for _, user, skill, reward in cache.connections.uses:
        if _of_others(cache, user, skill):
            by_user.setdefault(user, []).append((skill, reward))
    if not by_user:
        return 0.0
    values = np.concatenate([term(user, np.array([skill for skill, _ in some])) for user, some in by_user.items()])
    rewards = np.array([reward for some in by_user.values() for _, reward in some])
    return _share(_effect(values, rewards)) * len(values) / (BELIEVED + len(values))


def _by_pairs(cache: GraphCache, settings: GraphSettings) -> float:
    """Return how well complements, as they were known before a use, predict its reward."""
    together: Counter[tuple[int, int]] = Counter()
    values: list[float] = []
    rewards: list[float] = []
    for _, uses in groupby(cache.connections.uses, key=lambda use: use[0]):
        skills = {skill: (user, reward) for _, user, skill, reward in uses}
        pairs = list(combinations(sorted(skills), 2))
        known = {one for pair in pairs if together[pair] >= settings.complement_after for one in pair}
        for skill, (user, reward) in skills.items():
            if _of_others(cache, user, skill):
                values.append(float(skill in known))
                rewards.append(reward)
        together.update(pair for pair in pairs if skills[pair[0]][1] >= settings.learn_from)
    return _believed(_effect(np.array(values), np.array(rewards)), len(values))


def _of_others(cache: GraphCache, user: int, skill: int) -> bool:
    return bool(skill < len(cache.live) and cache.live[skill] and cache.owner[skill] != user)


def _effect(values: Floats, rewards: Floats) -> float:
    """Return the difference in reward between the half with higher and that with lower values, in deviations."""
    if not len(values) or min(values.std(), rewards.std()) < SAME:
        return 0.0
    # Twice a correlation is about that.
    return 2.0 * float(np.corrcoef(values, rewards)[0, 1])


def _believed(effect: float, count: int) -> float:
    """Return the share of an effect that is believed until there are observations."""
    return (BELIEVED + count * _share(effect)) / (BELIEVED + count)


def _share(effect: float) -> float:
    return min(max(effect / FULL, 0.0), 1.0)
