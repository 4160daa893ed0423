"""How similar skills are to a query: by vectors and words together, or by one of the two alone.

Cosines and BM25 scores have different scales, and a cosine of 0.6 means much with one embedder and nothing with
another. So both are standardised: how many standard deviations is a skill above the average skill that this user may
see? The two are added, and the sum is scaled to the spread of a usual cosine, so that the weights of the other terms
mean the same whichever similarity is chosen.

The pure forms are those of the parpo-psgm paper's ablations.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agentfw_memory.graph.arrays import Bools, Float32Array, Floats, Integers
from agentfw_memory.graph.index.vector_index import products
from agentfw_memory.graph.recall.graph_cache import GraphCache

__all__ = ["HybridSimilarity", "QueryByWords", "Scores", "Similarity", "VectorSimilarity", "WordSimilarity"]

Scores = NDArray[np.floating[Any]]

SPREAD = 0.05
"""What one standard deviation counts: about the standard deviation of cosines of unrelated sentences."""
KNOWN = 5.0
"""What a word of the query that is known counts as evidence, in standard deviations."""
FEW = 20
"""Number of skills below which nobody can say what is usual, so that none is left out by default."""
ASSUMED_MEAN, ASSUMED_AS_OFTEN = 0.1, 8
"""What is assumed of the cosines of a graph with few skills, and the number of skills that outweigh it."""


class Similarity(Protocol):
    """The similarity of skills to one query."""

    few: bool
    """Whether the user may see so few skills that none should be left out."""

    def best(self, k: int) -> Integers:
        """Return the most similar skills that the user may see: k by each way of comparing."""

    def of(self, numbers: Integers, vectors: Float32Array) -> dict[str, Scores]:
        """Return the similarity of each of these skills, by words and by vectors. The sum is the similarity."""

    def lengths(self, numbers: Integers) -> Floats:
        """Return the number of terms of each of these skills, or 0 if texts aren't at hand."""

    def evidence(self, similar: Scores) -> Scores:
        """Return how far such similarities are above those of unrelated skills, in standard deviations."""


class QueryByWords(Protocol):
    """A query by words, such as `Question`."""

    count: int
    """The number of skills that the user may see."""
    known: bool
    """Whether any of them has a word of the query."""

    mean: float
    deviation: float

    def best(self, k: int) -> Integers: ...

    def scores(self, numbers: Integers) -> Scores: ...

    def lengths(self, numbers: Integers) -> Floats: ...


class VectorSimilarity:
    """Dot product of vectors."""

    few = False

    def __init__(self, cache: GraphCache, query: Float32Array, user: int | None, allowed: Bools | None = None) -> None:
        """`allowed` says by number which skills may be found, of those that the user may see."""
        self._cache, self._query, self._user, self._allowed = cache, query, user, allowed

    def best(self, k: int) -> Integers:
        if self._allowed is not None:
            return self._cache.index.among(self._query, k, self.findable(self._allowed))[0]
        return self._cache.index.search(self._query, k, self._cache.private_skills(self._user))[0]

    def findable(self, allowed: Bools) -> Integers:
        """Return the skills that may be found: those that are allowed, and that the user may see."""
        numbers = np.flatnonzero(allowed[: len(self._cache.live)] & self._cache.live)
        return numbers[self._cache.visible_to(self._user, numbers)]

    def of(self, numbers: Integers, vectors: Float32Array) -> dict[str, Scores]:
        return {"vectors": products(vectors, self._query)}

    def lengths(self, numbers: Integers) -> Floats:
        return np.zeros(len(numbers))

    def evidence(self, similar: Scores) -> Scores:
        return np.full(len(similar), np.inf)  # nothing says here what a cosine of this embedder means


class WordSimilarity:
    """BM25 over the words of the texts."""

    few = False

    def __init__(self, question: QueryByWords) -> None:
        self._question = question

    def best(self, k: int) -> Integers:
        return self._question.best(k)

    def of(self, numbers: Integers, vectors: Float32Array) -> dict[str, Scores]:
        return {"words": self._question.scores(numbers)}

    def lengths(self, numbers: Integers) -> Floats:
        return self._question.lengths(numbers)

    def evidence(self, similar: Scores) -> Scores:
        return np.full(len(similar), np.inf)  # a skill without any word of the query isn't found


class HybridSimilarity:
    """Both, each standardised."""

    def __init__(
        self, by_vectors: Similarity, question: QueryByWords, cosines: Scores, found_among: int | None = None
    ) -> None:
        """`cosines` are those of the query and of skills drawn from all that the user may see. `found_among` is the
        number of skills that may be found, if a filter leaves some out."""
        self._by_vectors, self._question = by_vectors, question
        self._found_among = question.count if found_among is None else found_among
        self.few = self._found_among < FEW
        count = len(cosines) + ASSUMED_AS_OFTEN
        self._mean = (float(cosines.sum()) + ASSUMED_AS_OFTEN * ASSUMED_MEAN) / count
        squares = float(np.square(cosines - self._mean).sum()) + ASSUMED_AS_OFTEN * SPREAD**2
        self._deviation = (squares / count) ** 0.5

    def best(self, k: int) -> Integers:
        both = np.concatenate([self._by_vectors.best(k), self._question.best(k)])
        return np.fromiter(dict.fromkeys(both.tolist()), np.int64)

    def of(self, numbers: Integers, vectors: Float32Array) -> dict[str, Scores]:
        question = self._question
        cosines = self._by_vectors.of(numbers, vectors)["vectors"]
        # Words that are in no visible skill, or in all of them, tell nothing apart.
        words = (question.scores(numbers) - question.mean) / (question.deviation or 1.0)
        return {"words": SPREAD * words, "vectors": SPREAD * (cosines - self._mean) / self._deviation}

    def lengths(self, numbers: Integers) -> Floats:
        return self._question.lengths(numbers)

    def evidence(self, similar: Scores) -> Scores:
        # The more skills there are, the higher the best of them is by chance. A query of which no word is known has
        # only chance to go by.
        count = max(self._found_among, 2)
        return similar / SPREAD - math.sqrt(2.0 * math.log(count)) + (KNOWN if self._question.known else 0.0)
