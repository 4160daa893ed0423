"""Finds skills by their words, with BM25 scores between 0 and 1.

    >>> index = WordIndex()
    >>> index.put(3, "Offer the earliest slot first", SHARED)
    >>> index.put(5, "Ask for the order number", SHARED)
    >>> question = index.question("which slots are early, which is the earliest?", reader=None)
    >>> question.best(10).tolist()
    [3]

A score is divided by the one that the query would get as a text of the index, so 1 means the words of the query.

Shared skills are one part of the index, and each owner's private skills another. A query reads only the parts that its
reader may see, and how rare a word is is counted there too, so that a hidden skill changes nothing. How long texts
usually are is counted in each part. The scores are always those of a new index over the same texts.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import prod

import numpy as np
from numpy.typing import NDArray

from ..records import Bools, Floats, Integers
from ..stores.store import Corpus, Holders, Proposals
from ..words import terms
from .vector_index import grown

SHARED = 0  # the part of shared skills. A private skill is in the part of its owner's number, which is never 0

SATURATION, LENGTH = 1.2, 0.75  # the usual values of BM25's k1 and b
MATCHES_READ = 10_000
"""Number of matches after which common words no longer propose candidates. They still count in the scores."""
SCORED = 100  # number of proposed skills whose exact scores are computed
COMMON_WORDS_TOGETHER = 3  # number of common words that a proposed skill has together, the rarest ones of the query
SPARE = 4  # number of times as many skills are looked through as should have enough with the words
TYPICAL_MATCH = 1.0 / (1.0 + SATURATION)
"""What a word counts that occurs once in a text of average length, as a share of its rarity."""

Pairs = NDArray[np.int32]  # rows of a term and its count
Texts = Callable[[Sequence[int]], Mapping[int, str]]  # returns the texts of skills


@dataclass
class _Part:
    """The texts that are visible together."""

    count: int = 0
    length: int = 0
    holders: dict[int, array[int]] = field(default_factory=dict)
    """By term: the skills that have it, in no particular order."""


class WordIndex:
    """The words of a tenant's skills."""

    def __init__(self) -> None:
        self._terms: dict[str, int] = {}
        self._names: list[str] = []
        self._uses: list[int] = []
        self._parts: dict[int, _Part] = {}
        self._part_of = np.zeros(16, np.int64)  # by skill: its part plus one, or 0 if it isn't here
        self._texts: dict[int, Pairs] = {}
        self.lengths = np.zeros(16)  # by skill: the number of its terms
        self.scratch = np.zeros(16, np.float32)  # by skill: zeros to work with, which must be zeros afterwards
        self._rarities = np.zeros(16)

    def __len__(self) -> int:
        return sum(part.count for part in self._parts.values())

    def __contains__(self, number: int) -> bool:
        return number < len(self._part_of) and self._part_of[number] > 0

    def put(self, number: int, text: str, part: int = SHARED) -> None:
        """Add a skill, or replace its text and part."""
        counts = Counter(terms(text))
        if number in self:
            known = _packed((self._terms.get(term, -1), count) for term, count in counts.items())
            if self._part_of[number] == part + 1 and np.array_equal(self._texts[number], known):
                return  # a skill also counts as changed when somebody used it
            self.remove(number)
        here, pairs = self._parts.setdefault(part, _Part()), list[tuple[int, int]]()
        for name, count in counts.items():
            term = self._terms.setdefault(name, len(self._names))
            if term == len(self._names):
                self._names.append(name)
                self._uses.append(0)
            self._uses[term] += 1
            here.holders.setdefault(term, array("q")).append(number)
            pairs.append((term, count))
        here.count += 1
        here.length += counts.total()
        self.lengths, self._part_of = grown(self.lengths, number + 1), grown(self._part_of, number + 1)
        self.lengths[number], self._part_of[number] = counts.total(), part + 1
        self._texts[number] = _packed(pairs)

    def remove(self, number: int) -> None:
        """Remove a skill. An unknown number is ignored."""
        if number not in self:
            return
        part = int(self._part_of[number]) - 1
        self._part_of[number] = 0
        here = self._parts[part]
        for term, count in self._texts.pop(number).tolist():
            holders = here.holders[term]
            last = holders.pop()
            if last != number:
                holders[holders.index(number)] = last
            if not holders:
                del here.holders[term]
            here.length -= count
            self._uses[term] -= 1
            if not self._uses[term]:
                # The word may have been in a forgotten text only.
                del self._terms[self._names[term]]
                self._names[term] = ""
        here.count -= 1
        if not here.count:
            del self._parts[part]

    def question(self, query: str, reader: int | None, allowed: Bools | None = None) -> Question:
        """Prepare a query for a user, who sees the shared skills and their own. `allowed` says by number which of them
        may be found."""
        seen = {part: self._parts[part] for part in (SHARED, reader) if part is not None and part in self._parts}
        return Question(self, Counter(terms(query)), seen, allowed)

    def rarities(self, of: Collection[tuple[int, float]], terms: NDArray[np.int32]) -> Floats:
        """Return the rarity of each of these terms. `of` has the terms that have one; the others have 0."""
        self._rarities = grown(self._rarities, len(self._names))
        for term, rarity in of:
            self._rarities[term] = rarity
        found: Floats = self._rarities[terms]
        for term, _ in of:
            self._rarities[term] = 0.0
        return found


def _packed(pairs: Iterable[tuple[int, int]]) -> NDArray[np.int32]:
    return np.frombuffer(array("i", chain.from_iterable(pairs)), np.int32).reshape(-1, 2)


@dataclass(frozen=True, slots=True)
class Weights:
    """What the terms of a query are worth among some texts."""

    rarities: dict[str, float]  # by term that at least one of the texts has, with the rarest first
    highest: float  # what the query would score as a text of its own
    mean: float
    deviation: float
    """Mean and standard deviation of the scores of all the texts, estimated from how common the terms are."""

    @classmethod
    def of(cls, asked: Counter[str], count: int, length: float, holders: Mapping[str, int]) -> Weights:
        """Weigh a query among `count` texts of `length` terms in all. `holders` says how many have each term."""
        mean_length = (length / count if count else 0.0) or 1.0
        own = 1.0 - LENGTH + LENGTH * asked.total() / mean_length
        highest = mean = variance = 0.0
        rarities: dict[str, float] = {}
        for term, times in sorted(asked.items(), key=lambda item: holders.get(item[0], 0)):
            having = holders.get(term, 0)
            rarity = times * math.log1p((count - having + 0.5) / (having + 0.5))
            highest += rarity * times / (times + SATURATION * own)
            if having:
                rarities[term] = rarity
                share = having / count
                mean += share * rarity * TYPICAL_MATCH
                variance += share * (1.0 - share) * (rarity * TYPICAL_MATCH) ** 2
        highest = highest or 1.0
        return cls(rarities, highest, mean / highest, math.sqrt(variance) / highest)


class Question:
    """One query against what one user may see."""

    def __init__(
        self, index: WordIndex, asked: Counter[str], parts: Mapping[int, _Part], allowed: Bools | None = None
    ) -> None:
        self._index, self._parts, self._allowed = index, parts, allowed
        numbers = {term: index._terms[term] for term in asked if term in index._terms}
        seen = parts.values()
        # Copies, because an array can't be resized while somebody holds its buffer.
        having = {
            term: [np.array(part.holders[number], np.int64) for part in seen if number in part.holders]
            for term, number in numbers.items()
        }
        holders = {term: sum(map(len, some)) for term, some in having.items()}
        self.count = sum(part.count for part in seen)
        self.weights = Weights.of(asked, self.count, sum(part.length for part in seen), holders)
        rarities = self.weights.rarities
        self._found = [(numbers[term], rarity) for term, rarity in rarities.items()]
        self._holders = [(one, rarity) for term, rarity in rarities.items() for one in having[term]]

    def best(self, k: int) -> Integers:
        """Return up to k skills with the highest scores. Ties are in ascending order of numbers."""
        proposed = self._proposed(max(SCORED, 2 * k))
        scores = self.scores(proposed)
        return proposed[np.lexsort((proposed, -scores))[:k]]

    def lengths(self, numbers: Integers) -> Floats:
        return self._index.lengths[numbers]

    def scores(self, numbers: Integers) -> Floats:
        """Return the scores of these skills, which must be visible ones."""
        texts = [self._index._texts[number] for number in numbers.tolist()]
        pairs = np.concatenate(texts) if texts else np.zeros((0, 2), np.int32)
        owner = np.repeat(np.arange(len(numbers)), [len(text) for text in texts])
        typical, of = np.ones(len(numbers)), self._index._part_of[numbers]
        for part, one in self._parts.items():
            typical[of == part + 1] = one.length / one.count
        relative = self._index.lengths[numbers] / np.maximum(typical, 1.0)
        weights = self._index.rarities(self._found, pairs[:, 0])
        here = np.flatnonzero(weights)
        owner, counts = owner[here], pairs[here, 1]
        saturation = SATURATION * (1.0 - LENGTH + LENGTH * relative[owner])
        scores = np.bincount(owner, weights[here] * counts / (counts + saturation), len(numbers))
        return np.minimum(scores / self.weights.highest, 1.0)

    def _proposed(self, count: int) -> Integers:
        """Return the skills that have the rarest words of the query, at most about `count` of them."""
        holders, allowed = self._holders, self._allowed
        if allowed is not None:
            holders = [(numbers[allowed[numbers]], rarity) for numbers, rarity in holders]
        read = sorted((one for one in holders if len(one[0])), key=lambda one: len(one[0]))
        ends = np.cumsum([len(numbers) for numbers, _ in read])
        read = read[: max(1, int(np.searchsorted(ends, MATCHES_READ)))]
        if not read:
            return np.zeros(0, np.int64)
        self._index.scratch = weights = grown(self._index.scratch, len(self._index.lengths))
        for numbers, rarity in read:
            weights[numbers] += rarity
        sums = []
        for numbers, _ in read:
            sums.append(weights[numbers])
            weights[numbers] = 0.0  # so that the next list takes a skill only if no earlier one had it
        rarities, found = np.concatenate(sums), np.concatenate([numbers for numbers, _ in read])
        once = np.flatnonzero(rarities)
        rarities, found = rarities[once], found[once]
        if len(found) <= count:
            return found
        # Most skills have one of the words only. They needn't be looked at if enough have more, or a rarer one.
        for level in np.unique(np.array([rarity for _, rarity in read], np.float32))[::-1]:
            if np.count_nonzero(rarities > level) >= count:
                found, rarities = found[rarities > level], rarities[rarities > level]
                break
        lowest = np.partition(rarities, len(found) - count)[len(found) - count]
        above, level = found[rarities > lowest], found[rarities == lowest]
        return np.concatenate([above, np.sort(level)[: count - len(above)]])


class DatabaseQuestion:
    """A query by words against what one user may see. It can be used as soon as it has taken what was found. The score
    is that of `WordIndex`. What differs is what proposes skills. A word that many shared skills have proposes none by
    itself; skills that have several such words together are proposed instead. How common such words are is counted when
    the graph is prepared, and that of all other words at each query."""

    def __init__(self, query: str, reader: int | None, texts: Texts, shared: Corpus, common: Mapping[str, int]) -> None:
        """`shared` is what is known of the texts of all shared skills, and `common` how many have each common word."""
        self._texts_of, self.reader, self._shared, self._common = texts, reader, shared, common
        self._texts: dict[int, Counter[str]] = {}
        self.asked = Counter(terms(query))  # the private skills with each are found
        self.seldom = [term for term in self.asked if term not in common]  # so are the shared ones with each of these
        often = sorted((term for term in self.asked if term in common), key=lambda term: common[term])
        self.together = often[:COMMON_WORDS_TOGETHER]  # and those with all of these
        self.among: int | None = None  # among the first so many shared skills; None for all
        if self.together:
            # The index reads all that have the rarest of them. If many skills have all of them, enough of these are
            # among the first skills.
            first = int(SPARE * SCORED / prod(min(1.0, common[term] / max(shared.count, 1)) for term in self.together))
            self.among = first if first < common[self.together[0]] else None

    def take(self, found: Proposals) -> None:
        asked, shared, common, mine = self.asked, self._shared, self._common, found.own_corpus
        holders, own = found.holders, found.own_holders
        none: Holders = [], 0
        having = {term: common.get(term, 0) + holders.get(term, none)[1] + own.get(term, none)[1] for term in asked}
        self._own = frozenset(chain.from_iterable(numbers for numbers, _ in own.values()))
        self._typical_own, self._typical_shared = (corpus.length / max(corpus.count, 1) for corpus in (mine, shared))
        # Shared skills were counted a while ago, and those that have the words just now.
        self.count = max(shared.count + mine.count, *having.values(), 0)
        self.weights = Weights.of(asked, self.count, shared.length + mine.length, having)
        rarities, proposed = self.weights.rarities, defaultdict[int, float](float)
        for term, (numbers, _) in chain(holders.items(), own.items()):
            for number in numbers:
                proposed[number] += rarities[term]
        for number in found.together:
            proposed[number] += sum(rarities[term] for term in self.together)
        best = sorted(proposed, key=lambda number: (-proposed[number], number))
        self._proposed = np.array(best, np.int64)

    def best(self, k: int) -> Integers:
        """Return up to k skills with the highest scores. Ties are in ascending order of numbers."""
        proposed = self._proposed[: max(SCORED, 2 * k)]
        scores = self.scores(proposed)
        return proposed[np.lexsort((proposed, -scores))[:k]]

    def lengths(self, numbers: Integers) -> Floats:
        texts = self._read(numbers.tolist())
        return np.array([texts[number].total() for number in numbers.tolist()], np.float64)

    def scores(self, numbers: Integers) -> Floats:
        """Return the scores of these skills, which must be visible ones."""
        texts, weights, found = self._read(numbers.tolist()), self.weights, np.zeros(len(numbers))
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
        self._texts.update({number: Counter(terms(text)) for number, text in texts.items()})

    def _read(self, numbers: Sequence[int]) -> Mapping[int, Counter[str]]:
        """Return the terms of these skills and maybe of others."""
        missing = [number for number in numbers if number not in self._texts]
        if missing:
            texts = self._texts_of(missing)
            self.know({number: texts.get(number, "") for number in missing})
        return self._texts
