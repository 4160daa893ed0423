"""Ranks skills for a query and a user: candidates by similarity, what is connected to them, and one score for all.

Only skills that the user may see are searched and connected, so nothing is filtered out afterwards. The score is
formula (55) of the parpo-psgm paper, with the weights of `GraphSettings`:

    query_weight * similarity of query and skill + user_weight * similarity of user and skill
    + community_weight * share of levels on which both are in the same community
    + complement_boost if a candidate complements it - conflict_weight if a candidate contradicts it

What differs from the paper is a setting (`GraphSettings.ablation("full")` turns it back), but for the communities,
which are made of users and skills alone (communities.py says why).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..graph_settings import GraphSettings
from ..index.vector_index import products
from ..records import Bools, Float32Array, Floats, Integers
from ..words import words
from .calibration import Together, Trust
from .graph_cache import GraphCache

if TYPE_CHECKING:
    from ..index.word_index import DatabaseQuestion, Question

Scores = NDArray[np.floating[Any]]

LOWEST, BY_EVIDENCE, BY_GAP = -8.14, 1.82, -2.02
"""How likely a skill is right, in log odds: at the lowest evidence, for its root, and for the logarithm of how far its
score is below the best one. Fitted to answers in conversations, documents and encyclopedias (docs/results)."""
NO_WORSE, UNRELATED = -10.0, 5.5
"""Evidence that is as bad as none, and that of the best skill at which a query is as likely as not unrelated to all of
them. Of unrelated ones it is around 0."""
STANDARD_DEVIATION = 0.02  # what a standard deviation of similarity adds to a score, by default
MEANT = 0.01  # the least relevance of a skill whose owner or subject the query names, and of each if there are few
ANSWERING = ("neighbours", "owner", "context")
"""Terms that say, beside similarity, whether a skill answers the query. The others say which skills suit the user."""
SHORT = 30.0
"""Number of terms up to which a text gets all that its neighbours add. A remark is understood from the remarks around
it, but a paragraph speaks for itself."""
SPREAD = 0.05  # what one standard deviation counts: about the standard deviation of cosines of unrelated sentences
KNOWN = 5.0  # what a word of the query that is known counts as evidence, in standard deviations
FEW = 20  # number of skills below which nobody can say what is usual, so that none is left out by default
ASSUMED_MEAN, ASSUMED_AS_OFTEN = 0.1, 8
"""What is assumed of the cosines of a graph with few skills, and the number of skills that outweigh it."""

Found = tuple[str, int] | None  # how a skill was found, and through which candidate, or None for a candidate itself
BESIDE, SIBLING = "just before or after s{candidate}", "same owner ({owner}) as s{candidate}"


@dataclass(frozen=True, slots=True)
class Asked:
    """One question."""

    query: str
    vector: Float32Array | None  # the query's, if skills are compared by vectors
    reader: int | None  # the user, or None for one who isn't in the store yet
    k: int
    at_least: float = 0.0  # the least relevance of a skill that is returned
    where: Mapping[str, Any] = field(default_factory=dict)  # what the metadata of a skill must be
    scenarios: tuple[int, ...] = ()
    tools: tuple[int, ...] = ()  # the scenarios and the tools that the caller names


@dataclass(slots=True)
class Similarity:
    """The similarity of skills to one query: by vectors and words together or, for the paper's ablations, by one.
    Cosines and BM25 scores have different scales, and a cosine of 0.6 means much with one embedder and nothing with
    another. So of both is counted how many standard deviations a skill is above the average skill that this user may
    see. The sum is scaled to the spread of a usual cosine, so that the weights of the other terms mean the same
    whichever similarity is chosen."""

    vector: Float32Array | None
    nearest: Callable[[int], Integers]
    """Returns up to so many skills with the most similar vectors, of those that the user may see."""
    question: Question | DatabaseQuestion | None  # the query by words
    cosines: Scores = field(default_factory=lambda: np.zeros(0))
    """Those of the query and of skills drawn from all that the user may see."""
    found_among: int = 0  # the number of skills that may be found
    vector_weight: float = 1.0
    stored: Integers | None = None  # the numbers in the store, where skills are numbered otherwise

    @property
    def few(self) -> bool:
        """Whether the user may see so few skills that none should be left out."""
        return self.vector is not None and self.question is not None and self.found_among < FEW

    def best(self, k: int) -> Integers:
        """Return the most similar skills that the user may see: k by each way of comparing."""
        found = [] if self.vector is None else [self.nearest(k)]
        found += [] if self.question is None else [self.question.best(k)]
        return np.fromiter(dict.fromkeys(np.concatenate(found).tolist()), np.int64)

    def of(self, numbers: Integers, vectors: Float32Array) -> dict[str, Scores]:
        """Return the similarity of each of these skills, by words and by vectors. The sum is the similarity."""
        found: dict[str, Scores] = {}
        question = self.question
        if question is not None:
            found["words"] = question.scores(numbers if self.stored is None else self.stored[numbers])
        if self.vector is not None:
            found["vectors"] = products(vectors, self.vector)
        if self.vector is not None and question is not None:
            # However much vectors count, the sum of both varies as much.
            weight = self.vector_weight
            spread = SPREAD * (2.0 / (1.0 + weight**2)) ** 0.5
            # Words that are in no visible skill, or in all of them, tell nothing apart.
            found["words"] = spread * (found["words"] - question.weights.mean) / (question.weights.deviation or 1.0)
            count = len(self.cosines) + ASSUMED_AS_OFTEN
            mean = (float(self.cosines.sum()) + ASSUMED_AS_OFTEN * ASSUMED_MEAN) / count
            squares = float(np.square(self.cosines - mean).sum()) + ASSUMED_AS_OFTEN * SPREAD**2
            found["vectors"] = weight * spread * (found["vectors"] - mean) / (squares / count) ** 0.5
        return found

    def lengths(self, numbers: Integers) -> Floats:
        """Return the number of terms of each of these skills, or 0 if texts aren't at hand."""
        if self.question is None:
            return np.zeros(len(numbers))
        return self.question.lengths(numbers if self.stored is None else self.stored[numbers])

    def evidence(self, similar: Scores) -> Scores:
        """Return how far such similarities are above those of unrelated skills, in standard deviations. By vectors
        alone nothing says what a cosine means, and by words alone only what has a word is found."""
        if self.vector is None or self.question is None:
            return np.full(len(similar), np.inf)
        # The more skills there are, the higher the best of them is by chance. A query of which no word is known has
        # only chance to go by.
        chance = math.sqrt(2.0 * math.log(max(self.found_among, 2)))
        return similar / SPREAD - chance + (KNOWN if self.question.weights.rarities else 0.0)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A skill's number, its score, the unweighted terms, and what each part adds to the score."""

    number: int
    score: float
    relevance: float
    terms: dict[str, float]
    points: dict[str, float]
    found: Found


def connected(
    cache: GraphCache,
    candidates: Integers,
    around: Integers,
    user: int | None,
    settings: GraphSettings,
    allowed: Bools | None = None,
) -> dict[int, Found]:
    """Return the candidates, and then the skills that are connected to them, each with its first connection. `around`
    has the skills just before and after each candidate, or -1. `allowed` says by number which skills may be
    returned."""
    first = candidates.tolist()
    found: dict[int, Found] = dict.fromkeys(first)
    for number, beside in zip(first, around.tolist(), strict=True) if settings.time_hop else ():
        for other in beside:
            if other >= 0:
                found.setdefault(other, (BESIDE, number))
    if settings.siblings:
        # The first candidate of each owner, in the order of the candidates.
        owners: dict[int, int] = {}
        for number, owner in zip(first, cache.owner[candidates].tolist(), strict=True):
            owners.setdefault(owner, number)
        for owner, number in owners.items():
            for other in cache.siblings(owner, user, settings.siblings).tolist():
                found.setdefault(other, (SIBLING, number))
    return found if allowed is None else {one: how for one, how in found.items() if allowed[one]}


def rank(
    cache: GraphCache,
    together: Together | None,
    candidates: Integers,
    similarity: Similarity,
    settings: GraphSettings,
    asked: Asked,
    trust: Trust,
    allowed: Bools | None = None,
    context: Mapping[int, float] | None = None,
) -> list[Ranked]:
    """Return the k skills with the highest scores, highest first, without those that are less relevant than asked.
    `context` is the share of the named scenario and tools that a skill is connected to."""
    user, k = asked.reader, asked.k
    if not len(candidates):
        return []
    beside = settings.neighbour_weight or settings.time_hop
    around = cache.around(candidates, user) if beside else np.empty((len(candidates), 0), np.int64)
    found = connected(cache, candidates, around, user, settings, allowed)
    pool = np.fromiter(found, np.int64)
    # Neighbours that aren't in the pool are looked at, too. The pool begins with the candidates.
    place_of = {number: place for place, number in enumerate(found)}
    pairs = [
        (place, place_of.setdefault(other, len(place_of)))
        for place, beside in enumerate(around.tolist())
        for other in beside
        if other >= 0
    ]
    everything = np.fromiter(place_of, np.int64)
    vectors = cache.vectors(everything)
    similar = similarity.of(everything, vectors)
    by_query = _total(similar.values(), len(vectors))
    person = cache.user_vector(user) if user is not None else None
    # A profile was written to be recalled by. That one's own skills say what one asks for has to show.
    user_trust = 1.0 if user is not None and cache.profile(user) is not None else trust.user
    none = np.zeros(len(pool))
    owners = cache.named(words(asked.query)) if settings.owner_weight else ()
    brevity = np.minimum(1.0, SHORT / np.maximum(similarity.lengths(pool), 1.0))
    terms: dict[str, Scores] = {
        "query": by_query[: len(pool)],
        "user": none if person is None else products(vectors[: len(pool)], person),
        "community": none if together is None or user is None else together(user, pool),
        "neighbours": _sums(by_query, pairs, len(candidates))[: len(pool)] * brevity,
        "owner": np.isin(cache.owner[pool], owners).astype(np.float64) if owners else none,
        "context": np.array([context.get(one, 0.0) for one in pool.tolist()]) if context else none,
        "complement": _related(cache.complements, candidates, pool) if cache.complements else none,
    }
    weights = {
        "user": settings.user_weight * user_trust,
        "community": settings.community_weight * trust.community,
        "neighbours": settings.query_weight * settings.neighbour_weight * trust.neighbours,
        "owner": settings.owner_weight,
        "context": settings.context_weight,
        "complement": settings.complement_boost,
    }
    points = {name: settings.query_weight * values[: len(pool)] for name, values in similar.items()}
    points |= {name: none if terms[name] is none else weight * terms[name] for name, weight in weights.items()}
    score = _total((values for values in points.values() if values is not none), len(pool))
    meant = np.full(len(pool), similarity.few)
    for name in ("owner", "context"):
        if terms[name] is not none:
            meant |= terms[name] > 0.0
    # A skill isn't less relevant because another one suits the user better.
    answering = _total((points[name] for name in (*similar, *ANSWERING) if points[name] is not none), len(pool))
    behind = np.minimum(score.max() - score, answering.max() - answering)
    relevance = _relevance(similarity.evidence(terms["query"]), behind, meant)
    kept = np.flatnonzero(relevance >= asked.at_least)
    numbers, worth, alike = pool[kept], score[kept], terms["query"][kept]
    if settings.conflicts_with == "candidates":
        conflicts = _related(cache.conflicts, candidates, numbers)
    else:
        conflicts = _contradicted(cache, numbers, alike, worth)
    best = np.lexsort((-numbers, -alike, -(worth - settings.conflict_weight * conflicts)))[:k]
    places, conflicts = kept[best], conflicts[best]
    penalties = -settings.conflict_weight * conflicts
    return [
        Ranked(number, one, likely, terms_of, points_of, found[number])
        for number, one, likely, terms_of, points_of in zip(
            pool[places].tolist(),
            (score[places] + penalties).tolist(),
            relevance[places].tolist(),
            _rows({**{name: values[places] for name, values in terms.items()}, "conflict": conflicts}),
            _rows({**{name: values[places] for name, values in points.items()}, "conflict": penalties}),
            strict=True,
        )
    ]


def _total(parts: Iterable[Scores], count: int) -> Floats:
    total = np.zeros(count)
    for part in parts:
        total += part
    return total


def _rows(columns: Mapping[str, Scores]) -> Iterator[dict[str, float]]:
    for row in zip(*(values.tolist() for values in columns.values()), strict=True):
        yield dict(zip(columns, row, strict=True))


def _sums(by_query: Scores, pairs: Sequence[tuple[int, int]], candidates: int) -> Scores:
    """Return for each skill the sum of its neighbours' similarities to the query, where above average. Only neighbours
    of candidates are known, so a skill that isn't one gains from the candidates beside it."""
    similarity = np.maximum(by_query, 0.0)
    ones, others = np.array(pairs, np.int64).reshape(-1, 2).T
    outside = others >= candidates
    gaining, beside = np.concatenate([ones, others[outside]]), np.concatenate([others, ones[outside]])
    return np.asarray(np.bincount(gaining, similarity[beside], len(by_query)), np.float64)


def _relevance(evidence: Scores, behind: Scores, meant: Bools) -> Scores:
    """Return for each found skill how likely it answers the query."""
    gap = np.log1p(behind / STANDARD_DEVIATION)
    odds = LOWEST + BY_EVIDENCE * np.sqrt(np.maximum(evidence - NO_WORSE, 0.0)) + BY_GAP * gap
    related = 1.0 / (1.0 + np.exp(2.0 * (UNRELATED - evidence.max())))
    relevance: Scores = related / (1.0 + np.exp(-odds))
    relevance[meant] = np.maximum(relevance[meant], MEANT)
    return relevance


def _related(relation: Mapping[int, Iterable[int]], candidates: Integers, pool: Integers) -> Scores:
    """Return 1 for each skill of the pool that is related to a candidate, otherwise 0."""
    others = {other for number in candidates.tolist() for other in relation.get(number, ())} if relation else ()
    return np.array([number in others for number in pool.tolist()], np.float64) if others else np.zeros(len(pool))


def _contradicted(cache: GraphCache, pool: Integers, by_query: Scores, score: Scores) -> Scores:
    """Return 1 for each skill that contradicts a better one which contradicts none itself, otherwise 0."""
    found, kept = np.zeros(len(pool)), set[int]()
    if not cache.conflicts.keys().isdisjoint(pool.tolist()):
        for place in np.lexsort((-pool, -by_query, -score)).tolist():
            number = int(pool[place])
            if kept.isdisjoint(cache.conflicts.get(number, ())):
                kept.add(number)
            else:
                found[place] = 1.0
    return found
