"""A small BM25 index whose scores lie between 0 and 1.

    >>> index = BM25Index()
    >>> index.add("s1", "Offer the earliest slot first")
    >>> index.add("s2", "Ask for the order number")
    >>> index.best("which slot is the earliest?", 1)[0][0]
    's1'
    >>> index.scores("Offer the earliest slot first")["s1"]
    1.0

BM25 has no upper bound of its own. Here a score is divided by the score that the query would get as a text of the
index. A score of 1 means the words of the query, and 0 means none of them.

Adding and removing leave no trace: the scores are always those of a new index over the same texts.
"""

from __future__ import annotations

import heapq
import math
import re
from collections import Counter
from collections.abc import Container, Hashable
from typing import Generic, TypeVar

from agentfw_memory.errors import BadInputError

__all__ = ["BM25Index", "tokens"]

Key = TypeVar("Key", bound=Hashable)

SATURATION, LENGTH = 1.2, 0.75
"""The usual values of BM25's k1 and b."""

_WORD = re.compile(r"\w+")


def tokens(text: str) -> list[str]:
    """Split a text into case-folded words."""
    return _WORD.findall(text.casefold())


class BM25Index(Generic[Key]):
    """An index of short texts."""

    def __init__(self) -> None:
        self._postings: dict[str, dict[Key, int]] = {}
        self._counts: dict[Key, Counter[str]] = {}
        self._length = 0

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, key: Key, text: str) -> None:
        """Add a text, or replace the text of a known key."""
        if key in self._counts:
            self.remove(key)
        counts = self._counts[key] = Counter(tokens(text))
        self._length += counts.total()
        for word, count in counts.items():
            self._postings.setdefault(word, {})[key] = count

    def remove(self, key: Key) -> None:
        """Remove a text. An unknown key is ignored."""
        counts = self._counts.pop(key, None)
        if counts is None:
            return
        self._length -= counts.total()
        for word in counts:
            holders = self._postings[word]
            del holders[key]
            if not holders:
                del self._postings[word]

    def scores(self, query: str, allowed: Container[Key] | None = None) -> dict[Key, float]:
        """Return the scores of all texts, or of the allowed ones, that share a word with the query."""
        asked = Counter(tokens(query))
        found: dict[Key, float] = {}
        highest = 0.0
        if not self._counts:
            return found
        mean = self._length / len(self._counts) or 1.0
        own = 1.0 - LENGTH + LENGTH * asked.total() / mean
        for word, times in asked.items():
            holders = self._postings.get(word, {})
            rarity = times * math.log1p((len(self._counts) - len(holders) + 0.5) / (len(holders) + 0.5))
            highest += rarity * times / (times + SATURATION * own)
            for key, count in holders.items():
                if allowed is None or key in allowed:
                    length = 1.0 - LENGTH + LENGTH * self._counts[key].total() / mean
                    found[key] = found.get(key, 0.0) + rarity * count / (count + SATURATION * length)
        return {key: min(1.0, score / highest) for key, score in found.items()}

    def best(self, query: str, count: int, allowed: Container[Key] | None = None) -> list[tuple[Key, float]]:
        """Return the `count` highest scores, highest first. Ties are in the order in which the texts were added."""
        if count < 0:
            raise BadInputError(f"{count} results are not possible", fix="pass a count of 0 or more")
        scores = self.scores(query, allowed)
        place = {key: number for number, key in enumerate(self._counts) if key in scores}
        return heapq.nsmallest(count, scores.items(), key=lambda item: (-item[1], place[item[0]]))
