"""How similar skills are to a query: by vectors and words together, or by one of the two alone.

Cosines and BM25 scores have different scales, and a cosine of 0.6 means much with one embedder and nothing with
another. So both are standardised: how many standard deviations is a skill above the average skill that this user may
see? The two are added, and the sum is scaled to the spread of a usual cosine, so that the weights of the other terms
mean the same whichever similarity is chosen.

The pure forms are those of the parpo-psgm paper's ablations.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agentfw_memory.graph.arrays import Float32Array, Integers
from agentfw_memory.graph.index.vector_index import products
from agentfw_memory.graph.index.word_index import Question
from agentfw_memory.graph.recall.graph_cache import GraphCache

__all__ = ["HybridSimilarity", "Scores", "Similarity", "VectorSimilarity", "WordSimilarity"]

Scores = NDArray[np.floating[Any]]

SPREAD = 0.05
"""What one standard deviation counts: about the standard deviation of cosines of unrelated sentences."""
ASSUMED_MEAN, ASSUMED_AS_OFTEN = 0.1, 8
"""What is assumed of the cosines of a graph with few skills, and the number of skills that outweigh it."""


class Similarity(Protocol):
    """The similarity of skills to one query."""

    def best(self, k: int) -> Integers:
        """Return the most similar skills that the user may see: k by each way of comparing."""

    def of(self, numbers: Integers, vectors: Float32Array) -> dict[str, Scores]:
        """Return the similarity of each of these skills, by words and by vectors. The sum is the similarity."""


class VectorSimilarity:
    """Dot product of vectors."""

    def __init__(self, cache: GraphCache, query: Float32Array, user: int | None) -> None:
        self._cache, self._query, self._user = cache, query, user

    def best(self, k: int) -> Integers:
        return self._cache.index.search(self._query, k, self._cache.private_skills(self._user))[0]

    def of(self, numbers: Integers, vectors: Float32Array) -> dict[str, Scores]:
        return {"vectors": products(vectors, self._query)}


class WordSimilarity:
    """BM25 over the words of the texts."""

    def __init__(self, question: Question) -> None:
        self._question = question

    def best(self, k: int) -> Integers:
        return self._question.best(k)

    def of(self, numbers: Integers, vectors: Float32Array) -> dict[str, Scores]:
        return {"words": self._question.scores(numbers)}


class HybridSimilarity:
    """Both, each standardised."""

    def __init__(self, by_vectors: VectorSimilarity, question: Question, background: Float32Array) -> None:
        """`background` holds vectors of the query's similarity to skills drawn from all that the user may see."""
        self._by_vectors, self._question = by_vectors, question
        cosines = by_vectors.of(np.zeros(0, np.int64), background)["vectors"]
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
