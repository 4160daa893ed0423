"""How much each term of the graph can tell apart on this graph, from 0 (nothing) to 1.

A term is a claim: skills of one owner belong together, those of one community do, those that came one after the other
do. Each claim is checked in two ways that need nobody's judgement, and the better one counts:

- If it is true, related skills are more similar to each other than any two skills are. If owners are noise, they
  aren't.
- If it is true, people were more successful with the skills that the term prefers for them. The rewards of the
  trajectories say so.

With few pairs of skills to look at, a claim is believed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from agentfw_memory.graph.arrays import Floats, Integers
from agentfw_memory.graph.communities.membership import Membership
from agentfw_memory.graph.index.vector_index import products
from agentfw_memory.graph.recall.graph_cache import GraphCache

__all__ = ["TRUSTED", "Trust", "calibrated"]

SAMPLE = 256
"""Number of skills that are compared."""
FULL = 0.25
"""Difference, in standard deviations, from which a term counts fully: between a small and a medium effect."""
BELIEVED = 30
"""Number of pairs or uses at which what was measured counts half."""


@dataclass(frozen=True, slots=True)
class Trust:
    """The share of its weight that each term counts with."""

    user: float = 1.0
    community: float = 1.0
    neighbours: float = 1.0


TRUSTED = Trust()


def calibrated(cache: GraphCache, membership: Membership | None) -> Trust:
    """Check each claim on the skills and trajectories of the graph."""
    sample = cache.sample(SAMPLE)
    if len(sample) < 2:
        return TRUSTED
    vectors, owners = cache.vectors(sample), cache.owner[sample]
    alike = np.asarray(vectors @ vectors.T, np.float64)
    others = ~np.eye(len(sample), dtype=np.bool_)
    mean, deviation = float(alike[others].mean()), float(alike[others].std()) or 1.0

    def by_texts(similarity: Floats, weight: Floats) -> float:
        """Compare the similarity of related pairs, weighted by how related they are, with that of all pairs."""
        pairs = float(weight.sum())
        effect = (float((similarity * weight).sum()) / pairs - mean) / deviation if pairs else 0.0
        return (BELIEVED + pairs * _share(effect)) / (BELIEVED + pairs)

    one_owner = ((owners[:, np.newaxis] == owners) & others).astype(np.float64)
    one_community = np.zeros(alike.shape)
    if membership is not None:
        rows = {owner: membership.together(owner, sample) for owner in dict.fromkeys(owners.tolist())}
        one_community = np.array([rows[owner] for owner in owners.tolist()]) * others
    sequence = np.array(
        [
            (number, other)
            for number, owner in zip(sample.tolist(), owners.tolist(), strict=True)
            for other in cache.around(number, owner)
        ],
        np.int64,
    ).reshape(-1, 2)
    in_sequence = np.einsum("ij,ij->i", *(cache.vectors(column) for column in sequence.T)).astype(np.float64)

    def similarity_to(user: int, skills: Integers) -> Floats:
        person = cache.user_vector(user)
        return np.zeros(len(skills)) if person is None else products(cache.vectors(skills), person).astype(np.float64)

    return Trust(
        user=max(by_texts(alike, one_owner), _by_uses(cache, similarity_to)),
        community=max(
            by_texts(alike, one_community), 0.0 if membership is None else _by_uses(cache, membership.together)
        ),
        neighbours=by_texts(in_sequence, np.ones(len(in_sequence))),
    )


def _by_uses(cache: GraphCache, term: Callable[[int, Integers], Floats]) -> float:
    """Return how well a term predicts the rewards of what people used of others."""
    by_user: dict[int, list[tuple[int, float]]] = {}
    for user, skill, reward in cache.connections.uses:
        if skill < len(cache.live) and cache.live[skill] and cache.owner[skill] != user:
            by_user.setdefault(user, []).append((skill, reward))
    if not by_user:
        return 0.0
    values = np.concatenate([term(user, np.array([skill for skill, _ in some])) for user, some in by_user.items()])
    rewards = np.array([reward for some in by_user.values() for _, reward in some])
    if not values.std() or not rewards.std():
        return 0.0
    # Twice a correlation is about the difference between the better and the worse half, in standard deviations.
    effect = 2.0 * float(np.corrcoef(values, rewards)[0, 1])
    return _share(effect) * len(values) / (BELIEVED + len(values))


def _share(effect: float) -> float:
    return min(max(effect / FULL, 0.0), 1.0)
