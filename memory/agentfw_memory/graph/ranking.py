"""Ranks skills for a query and a user: candidates by similarity, their siblings in the graph, and one score for all.

Only skills that the user may see are ranked. Candidates are searched among them, siblings are taken from them, and
nothing is filtered out afterwards.

The score is formula (55) of the parpo-psgm paper, with the weights of `GraphSettings`:

    query_weight * similarity of query and skill + user_weight * similarity of user and skill
    + community_weight * share of levels on which both are in the same community
    + complement_boost if a candidate complements it - conflict_weight if a candidate contradicts it

In the paper the conflict term looks at the candidates (`conflicts_with="candidates"`). Here it looks at the skills
that were already selected, so that the better of two contradicting skills isn't held back by the other.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agentfw_memory.graph.arrays import Float32Array, Integers
from agentfw_memory.graph.bm25 import BM25Index
from agentfw_memory.graph.community_membership import Membership
from agentfw_memory.graph.graph_cache import GraphCache
from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.vector_index import products

__all__ = ["Ranked", "Similarity", "VectorSimilarity", "WordSimilarity", "rank"]

Scores = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A skill's number, its score, the five unweighted terms, and how it was found."""

    number: int
    score: float
    terms: tuple[float, float, float, float, float]
    found_by: int | None
    """The candidate of the same owner that led to it, or None for a candidate."""


class Similarity(Protocol):
    """The similarity of skills to one query."""

    def best(self, k: int) -> Integers:
        """Return the k most similar skills that the user may see."""

    def of(self, numbers: Integers, vectors: Float32Array) -> Scores:
        """Return the similarity of each of these skills."""


class VectorSimilarity:
    """Dot product of vectors."""

    def __init__(self, cache: GraphCache, query: Float32Array, user: int | None) -> None:
        self._cache, self._query, self._user = cache, query, user

    def best(self, k: int) -> Integers:
        return self._cache.index.search(self._query, k, self._cache.private_skills(self._user))[0]

    def of(self, numbers: Integers, vectors: Float32Array) -> Scores:
        return products(vectors, self._query)


class WordSimilarity:
    """BM25 over the words of the texts."""

    def __init__(self, words: BM25Index[int], query: str, cache: GraphCache, user: int | None) -> None:
        self._scores = words.scores(query, _VisibleSkills(cache, user))

    def best(self, k: int) -> Integers:
        order = sorted(self._scores, key=lambda number: (-self._scores[number], number))
        return np.array(order[:k], np.int64)

    def of(self, numbers: Integers, vectors: Float32Array) -> Scores:
        return np.array([self._scores.get(number, 0.0) for number in numbers.tolist()])


def rank(
    cache: GraphCache,
    membership: Membership | None,
    similarity: Similarity,
    settings: GraphSettings,
    *,
    user: int | None,
    k: int,
) -> list[Ranked]:
    """Return the k skills with the highest scores, highest first."""
    wanted = max(settings.candidates, k) if settings.candidates else 0
    candidates = similarity.best(wanted) if wanted else np.zeros(0, np.int64)
    if not len(candidates):
        return []
    pool = _with_siblings(cache, candidates, user) if settings.siblings else candidates
    vectors = cache.vectors(pool)
    by_query = similarity.of(pool, vectors)
    person = cache.user_vector(user) if user is not None else None
    by_user = np.zeros(len(pool)) if person is None else products(vectors, person)
    together = np.zeros(len(pool)) if membership is None or user is None else membership.together(user, pool)
    complements = _related(cache.complements, candidates, pool)
    score = (
        settings.query_weight * by_query
        + settings.user_weight * by_user
        + settings.community_weight * together
        + settings.complement_boost * complements
    )
    if settings.conflicts_with == "candidates":
        conflicts = _related(cache.conflicts, candidates, pool)
        score = score - settings.conflict_weight * conflicts
        best = np.lexsort((pool, -by_query, -score))[:k]
    else:
        best, conflicts = _selected(cache, pool, by_query, score, settings.conflict_weight, k)
        score = score - settings.conflict_weight * conflicts
    first = set(candidates.tolist())
    by_owner = {int(cache.owner[number]): number for number in reversed(candidates.tolist())}
    return [
        Ranked(
            number := int(pool[place]),
            float(score[place]),
            (
                float(by_query[place]),
                float(by_user[place]),
                float(together[place]),
                float(complements[place]),
                float(conflicts[place]),
            ),
            None if number in first else by_owner[int(cache.owner[number])],
        )
        for place in best.tolist()
    ]


def _with_siblings(cache: GraphCache, candidates: Integers, user: int | None) -> Integers:
    """Return the candidates, followed by other skills of their owners."""
    owners = dict.fromkeys(cache.owner[candidates].tolist())
    pool = dict.fromkeys(candidates.tolist())
    for owner in owners:
        pool.update(dict.fromkeys(cache.siblings(owner, user)))
    return np.fromiter(pool, np.int64, len(pool))


def _related(relation: Mapping[int, Iterable[int]], candidates: Integers, pool: Integers) -> Scores:
    """Return 1 for each skill of the pool that is related to a candidate, otherwise 0."""
    found = np.zeros(len(pool))
    if relation:
        others = {other for number in candidates.tolist() for other in relation.get(number, ())}
        if others:
            found[:] = [number in others for number in pool.tolist()]
    return found


def _selected(
    cache: GraphCache, pool: Integers, by_query: Scores, score: Scores, penalty: float, k: int
) -> tuple[Integers, Scores]:
    """Select greedily: the best remaining skill each time, less the penalty if it contradicts a selected one."""
    conflicts, numbers = np.zeros(len(pool)), pool.tolist()
    if not any(number in cache.conflicts for number in numbers):
        return np.lexsort((pool, -by_query, -score))[:k], conflicts
    places = {number: place for place, number in enumerate(numbers)}
    queue = [(-worth, -alike, number, 0.0) for worth, alike, number in zip(score, by_query, numbers, strict=True)]
    heapq.heapify(queue)
    selected: list[int] = []
    while queue and len(selected) < k:
        _, _, number, reduced = heapq.heappop(queue)
        place = places[number]
        if reduced != conflicts[place]:
            continue  # its reduced score is in the queue too
        selected.append(place)
        for rival in cache.conflicts.get(number, ()):
            other = places.get(rival)
            if other is not None and other not in selected and not conflicts[other]:
                conflicts[other] = 1.0
                heapq.heappush(queue, (penalty - score[other], -by_query[other], rival, 1.0))
    return np.array(selected, np.int64), conflicts


class _VisibleSkills:
    """The skills that a user may see, as a container."""

    def __init__(self, cache: GraphCache, user: int | None) -> None:
        self._cache, self._user = cache, user

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and bool(self._cache.visible_to(self._user, np.array(number)))
