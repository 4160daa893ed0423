"""How much each term of the graph can tell apart on this graph, from 0 (nothing) to 1.

A term is a claim: skills of one owner belong together, those of one community do, those that came one after the other
do. Each claim can be checked without asking anybody. If it is true, related skills are more similar to each other
than any two skills are. If owners are noise, they are not, and the term counts for nothing.

The check compares pairs out of a sample of skills. With few pairs, the claim is believed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentfw_memory.graph.arrays import Floats, Integers
from agentfw_memory.graph.community_membership import Membership
from agentfw_memory.graph.graph_cache import GraphCache

__all__ = ["TRUSTED", "Trust", "calibrated"]

SAMPLE = 256
"""Number of skills that are compared."""
FULL = 0.5
"""Difference, in standard deviations, at which a term counts fully: a medium effect."""
BELIEVED = 30
"""Number of pairs that outweigh the belief in a claim."""


@dataclass(frozen=True, slots=True)
class Trust:
    """The share of its weight that each term counts with."""

    user: float = 1.0
    community: float = 1.0
    neighbours: float = 1.0


TRUSTED = Trust()


def calibrated(cache: GraphCache, membership: Membership | None) -> Trust:
    """Measure each claim on the skills of the graph."""
    sample = cache.sample(SAMPLE)
    if len(sample) < 2:
        return TRUSTED
    vectors = cache.vectors(sample)
    alike = np.asarray(vectors @ vectors.T, np.float64)
    others = ~np.eye(len(sample), dtype=np.bool_)
    mean, deviation = float(alike[others].mean()), float(alike[others].std()) or 1.0
    owners = cache.owner[sample]
    same = (owners[:, np.newaxis] == owners) & others
    together = np.zeros(alike.shape) if membership is None else _together(membership, owners, sample) * others
    pairs = np.array(
        [
            (number, other)
            for number, owner in zip(sample.tolist(), owners.tolist(), strict=True)
            for other in cache.around(number, owner)
        ],
        np.int64,
    ).reshape(-1, 2)
    side_by_side = np.einsum("ij,ij->i", cache.vectors(pairs[:, 0]), cache.vectors(pairs[:, 1])) if len(pairs) else []

    def trust(total: float, weight: float) -> float:
        """Return the trust in a claim, from the sum of the similarities of related pairs and their number."""
        if not weight:
            return 1.0
        measured = min(max((total / weight - mean) / deviation / FULL, 0.0), 1.0)
        return (BELIEVED + weight * measured) / (BELIEVED + weight)

    return Trust(
        user=trust(float(alike[same].sum()), float(same.sum())),
        community=trust(float((alike * together).sum()), float(together.sum())),
        neighbours=trust(float(np.sum(side_by_side)), float(len(pairs))),
    )


def _together(membership: Membership, owners: Integers, sample: Integers) -> Floats:
    """Return the share of levels on which the owner of each skill is in one community with each other skill."""
    rows = {owner: membership.together(owner, sample) for owner in dict.fromkeys(owners.tolist())}
    return np.array([rows[owner] for owner in owners.tolist()])
