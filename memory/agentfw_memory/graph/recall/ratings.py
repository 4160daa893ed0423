"""What users thought of the answers for which skills were shown to them, and what that changes for similar questions.

A skill that was shown for answers they didn't like counts less for such a question, and one that was shown for answers
they liked counts more. Every rating is one among others, so a wrong one is outweighed by later right ones. A user's
ratings count for their own questions only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from agentfw_memory.graph.recall.ranking import Ranked
from agentfw_memory.graph.text.words import terms

__all__ = ["Rating", "by_ratings"]

Rating = tuple[int, str, float]
"""A skill, the question that it was shown for, and the reward of the answer, from 0 to 1."""


def by_ratings(query: str, ranked: Sequence[Ranked], ratings: Iterable[Rating], weight: float) -> list[Ranked]:
    """Return skills in the order of their scores with the ratings, of which each has the weight of its similarity."""
    asked = frozenset(terms(query))
    sums: dict[int, tuple[float, float]] = {}
    for skill, question, reward in ratings:
        alike = _similarity(asked, frozenset(terms(question)))
        total, count = sums.get(skill, (0.0, 1.0))  # as if it had been neither liked nor disliked once
        sums[skill] = total + alike * (2.0 * min(1.0, max(0.0, reward)) - 1.0), count + alike
    if not sums:
        return list(ranked)
    return sorted((_rated(one, sums.get(one.number, (0.0, 1.0)), weight) for one in ranked), key=lambda one: -one.score)


def _rated(one: Ranked, rating: tuple[float, float], weight: float) -> Ranked:
    mean = rating[0] / rating[1]
    return replace(
        one,
        score=one.score + weight * mean,
        terms={**one.terms, "rating": mean},
        points={**one.points, "rating": weight * mean},
    )


def _similarity(one: frozenset[str], other: frozenset[str]) -> float:
    return float(len(one & other) / (len(one) * len(other)) ** 0.5) if one and other else 0.0
