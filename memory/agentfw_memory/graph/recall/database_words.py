"""A query by words, of which the database holds the texts.

The score is that of `WordIndex`. What differs is what proposes skills. A word that many shared skills have proposes
none by itself; skills that have several such words together are proposed instead. How common such words are is counted
when the graph is prepared, and that of all other words at each query.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from agentfw_memory.graph.arrays import Float32Array, Floats, Integers
from agentfw_memory.graph.index.word_index import LENGTH, SATURATION, Weights
from agentfw_memory.graph.rows.graph_rows import GraphRows
from agentfw_memory.graph.stores.store import Corpus, Proposals, Sought
from agentfw_memory.graph.text.words import terms

HOLDERS = 1_000
"""Maximum number of shared skills that are found with a seldom word: as many as make a word common."""
TOGETHER = 3
"""Number of common words that a proposed skill has together, the rarest ones of the query."""
SPARE = 4
"""Number of times as many skills are looked through as should have enough with the words."""
SCORED = 100
"""Number of proposed skills whose exact scores are computed."""


class DatabaseQuestion:
    """One query against what one user may see. It can be used as soon as it has taken what was found."""

    def __init__(
        self, query: str, reader: int | None, rows: GraphRows, shared: Corpus, common: Mapping[str, int]
    ) -> None:
        """`shared` is what is known of the texts of all shared skills, and `common` how many have each common word."""
        self._rows, self._reader, self._shared, self._common = rows, reader, shared, common
        self._texts: dict[int, Counter[str]] = {}
        self._asked = Counter(terms(query))
        often = sorted((term for term in self._asked if term in common), key=lambda term: common[term])
        self._together = often[:TOGETHER]

    def sought(self, vector: Float32Array | None, most: int, where: Mapping[str, Any], by: str) -> Sought:
        """Return what to search for: `most` skills by the vector, and skills with the words."""
        asked = [] if by == "vectors" else list(self._asked)
        together = [] if by == "vectors" else self._together
        among = None
        if together:
            shares = [min(1.0, self._common[term] / max(self._shared.count, 1)) for term in together]
            # The index reads all that have the rarest of them. If many skills have all of them, enough of these are
            # among the first skills.
            first = int(SPARE * SCORED / prod(shares))
            among = first if first < self._common[together[0]] and not where else None
        return Sought(
            self._reader,
            vector,
            most,
            asked,
            [term for term in asked if term not in self._common],
            HOLDERS,
            together,
            SCORED,
            among,
            where,
        )

    def take(self, found: Proposals) -> None:
        """Take what was found."""
        asked, shared, common, mine = self._asked, self._shared, self._common, found.own_corpus
        holders, own = found.holders, found.own_holders
        having = {term: common.get(term, 0) + len(holders.get(term, ())) + len(own.get(term, ())) for term in asked}
        self._own = frozenset(chain.from_iterable(own.values()))
        self._typical_own, self._typical_shared = (corpus.length / max(corpus.count, 1) for corpus in (mine, shared))
        self._weights = Weights.of(asked, shared.count + mine.count, shared.length + mine.length, having)
        self.count, self.known = shared.count + mine.count, bool(self._weights.rarities)
        self.mean, self.deviation = self._weights.mean, self._weights.deviation
        rarities = self._weights.rarities
        proposed: dict[int, float] = {}
        for term, numbers in chain(holders.items(), own.items()):
            for number in numbers:
                proposed[number] = proposed.get(number, 0.0) + rarities[term]
        for number in found.together:
            proposed[number] = proposed.get(number, 0.0) + sum(rarities[term] for term in self._together)
        best = sorted(proposed, key=lambda number: (-proposed[number], number))[:SCORED]
        self._proposed = np.array(best, np.int64)

    def best(self, k: int) -> Integers:
        """Return up to k skills with the highest scores. Ties are in ascending order of numbers."""
        scores = self.scores(self._proposed)
        return self._proposed[np.lexsort((self._proposed, -scores))[:k]]

    def lengths(self, numbers: Integers) -> Floats:
        """Return the number of terms of each of these skills."""
        texts = self._read(numbers.tolist())
        return np.array([texts[number].total() for number in numbers.tolist()], np.float64)

    def scores(self, numbers: Integers) -> Floats:
        """Return the scores of these skills, which must be visible ones."""
        texts, weights, found = self._read(numbers.tolist()), self._weights, np.zeros(len(numbers))
        for place, number in enumerate(numbers.tolist()):
            counts = texts[number]
            typical = self._typical_own if number in self._own else self._typical_shared
            # As lengths are counted in the database: each term once.
            saturation = SATURATION * (1.0 - LENGTH + LENGTH * len(counts) / max(typical, 1.0))
            found[place] = sum(
                rarity * counts[term] / (counts[term] + saturation)
                for term, rarity in weights.rarities.items()
                if term in counts
            )
        return np.minimum(found / weights.highest, 1.0)

    def know(self, texts: Mapping[int, str]) -> None:
        """Take texts that were read anyway."""
        self._texts.update({number: Counter(terms(text)) for number, text in texts.items()})

    def _read(self, numbers: Sequence[int]) -> Mapping[int, Counter[str]]:
        """Return the terms of these skills and maybe of others."""
        missing = [number for number in numbers if number not in self._texts]
        if missing:
            texts = self._rows.texts(missing)
            self.know({number: texts.get(number, "") for number in missing})
        return self._texts
