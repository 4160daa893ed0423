"""Recall in this process, which holds the whole graph: its vectors, its words and what connects its skills.

What is held is a copy. `catch_up` takes over what others have changed in the store, and nothing is written here first.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..communities import Membership
from ..graph_rows import GraphRows
from ..graph_settings import GraphSettings
from ..index.embedders import Embedder, weight_of_vectors
from ..index.vector_index import grown, products
from ..index.word_index import SHARED, WordIndex
from ..records import Bools, Integers, Skill, Use
from ..stores.store import Count, Head
from ..validation import fits
from .calibration import TRUSTED, calibrated, uses_before
from .graph_cache import GraphCache
from .ranking import Asked, Ranked, Similarity, rank

MAXIMUM_CACHED_SKILLS = 50_000
RECALIBRATED_AFTER = 0.05  # share of the skills that must have changed before the terms are calibrated again
NAMED = 10  # maximum number of skills of a named scenario or tool that are considered beside the candidates
FILTERS = 16  # number of filters of which is kept which skills fit


class EmbeddedRecall:
    """One tenant in the memory of this process."""

    cache: GraphCache
    membership: Membership | None
    _uncalibrated: float  # number of skills that changed since the terms were calibrated

    def __init__(self, rows: GraphRows, settings: GraphSettings, embedder: Embedder) -> None:
        self._rows, self._settings, self._embedder = rows, settings, embedder
        self._searchable = rows.store.search is not None
        self._reset()

    def outgrown(self) -> bool:
        """Return whether the graph is too large for a process, and its store can search."""
        number = len(self.cache)
        if self._searchable and not self.cache.counter:
            number = sum(count for _, count in self._rows.store.read(Count("live", "shared"))[0])
        return self._searchable and number > self._settings.in_memory_up_to

    def catch_up(self, head: Head, upto: int) -> None:
        if upto == self.cache.counter:
            return
        try:
            touched = self.cache.catch_up(head, upto)
            for number in touched if self._skills else ():
                self._skills.pop(number, None)
            self._metadata.changed(touched)
            cache, settings = self.cache, self._settings
            gone = {one for one in touched if one >= len(cache.live) or not cache.live[one]}
            if self._words is not None:
                texts = self._rows.texts(touched) if touched else {}
                for number in touched:
                    if number in gone:
                        self._words.remove(number)
                    else:
                        part = SHARED if cache.shared[number] else int(cache.owner[number])
                        self._words.put(number, texts.get(number, ""), part)  # another process may just have ended it
            self._uncalibrated += len(touched)
            # Communities can't change a score where nothing was used yet, and finding them takes seconds in a large
            # graph.
            counts = settings.community_weight and (not settings.calibrate or cache.uses)
            if self.membership is not None or counts:
                self._joined().catch_up(touched, gone)
        except BaseException:
            # A half-updated cache can't be trusted. The next call loads it again.
            self._reset()
            raise

    def rank(self, asked: Asked) -> list[Ranked]:
        allowed = self._metadata.fitting(asked.where, len(self.cache.live)) if asked.where else None
        if allowed is not None and not allowed.any():
            return []
        cache, settings = self.cache, self._settings
        similarity = self._similarity(asked, allowed)
        candidates = similarity.best(max(settings.candidates, asked.k))
        if settings.calibrate and self._uncalibrated > RECALIBRATED_AFTER * len(cache):
            self._trust, self._uncalibrated = calibrated(cache, settings), 0.0
        context = dict[int, float]()
        if settings.context_weight and (asked.scenarios or asked.tools):
            context = self._rows.in_context(asked.scenarios, asked.tools)
            named = np.array(sorted(context), np.int64)
            named = named[cache.seen_by(asked.reader, named)]
            named = named if allowed is None else named[allowed[named]]
            if asked.vector is not None and len(named):
                named = cache.index.among(asked.vector, NAMED, named)[0]
            candidates = np.fromiter(dict.fromkeys([*candidates.tolist(), *named[:NAMED].tolist()]), np.int64)
        together = None if self.membership is None else self.membership.together
        return rank(cache, together, candidates, similarity, settings, asked, self._trust, allowed, context)

    def read(self, numbers: list[int], user: str, reader: int | None) -> dict[int, Skill]:
        """Return those of these skills that exist and that this user may see."""
        missing = [number for number in numbers if number not in self._skills]
        if missing:
            if len(self._skills) > MAXIMUM_CACHED_SKILLS:
                self._skills.clear()
                missing = numbers
            self._skills.update(self._rows.skills(missing, reader or 0))
        found = {number: self._skills[number] for number in numbers if number in self._skills}
        return {number: skill for number, skill in found.items() if skill.visibility == "shared" or skill.owner == user}

    def uses(self, trajectory: int, user: int, skills: Sequence[int], reward: float) -> list[Use]:
        numbers = np.array(skills, np.int64)
        together = None if self.membership is None else self.membership.together(user, numbers)
        return uses_before(self.cache, together, trajectory, user, numbers, reward)

    def rated(self, numbers: list[int]) -> list[int]:
        """Return those of these skills that somebody may have rated an answer with."""
        return [number for number in numbers if number in self.cache.rated]

    def communities(self) -> tuple[int, ...]:
        if self._settings.community_weight and self.membership is None:
            self._joined().catch_up()
        return () if self.membership is None else self.membership.counts

    def prepare(self) -> None:
        if self._settings.community_weight:
            self._joined().split_all()
        self.save()

    def save(self) -> None:
        if self.membership is not None:
            self.membership.save()

    def _reset(self) -> None:
        self.cache = GraphCache(self._rows, self._embedder.dimensions)
        self.membership = None
        self._words = None if self._settings.query_similarity == "vectors" else WordIndex()
        self._metadata = _Metadata(self._rows)
        self._trust = TRUSTED
        self._uncalibrated = math.inf
        self._skills: dict[int, Skill] = {}
        self._rows.forget_names()

    def _similarity(self, asked: Asked, allowed: Bools | None) -> Similarity:
        cache, question, vector = self.cache, None, asked.vector
        if self._words is not None:
            question = self._words.question(asked.query, asked.reader, allowed)
        fitting = None if allowed is None else np.flatnonzero(allowed[: len(cache.live)] & cache.live)
        if fitting is not None:
            fitting = fitting[cache.visible_to(asked.reader, fitting)]

        def nearest(k: int) -> Integers:
            assert vector is not None
            if fitting is not None:
                return cache.index.among(vector, k, fitting)[0]
            return cache.index.search(vector, k, cache.private_skills(asked.reader))[0]

        if question is None or vector is None:
            return Similarity(vector, nearest, question)
        cosines = np.concatenate([products(some, vector) for some in cache.background(asked.reader)])
        count = question.count if fitting is None else len(fitting)
        return Similarity(vector, nearest, question, cosines, count, weight_of_vectors(self._embedder))

    def _joined(self) -> Membership:
        if self.membership is None:
            self.membership = Membership(self._rows, self._settings)
            self._uncalibrated = math.inf
        return self.membership


class _Metadata:
    """The metadata of all skills, from the first filter on, and which skills fit the latest filters."""

    def __init__(self, rows: GraphRows) -> None:
        self._rows = rows
        self._known: dict[int, dict[str, Any]] | None = None
        self._touched: set[int] = set()
        self._masks: dict[str, tuple[Mapping[str, Any], Bools]] = {}

    def changed(self, numbers: Iterable[int]) -> None:
        if self._known is not None:
            self._touched.update(numbers)

    def fitting(self, where: Mapping[str, Any], room: int) -> Bools:
        """Return by number which skills fit a filter, with room for so many."""
        if self._known is None:
            self._known = self._rows.metadata()
        if self._touched:
            fresh = self._rows.metadata(sorted(self._touched))
            for number in self._touched:
                self._known.pop(number, None)
                for filtered, mask in self._masks.values():
                    if number < len(mask):
                        mask[number] = fits(fresh.get(number, {}), filtered)
            self._known.update(fresh)
            self._touched.clear()
        key = json.dumps(where, sort_keys=True, default=repr)
        _, mask = self._masks.pop(key, (where, np.zeros(0, np.bool_)))
        if len(mask) < room:
            before, mask = len(mask), grown(mask, room)
            mask[before:] = fits({}, where)
            for number, metadata in self._known.items():
                if before <= number < len(mask):
                    mask[number] = fits(metadata, where)
        self._masks[key] = where, mask  # the last one is the latest
        if len(self._masks) > FILTERS:
            del self._masks[next(iter(self._masks))]
        return self._masks[key][1]
