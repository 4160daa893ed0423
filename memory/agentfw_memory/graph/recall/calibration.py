"""How much each term of the graph can tell apart on this graph, from 0 (nothing) to 1.

The terms of user and community say what helps a person, so they count as far as the rewards of uses bear them out. Each
use is judged by the terms before it: a community that a use has made says nothing about that use. Where nobody has used
anything yet, they count for nothing. The term of neighbours says that what was said one after the other belongs
together, so it counts as far as such skills are more similar than any two are. With few pairs, it is believed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..graph_settings import GraphSettings
from ..index.vector_index import products
from ..records import Floats, Integers, Use
from .graph_cache import GraphCache, drawn

SAMPLE = 256  # number of skills that are compared
FULL = 0.25  # difference, in standard deviations, from which a term counts fully: between a small and a medium effect
CHANCE = 3.0  # number of standard errors below which a difference is taken for chance
BELIEVED = 30  # number of pairs or uses at which what was measured counts half
SAME = 1e-9  # standard deviation below which values differ by rounding only


@dataclass(frozen=True, slots=True)
class Trust:
    """The share of its weight that each term counts with."""

    user: float = 1.0
    community: float = 1.0
    neighbours: float = 1.0


TRUSTED = Trust()
Together = Callable[[int, Integers], Floats]
"""Returns of a user and some skills the share of communities that each skill has in common with the user."""


def uses_before(
    cache: GraphCache, together: Floats | None, trajectory: int, user: int, skills: Integers, reward: float
) -> list[Use]:
    """Return what a trajectory used, with the terms of user and community as they are before it is learned."""
    person = cache.user_vector(user)
    alike = None if person is None else products(cache.vectors(skills), person)
    terms = ([None] * len(skills) if term is None else term.tolist() for term in (alike, together))
    return [Use(trajectory, user, skill, reward, *of) for skill, *of in zip(skills.tolist(), *terms, strict=True)]


def calibrated(cache: GraphCache, settings: GraphSettings, sample: Integers | None = None) -> Trust:
    """Check each claim on a sample of the skills, or on the trajectories of the graph."""
    sample = drawn(np.flatnonzero(cache.live), SAMPLE) if sample is None else sample
    live = [use for use in cache.uses if use.skill < len(cache.live) and cache.live[use.skill]]
    of_others = [use for use in live if cache.owner[use.skill] != use.user]
    return Trust(
        user=_by_uses([(use, use.user_term) for use in of_others]),
        community=_by_uses([(use, use.community_term) for use in of_others]) if settings.community_weight else 0.0,
        neighbours=_by_texts(cache, sample) if len(sample) > 1 else 1.0,
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
    return (BELIEVED + pairs * _share(effect)) / (BELIEVED + pairs)


def _by_uses(uses: Sequence[tuple[Use, float | None]]) -> float:
    """Return how well a term told beforehand how successful a person would be with what they used of others. Only
    differences within a person count: some people are easier to please than others."""
    by_user: dict[int, list[tuple[int, float, float]]] = defaultdict(list)
    for use, value in uses:
        if value is not None:
            by_user[use.user].append((use.trajectory, value, use.reward))
    parts = [np.array(some) for some in by_user.values() if len(some) > 1]
    if not parts:
        return 0.0
    values, rewards = (np.concatenate([part[:, one] - part[:, one].mean() for part in parts]) for one in (1, 2))
    # The uses of one trajectory share its reward, so they are one observation.
    seen = sum(len(np.unique(part[:, 0])) - 1 for part in parts)
    if seen < 1 or min(values.std(), rewards.std()) < SAME:
        return 0.0
    # The difference in reward between the half with higher and that with lower values, in standard deviations, is about
    # twice a correlation, whose standard error is one over the root of their number. What may be chance counts as none.
    effect, chance = 2.0 * float(np.corrcoef(values, rewards)[0, 1]), CHANCE * 2.0 / seen**0.5
    if effect <= 0.0:
        return 0.0
    return _share(effect * max(0.0, 1.0 - (chance / effect) ** 2)) * seen / (BELIEVED + seen)


def _share(effect: float) -> float:
    return min(max(effect / FULL, 0.0), 1.0)
