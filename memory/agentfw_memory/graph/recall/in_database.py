"""Recall on a graph that is too large for a process: the database searches, and the process ranks what came back.

Candidates and what is connected to them are read into a small `GraphCache`. What needs the whole graph is computed by
`prepare` and saved: communities, how common words are, and the calibration.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from ..communities import Membership, shares
from ..graph_rows import GraphRows
from ..graph_settings import GraphSettings
from ..index.embedders import Embedder, weight_of_vectors
from ..index.vector_index import products
from ..index.word_index import DatabaseQuestion
from ..records import Bools, Float32Array, Floats, Integers, Skill, Use
from ..row_types import LIVE, live_rows
from ..stores.store import Among, Corpus, Delete, Head, Insert, Proposals, Select
from ..validation import fits
from .calibration import SAMPLE, TRUSTED, Together, Trust, calibrated, uses_before
from .embedded import NAMED
from .graph_cache import BACKGROUND, GAP, SAMPLED, GraphCache, drawn
from .ranking import Asked, Ranked, Similarity, rank

COMMON = 1_000  # number of shared skills with a word from which the word is a common one
FOCUSED = 200  # number of similar skills that learning looks at
HEAD, WORDS = "search", "search words"  # names of the saved states

_Around = tuple[GraphCache, Integers, Integers, Together | None, Bools | None]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """What `prepare` found out about the whole graph."""

    counter: int
    corpus: Corpus
    trust: Trust
    communities: tuple[int, ...]
    common: dict[str, int]
    background: Float32Array


class DatabaseRecall:
    """What one process asks the database about one tenant."""

    membership: Membership | None = None

    def __init__(self, rows: GraphRows, settings: GraphSettings, embedder: Embedder) -> None:
        assert rows.store.search is not None
        self._rows, self._settings, self._embedder = rows, settings, embedder
        self._search = rows.store.search
        self.cache = self._filled(())
        self._prepared: Prepared | None = None
        self._checked_at = -1
        self._forgotten = 0

    def catch_up(self, head: Head, upto: int) -> None:
        """Look whether the graph was prepared anew, and whether somebody was forgotten."""
        if head.counter != self._checked_at:
            state = self._rows.state(HEAD)
            saved = json.loads(state) if state else None
            if saved is not None and (self._prepared is None or saved["counter"] != self._prepared.counter):
                corpus, trust = Corpus(**saved["corpus"]), Trust(**saved["trust"])
                common = json.loads(self._rows.state(WORDS) or b"{}")
                background, communities = self._vectors(saved["sample"]), tuple(saved["communities"])
                self._prepared = Prepared(saved["counter"], corpus, trust, communities, common, background)
            elif self._prepared is None:
                slow = 'tenant "%s" has more than %d skills and isn\'t prepared, so searching it is slow; run `%s`'
                most = self._settings.in_memory_up_to
                logger.warning(slow, self._rows.store.tenant, most, "agentfw memory prepare")
                found = self._search.summary(common=COMMON, sample=BACKGROUND, uses=0)
                background = self._vectors(found.sample)
                self._prepared = Prepared(0, found.corpus, TRUSTED, (), found.common, background)
            self._checked_at = head.counter
        if head.forgotten != self._forgotten:
            self._forgotten = head.forgotten
            self._rows.forget_names()

    def rank(self, asked: Asked) -> list[Ranked]:
        prepared, settings = self._prepared, self._settings
        assert prepared is not None  # since `catch_up`
        query = "" if settings.query_similarity == "vectors" else asked.query
        question = DatabaseQuestion(query, asked.reader, self._rows.texts, prepared.corpus, prepared.common)
        most = max(settings.candidates, asked.k)
        found = self._search.propose(question, asked.vector, most, asked.where)
        similarity = self._similarity(asked, question, found, prepared)
        candidates = similarity.best(most)
        if (asked.scenarios or asked.tools) and settings.context_weight:
            about: dict[str, Any] = {"tools": asked.tools, "where": asked.where}
            near = self._search.similar_in(asked.scenarios, asked.vector, NAMED, asked.reader or 0, **about)
            candidates = np.fromiter(dict.fromkeys([*candidates.tolist(), *near]), np.int64)
        if not len(candidates):
            return []
        cache, candidates, numbers, communities, allowed = self._around(candidates.tolist(), asked, question)
        if asked.reader is not None:
            cache.know_user(asked.reader, found.person, described=found.described)
        stored, trust = numbers.tolist(), prepared.trust if settings.calibrate else TRUSTED
        of = self._rows.in_context(asked.scenarios, asked.tools, stored) if settings.context_weight else {}
        context = {place: of[number] for place, number in enumerate(stored) if number in of}
        similarity.stored = numbers
        ranked = rank(cache, communities, candidates, similarity, settings, asked, trust, allowed, context)
        through = [one.found and (one.found[0], stored[one.found[1]]) for one in ranked]
        return [replace(one, number=stored[one.number], found=how) for one, how in zip(ranked, through, strict=True)]

    def read(self, numbers: list[int], user: str, reader: int | None) -> dict[int, Skill]:
        return self._rows.skills(numbers, reader or 0)

    def uses(self, trajectory: int, user: int, skills: Sequence[int], reward: float) -> list[Use]:
        """Return what a trajectory used, with the terms of these skills before it."""
        cache, owners = self._filled(skills), self._rows.owners(skills)
        vector, described = self._search.person(user)
        cache.know_user(user, vector, described=described)
        nodes = {user, *skills, *(owner for _, owner in owners)}
        labels = self._rows.store.read(Select("community", ("node", "labels"), {"node": Among(nodes)}))[0]
        numbers = np.array(skills, np.int64)
        together = _saved_communities(numbers, owners, labels, len(self._settings.resolutions))
        return uses_before(cache, together(user, np.arange(len(numbers))), trajectory, user, numbers, reward)

    def rated(self, numbers: list[int]) -> list[int]:
        return numbers  # nobody says here which ones were

    def focus(self, owner: int, scenarios: Sequence[int], vectors: Iterable[Float32Array]) -> None:
        wanted = dict.fromkeys(self._rows.owned(owner))
        for vector in vectors:
            wanted.update(dict.fromkeys(self._search.similar_in(scenarios, vector, FOCUSED, owner)))
            if self._settings.share_after:
                wanted.update(dict.fromkeys(self._search.similar_in(scenarios, vector, FOCUSED, None)))
        self.cache = self._filled(wanted)

    def communities(self) -> tuple[int, ...]:
        return self._prepared.communities if self._prepared else ()

    def prepare(self) -> None:
        """Compute what needs the whole graph, create the indexes, and save it all for every process."""
        settings = self._settings
        logger.info("indexes are created")
        self._search.build(self._embedder.dimensions)
        membership = Membership(self._rows, settings) if settings.community_weight else None
        if membership is not None:
            logger.info("communities are computed")
            membership.split_all()
        summary = self._search.summary(common=COMMON, sample=max(SAMPLE, BACKGROUND), uses=SAMPLED)
        near, _ = self._search.connected(summary.sample, None, seconds=GAP, siblings=0)
        cache = self._filled({*summary.sample, *near, *(use.skill for use in summary.uses)})
        cache.uses.extend(summary.uses)
        known = [number for number in summary.sample if number < len(cache.live) and cache.live[number]]
        trust = calibrated(cache, settings, np.array(sorted(known)[:SAMPLE], np.int64))
        with self._rows.writing() as change:
            communities: tuple[int, ...] = ()
            if membership is not None:
                nodes, labels = membership.labels()
                rows = [(node, json.dumps(some)) for node, some in zip(nodes.tolist(), labels.tolist(), strict=True)]
                self._rows.store.write(Delete("community", {}), Insert("community", ("node", "labels"), rows))
                communities = membership.counts
            found = {"counter": change.number, "corpus": asdict(summary.corpus), "trust": asdict(trust)}
            found |= {"sample": summary.sample, "communities": communities}
            self._rows.save_state(change, HEAD, json.dumps(found).encode())
            self._rows.save_state(change, WORDS, json.dumps(summary.common, ensure_ascii=False).encode())

    def save(self) -> None:
        """Do nothing: the database holds everything."""

    def _vectors(self, numbers: list[int]) -> Float32Array:
        none = np.zeros((0, self._embedder.dimensions), np.float32)
        return np.concatenate([none, *(rows.vectors for rows in self._rows.live(numbers))])

    def _filled(self, numbers: Iterable[int]) -> GraphCache:
        cache, wanted = GraphCache(self._rows, self._embedder.dimensions), sorted(numbers)
        for rows in self._rows.live(wanted):
            cache.know(rows, self._rows.relations(wanted))
        return cache

    def _around(self, numbers: list[int], asked: Asked, question: DatabaseQuestion) -> _Around:
        """Return skills with what is connected to them, as far as the reader may see it, in a cache that numbers them
        from 0. Arrays for a million skills would take longer than all else in this process. With it come those of the
        skills that are there, the numbers of all in the store in ascending order, their communities, and which of them
        may be returned, or None for all."""
        settings, reader = self._settings, asked.reader
        cache = self._filled(())
        near, siblings = self._search.connected(numbers, reader, seconds=GAP, siblings=settings.siblings)
        wanted = sorted({*numbers, *near, *siblings})
        some, valid = Among(wanted), {"valid_to": None}
        columns, related_kinds = ("kind", "source", "target"), ("COMPLEMENTS", "CONFLICTS")
        owned = {"target": some, "kind": "OWNS", **valid}
        live, sources, targets, texts, labels, labels_of_owners = self._rows.store.read(
            Select("live", LIVE, {"number": some}),
            Select("edge", columns, {"source": some, "kind": related_kinds, **valid}),
            Select("edge", columns, {"target": some, "kind": ("OWNS", *related_kinds), **valid}),
            Select("version", ("number", "text", "metadata"), {"number": some, **valid}),
            Select("community", ("node", "labels"), {"node": Among([reader or 0, *wanted])}),
            Select("community", ("node", "labels"), {"node": Among(Select("edge", ("source",), owned))}),
        )
        question.know({number: text for number, text, _ in texts})
        place = {number: place for place, number in enumerate(wanted)}
        edges = [*sources, *targets]
        if live:
            rows = live_rows(self._rows.store, live)
            relations = [
                (kind, place[one], place[other])
                for kind, one, other in edges
                if kind in related_kinds and one in place and other in place
            ]
            cache.know(replace(rows, numbers=np.array([place[one] for one in rows.numbers.tolist()])), relations)
        every, there = np.array(wanted, np.int64), {row[0] for row in live}
        communities: Together | None = None
        if settings.community_weight and reader is not None:
            owners = sorted((target, source) for kind, source, target in edges if kind == "OWNS")
            saved = (*labels, *labels_of_owners)
            communities = _saved_communities(every, owners, saved, len(settings.resolutions))
        allowed: Bools | None = None
        if asked.where:
            fitting = {one for one, _, about in texts if fits(json.loads(about) if about else {}, asked.where)}
            allowed = np.array([one in fitting for one in wanted], np.bool_)
        # Another process may just have ended some of them.
        first = [place[number] for number in numbers if number in there]
        candidates = np.array([one for one in first if allowed is None or allowed[one]], np.int64)
        return cache, candidates, every, communities, allowed

    def _similarity(self, asked: Asked, question: DatabaseQuestion, found: Proposals, prepared: Prepared) -> Similarity:
        def nearest(k: int) -> Integers:
            (shared, cosines), (own, own_cosines) = found.shared, found.own
            numbers, both = np.concatenate([shared, own[:k]]), np.concatenate([cosines, own_cosines[:k]])
            return numbers[np.lexsort((numbers, -both))[:k]]

        way = self._settings.query_similarity
        if way != "vectors":
            question.take(found)
        if asked.vector is None or way == "vectors":
            return Similarity(asked.vector, nearest, None if way == "vectors" else question)
        mine = drawn(np.arange(len(found.own[0])), BACKGROUND)
        cosines = np.concatenate([products(prepared.background, asked.vector), found.own[1][mine]])
        count = question.count if found.fitting is None else found.fitting
        return Similarity(asked.vector, nearest, question, cosines, count, weight_of_vectors(self._embedder))


def _saved_communities(
    numbers: Integers, owners: Iterable[tuple[int, int]], labels: Iterable[tuple[int, str]], levels: int
) -> Together:
    """Return what compares users and skills, by their places, by the communities that `prepare` saved of them. A later
    skill is in those of its owner."""
    known, nowhere = {node: tuple(json.loads(text)) for node, text in labels}, (-1,) * levels
    behind = defaultdict[int, list[int]](list)  # by skill: the users who have it
    for skill, owner in owners:
        behind[skill].append(owner)
    for skill, users in behind.items():
        known.setdefault(skill, known.get(users[0], nowhere))

    def labels_of(nodes: Integers) -> Integers:
        return np.array([known.get(node, nowhere) for node in nodes.tolist()], np.int64)

    def together(user: int, places: Integers) -> Floats:
        if user not in known:
            return np.zeros(len(places))
        skills = numbers[places]
        shared = {place: behind[skill] for place, skill in enumerate(skills.tolist()) if skill in behind}
        several = {place: np.array(users) for place, users in shared.items() if len(users) > 1}
        return shares(np.array(known[user], np.int64), skills, several, labels_of)

    return together
