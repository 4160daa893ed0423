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

import numpy as np

from agentfw_memory.graph.arrays import Floats, Integers
from agentfw_memory.graph.index.word_index import LENGTH, SATURATION, Weights
from agentfw_memory.graph.stores.interface import Corpus, Search, Store
from agentfw_memory.graph.text.words import terms

__all__ = ["COMMON", "ServerQuestion"]

COMMON = 1_000
"""Number of shared skills with a word from which the word is a common one."""
TOGETHER = 3
"""Number of common words that a proposed skill has together, the rarest ones of the query."""
SPARE = 4
"""Number of times as many skills are looked through as should have enough with the words."""
SCORED = 100
"""Number of proposed skills whose exact scores are computed."""


class ServerQuestion:
    """One query against what one user may see. It can be used as soon as it was given what it asks for."""

    def __init__(
        self, query: str, reader: int | None, store: Store, search: Search, shared: Corpus, common: Mapping[str, int]
    ) -> None:
        """`shared` is what is known of the texts of all shared skills, and `common` how many have each common word."""
        self._store, self._search, self._reader, self._shared, self._common = store, search, reader, shared, common
        self._texts: dict[int, Counter[str]] = {}
        self._asked = Counter(terms(query))
        often = sorted((term for term in self._asked if term in common), key=lambda term: common[term])
        self._together = often[:TOGETHER]

    def found(self) -> dict[str, list[int]]:
        """Ask for the shared skills with each seldom word."""
        seldom = [term for term in self._asked if term not in self._common]
        return self._search.shared_with(seldom, COMMON) if seldom else {}

    def found_together(self) -> list[int]:
        """Ask for the shared skills with several common words."""
        if not self._together:
            return []
        shares = [min(1.0, self._common[term] / max(self._shared.count, 1)) for term in self._together]
        # The index reads all that have the rarest of them. If many skills have all of them, enough of these are among
        # the first skills.
        first = int(SPARE * SCORED / prod(shares))
        among = first if first < self._common[self._together[0]] else None
        return self._search.shared_with_all(self._together, SCORED, among)

    def own(self) -> dict[str, list[int]]:
        """Ask for the user's own skills with each word."""
        return {} if self._reader is None else self._search.own_with(self._reader, list(self._asked))

    def mine(self) -> Corpus:
        """Ask how many texts the user has."""
        return Corpus(0, 0) if self._reader is None else self._search.own_corpus(self._reader)

    def take(self, found: dict[str, list[int]], together: list[int], own: dict[str, list[int]], mine: Corpus) -> None:
        """Take what was asked for."""
        asked, shared, common = self._asked, self._shared, self._common
        holders = {term: common.get(term, 0) + len(found.get(term, ())) + len(own.get(term, ())) for term in asked}
        self._own = frozenset(chain.from_iterable(own.values()))
        self._typical_own, self._typical_shared = (corpus.length / max(corpus.count, 1) for corpus in (mine, shared))
        self._weights = Weights.of(asked, shared.count + mine.count, shared.length + mine.length, holders)
        self.count, self.known = shared.count + mine.count, bool(self._weights.rarities)
        self.mean, self.deviation = self._weights.mean, self._weights.deviation
        proposed: Counter[int] = Counter()
        for lists in (found, own):
            for term, numbers in lists.items():
                for number in numbers:
                    proposed[number] += self._weights.rarities[term]  # type: ignore[assignment]
        for number in together:
            proposed[number] += sum(self._weights.rarities[term] for term in self._together)  # type: ignore[assignment]
        best = sorted(proposed, key=lambda number: (-proposed[number], number))[:SCORED]
        self._proposed = np.array(best, np.int64)

    def best(self, k: int) -> Integers:
        """Return up to k skills with the highest scores. Ties are in ascending order of numbers."""
        scores = self.scores(self._proposed)
        return self._proposed[np.lexsort((self._proposed, -scores))[:k]]

    def lengths(self, numbers: Integers) -> Floats:
        """Return the number of terms of each of these skills."""
        texts = self.read(numbers.tolist())
        return np.array([texts[number].total() for number in numbers.tolist()], np.float64)

    def scores(self, numbers: Integers) -> Floats:
        """Return the scores of these skills, which must be visible ones."""
        texts, weights, found = self.read(numbers.tolist()), self._weights, np.zeros(len(numbers))
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

    def read(self, numbers: Sequence[int]) -> Mapping[int, Counter[str]]:
        """Return the terms of these skills and maybe of others."""
        missing = [number for number in numbers if number not in self._texts]
        texts = self._store.texts(missing) if missing else {}
        self._texts.update({number: Counter(terms(texts.get(number, ""))) for number in missing})
        return self._texts
