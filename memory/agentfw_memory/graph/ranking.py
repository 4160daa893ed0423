"""Which skills fit a query and a user: candidates by likeness, their siblings by the graph, and one score for all.

The one rule: nobody is ranked who may not be seen. Candidates are searched among what is visible, and siblings are
taken from what is visible of their owner; nothing is filtered out afterwards.

The score is formula (55) of the parpo-psgm paper, with the weights of `GraphSettings`:

    query_weight * likeness of query and skill + user_weight * likeness of user and skill
    + community_weight * share of levels on which both are in one community
    + complement_boost where a candidate complements it - conflict_weight where a candidate contradicts it

The paper reads the conflict term off the candidates (`conflicts_with="candidates"`). Here it is read off what was
already chosen, so that of two skills that contradict each other the better one isn't held back by the other.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from agentfw_memory.graph.bm25 import Words
from agentfw_memory.graph.community_membership import Membership
from agentfw_memory.graph.graph_cache import View
from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.stores.interface import Float32Array
from agentfw_memory.graph.vector_index import Integers, products

__all__ = ["Likeness", "Ranked", "VectorLikeness", "WordLikeness", "rank"]

Floats = NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A skill's number, its score, the five terms of it before they are weighted, and how it was found."""

    number: int
    score: float
    terms: tuple[float, float, float, float, float]
    found_by: int | None
    """The candidate whose owner has it too; None for a candidate itself."""


class Likeness(Protocol):
    """How like a query skills are."""

    def best(self, k: int) -> Integers:
        """The k skills most like the query, of those that the user may see."""

    def of(self, numbers: Integers, vectors: Float32Array) -> Floats: ...


class VectorLikeness:
    """By the product of vectors."""

    def __init__(self, view: View, query: Float32Array, user: int | None) -> None:
        self._view, self._query, self._user = view, query, user

    def best(self, k: int) -> Integers:
        return self._view.shelves.search(self._query, k, self._view.private_to(self._user))[0]

    def of(self, numbers: Integers, vectors: Float32Array) -> Floats:
        return products(vectors, self._query)


class WordLikeness:
    """By the words in common."""

    def __init__(self, words: Words[int], query: str, view: View, user: int | None) -> None:
        self._scores = words.scores(query, _Allowed(view, user))

    def best(self, k: int) -> Integers:
        order = sorted(self._scores, key=lambda number: (-self._scores[number], number))
        return np.array(order[:k], np.int64)

    def of(self, numbers: Integers, vectors: Float32Array) -> Floats:
        return np.array([self._scores.get(number, 0.0) for number in numbers.tolist()])


def rank(
    view: View, membership: Membership | None, likeness: Likeness, settings: GraphSettings, *, user: int | None, k: int
) -> list[Ranked]:
    """The k skills of the highest score, the highest first."""
    wanted = max(settings.candidates, k) if settings.candidates else 0
    candidates = likeness.best(wanted) if wanted else np.zeros(0, np.int64)
    if not len(candidates):
        return []
    pool = _with_siblings(view, candidates, user) if settings.siblings else candidates
    vectors = view.vectors(pool)
    by_query = likeness.of(pool, vectors)
    person = view.user_vector(user) if user is not None else None
    by_user = np.zeros(len(pool)) if person is None else products(vectors, person)
    together = np.zeros(len(pool)) if membership is None or user is None else membership.together(user, pool)
    complements = _related(view.partners, candidates, pool)
    score = (
        settings.query_weight * by_query
        + settings.user_weight * by_user
        + settings.community_weight * together
        + settings.complement_boost * complements
    )
    if settings.conflicts_with == "candidates":
        conflicts = _related(view.rivals, candidates, pool)
        score = score - settings.conflict_weight * conflicts
        best = np.lexsort((pool, -by_query, -score))[:k]
    else:
        best, conflicts = _chosen(view, pool, by_query, score, settings.conflict_weight, k)
        score = score - settings.conflict_weight * conflicts
    first = set(candidates.tolist())
    by_owner = {int(view.owner[number]): number for number in reversed(candidates.tolist())}
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
            None if number in first else by_owner[int(view.owner[number])],
        )
        for place in best.tolist()
    ]


def _with_siblings(view: View, candidates: Integers, user: int | None) -> Integers:
    """The candidates, and after them the other skills of their owners."""
    owners = dict.fromkeys(view.owner[candidates].tolist())
    first = dict.fromkeys(candidates.tolist())
    for owner in owners:
        first.update(dict.fromkeys(view.siblings(owner, user)))
    return np.fromiter(first, np.int64, len(first))


def _related(relation: Mapping[int, Iterable[int]], candidates: Integers, pool: Integers) -> Floats:
    """1 for each of the pool that a candidate is related to, else 0."""
    found = np.zeros(len(pool))
    if relation:
        others = {other for number in candidates.tolist() for other in relation.get(number, ())}
        if others:
            found[:] = [number in others for number in pool.tolist()]
    return found


def _chosen(
    view: View, pool: Integers, by_query: Floats, score: Floats, penalty: float, k: int
) -> tuple[Integers, Floats]:
    """Take one after the other, each time the best of what is left, less what it contradicts."""
    conflicts, numbers = np.zeros(len(pool)), pool.tolist()
    if not any(number in view.rivals for number in numbers):
        return np.lexsort((pool, -by_query, -score))[:k], conflicts
    places = {number: place for place, number in enumerate(numbers)}
    queue = [(-worth, -like, number, 0.0) for worth, like, number in zip(score, by_query, numbers, strict=True)]
    heapq.heapify(queue)
    chosen: list[int] = []
    while queue and len(chosen) < k:
        _, _, number, lessened = heapq.heappop(queue)
        place = places[number]
        if lessened != conflicts[place]:
            continue  # it is in the queue once more, for what it is worth now
        chosen.append(place)
        for rival in view.rivals.get(number, ()):
            other = places.get(rival)
            if other is not None and other not in chosen and not conflicts[other]:
                conflicts[other] = 1.0
                heapq.heappush(queue, (penalty - score[other], -by_query[other], rival, 1.0))
    return np.array(chosen, np.int64), conflicts


class _Allowed:
    """What a user may see, as something that a number may be in."""

    def __init__(self, view: View, user: int | None) -> None:
        self._view, self._user = view, user

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and bool(self._view.seen_by(self._user, np.array(number)))
