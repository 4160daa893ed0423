"""Recall on a graph that is too large for a process: the database searches, and the process ranks what came back.

For each call, the candidates and what is connected to them are read into a small `GraphCache`, and everything else
works on it as on a whole graph: ranking, calibration and learning.

What needs the whole graph is computed by `prepare` and saved in the database: communities, how common words are, and
the calibration. Skills that came later are found at once, but are in no community until the next time.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from agentfw_memory.graph.arrays import Float32Array, Floats, Integers
from agentfw_memory.graph.communities.membership import Membership, shares
from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.index.vector_index import products
from agentfw_memory.graph.index.word_index_state import way_of_terms
from agentfw_memory.graph.recall.calibration import SAMPLE, TRUSTED, Together, Trust, calibrated
from agentfw_memory.graph.recall.connections import REMEMBERED, SAMPLED
from agentfw_memory.graph.recall.graph_cache import BACKGROUND, GraphCache, drawn
from agentfw_memory.graph.recall.ranking import Ranked, chosen, rank
from agentfw_memory.graph.recall.server_words import COMMON, ServerQuestion
from agentfw_memory.graph.recall.similarity import HybridSimilarity, Scores, Similarity, WordSimilarity
from agentfw_memory.graph.recall.timeline import GAP
from agentfw_memory.graph.stores.interface import Corpus, Labels, Search, Store

__all__ = ["ServerRecall"]

Nearest = tuple[Integers, Floats]
"""Skills with their similarities, the most similar first."""
NONE: Nearest = np.zeros(0, np.int64), np.zeros(0)
HEAD, WORDS = "search", "search words"
"""Names of the saved states."""
COMPLETED = 1_000
"""Number of skills that are looked through between two commits."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """What `prepare` found out about the whole graph."""

    counter: int
    corpus: Corpus
    trust: Trust
    sample: tuple[int, ...]
    communities: tuple[int, ...]
    common: dict[str, int]
    background: Float32Array


class SavedCommunities:
    """The communities that `prepare` saved, of some skills and their owners. A later skill is in those of its owner."""

    def __init__(self, numbers: Integers, owners: Iterable[tuple[int, int]], labels: Labels, levels: int) -> None:
        self._numbers, self._owners, self._labels, self._nowhere = numbers, owners, labels, (-1,) * levels

    def together(self, user: int, places: Integers) -> Floats:
        skills = self._numbers[places]
        owners: dict[int, list[int]] = {number: [] for number in skills.tolist()}
        for skill, owner in self._owners:
            if skill in owners:
                owners[skill].append(owner)
        known = dict(self._labels)
        if user not in known:
            return np.zeros(len(skills))
        for skill, users in owners.items():
            if skill not in known and users:
                known[skill] = known.get(users[0], self._nowhere)

        def labels(nodes: Integers) -> Integers:
            return np.array([known.get(node, self._nowhere) for node in nodes.tolist()], np.int64)

        several = {place: np.array(users) for place, users in enumerate(owners.values()) if len(users) > 1}
        return shares(np.array(known[user], np.int64), skills, several, labels)


@dataclass(frozen=True)
class Around:
    """Some skills with what is connected to them, in a cache that numbers them from 0.

    Arrays for a million skills, of which a few hundred are there, would take longer than all else in this process.
    """

    cache: GraphCache
    candidates: Integers
    numbers: Integers
    """Their numbers in the store, in ascending order."""
    communities: Together | None

    def as_stored(self, one: Ranked) -> Ranked:
        found = one.found and replace(one.found, candidate=int(self.numbers[one.found.candidate]))
        return replace(one, number=int(self.numbers[one.number]), found=found)


class Renumbered:
    """A similarity for skills that are numbered from 0."""

    def __init__(self, similarity: Similarity, numbers: Integers) -> None:
        self._similarity, self._numbers, self.few = similarity, numbers, similarity.few

    def best(self, k: int) -> Integers:
        return self._numbers.searchsorted(self._similarity.best(k))

    def of(self, numbers: Integers, vectors: Float32Array) -> dict[str, Scores]:
        return self._similarity.of(self._numbers[numbers], vectors)

    def lengths(self, numbers: Integers) -> Floats:
        return self._similarity.lengths(self._numbers[numbers])

    def evidence(self, similar: Scores) -> Scores:
        return self._similarity.evidence(similar)


class ServerVectors:
    """Dot products with a query: those of the best shared skills, and those of all private ones.

    Of the shared ones there are as many as `best` is asked for.
    """

    few = False

    def __init__(self, query: Float32Array, shared: Nearest, own: Nearest) -> None:
        self._query, self._shared = query, shared
        self.own, self.own_cosines = own

    def best(self, k: int) -> Integers:
        shared, cosines = self._shared
        numbers, both = np.concatenate([shared, self.own[:k]]), np.concatenate([cosines, self.own_cosines[:k]])
        return numbers[np.lexsort((numbers, -both))[:k]]

    def of(self, numbers: Integers, vectors: Float32Array) -> dict[str, Scores]:
        return {"vectors": products(vectors, self._query)}

    def lengths(self, numbers: Integers) -> Floats:
        return np.zeros(len(numbers))

    def evidence(self, similar: Scores) -> Scores:
        return np.full(len(similar), np.inf)


class ServerRecall:
    """What one process asks the database about one tenant."""

    def __init__(self, store: Store, search: Search, settings: GraphSettings, dimensions: int) -> None:
        self._store, self._search, self._settings, self._dimensions = store, search, settings, dimensions
        self._prepared: Prepared | None = None

    def rank(
        self,
        query: str,
        vector: Float32Array | None,
        reader: int | None,
        k: int,
        times: Sequence[tuple[float, float]],
        asked: Mapping[int, float],
        at_least: float,
        head: bytes | None,
    ) -> list[Ranked]:
        """Return the k best skills. `head` is what `head` has just returned."""
        prepared, settings = self.prepared(head), self._settings
        similarity, question, person = self._similarity(query, vector, reader, k, prepared)
        around = self._around(chosen(similarity, settings, k, asked).tolist(), reader, question)
        if reader is not None:
            around.cache.know_user(reader, person[0], described=person[1])
        ranked = rank(
            around.cache,
            around.communities,
            around.candidates,
            Renumbered(similarity, around.numbers),
            settings,
            user=reader,
            k=k,
            trust=prepared.trust if settings.calibrate else TRUSTED,
            query=query,
            times=times,
            asked={place: asked[number] for place, number in enumerate(around.numbers.tolist()) if number in asked},
            at_least=at_least,
        )
        return [around.as_stored(one) for one in ranked]

    def of_owner(self, user: int, scenarios: Sequence[int], vectors: Iterable[Float32Array], most: int) -> GraphCache:
        """Return all skills of a user, and the skills of these scenarios that are most similar to some vectors."""
        cache = GraphCache(self._store, self._settings, self._dimensions)
        wanted = dict.fromkeys(self._store.owned(user))
        for vector in vectors:
            wanted.update(dict.fromkeys(self._search.similar_in(scenarios, vector, most, user)))
            if self._settings.share_after:
                wanted.update(dict.fromkeys(self._search.similar_in(scenarios, vector, most, None)))
        self._fill(cache, wanted)
        return cache

    def head(self) -> bytes | None:
        """Return what says whether something else was found out since."""
        return self._store.state(HEAD)

    def prepared(self, head: bytes | None) -> Prepared:
        """Return what was found out last, if this is its head."""
        saved = json.loads(head) if head else None
        if self._prepared is None or (saved is not None and saved["counter"] != self._prepared.counter):
            if saved is None:
                logger.warning(
                    'tenant "%s" has more than %d skills and isn\'t prepared, so searching it is slow; '
                    "run `agentfw memory prepare`",
                    self._store.tenant,
                    self._settings.in_memory_up_to,
                )
                corpus, common = self._search.describe(COMMON)
                saved = {"counter": 0, "trust": asdict(TRUSTED), "sample": self._search.sample(BACKGROUND)}
                saved |= {"corpus": asdict(corpus), "communities": []}
            else:
                common = json.loads(self._store.state(WORDS) or b"{}")
                if saved.get("way") != way_of_terms():
                    logger.warning(
                        'tenant "%s" was prepared by a version that split or stemmed some words differently, so these '
                        "aren't found by word in older skills; run `agentfw memory prepare` once",
                        self._store.tenant,
                    )
            rows = self._search.rows(saved["sample"])
            self._prepared = Prepared(
                saved["counter"],
                Corpus(**saved["corpus"]),
                Trust(**saved["trust"]),
                tuple(saved["sample"]),
                tuple(saved["communities"]),
                common,
                np.zeros((0, self._dimensions), np.float32) if rows is None else rows.vectors,
            )
        return self._prepared

    def prepare(self, progress: Callable[[str], object] = logger.info) -> None:
        """Compute what needs the whole graph, create the indexes, and save it all for every process."""
        self._complete(progress)
        progress("indexes are created")
        self._search.build(self._dimensions)
        membership = Membership(self._store, self._settings) if self._settings.community_weight else None
        if membership is not None:
            progress("communities are computed")
            membership.catch_up()
            membership.split_all()
        corpus, common = self._search.describe(COMMON)
        sample = self._search.sample(max(SAMPLE, BACKGROUND))
        trust = self._calibrated(sample, membership)
        with self._store.writing() as change:
            communities: tuple[int, ...] = ()
            if membership is not None:
                self._search.save_labels(change, *membership.labels())
                communities = membership.counts
            head = {
                "counter": change.number,
                "way": way_of_terms(),
                "corpus": asdict(corpus),
                "trust": asdict(trust),
                "sample": sample,
                "communities": communities,
            }
            self._store.save_state(change, HEAD, json.dumps(head).encode())
            self._store.save_state(change, WORDS, json.dumps(common, ensure_ascii=False).encode())

    # Helpers

    def _complete(self, progress: Callable[[str], object]) -> None:
        """Store the words and times of skills that an earlier version stored without them, or with other words."""
        head = self._store.state(HEAD)
        known = head is not None and json.loads(head).get("way") == way_of_terms()
        last: int | None = 0
        while last is not None:
            with self._store.writing():
                last = self._search.complete(last, COMPLETED, known=known)
            if last is not None:
                progress("words and times of skills were looked through")

    def _around(self, numbers: list[int], reader: int | None, question: ServerQuestion | None) -> Around:
        """Return skills with what is connected to them, as far as the reader may see it."""
        search, store, settings = self._search, self._store, self._settings
        cache = GraphCache(store, settings, self._dimensions)
        if not numbers:
            return Around(cache, np.zeros(0, np.int64), np.zeros(0, np.int64), None)
        count, by_owner = settings.siblings, settings.second_hop == "owner"
        follows = bool(count) and not by_owner
        near, mates, used, related = store.together(
            lambda: search.around(numbers, reader, GAP),
            lambda: (search.siblings if by_owner else search.mates)(numbers, reader, count) if count else [],
            lambda: search.used_with(numbers, REMEMBERED) if follows else [],
            lambda: store.relations(numbers) if follows else [],
        )
        linked = (end for _, *both in related for end in both)
        wanted = sorted({*numbers, *near, *mates, *linked, *(skill for _, skill in used)})
        belongs = bool(settings.community_weight) and reader is not None
        rows, edges, labels, _ = store.together(
            lambda: search.rows(wanted),
            lambda: search.edges_of(wanted),
            lambda: search.labels(wanted, reader or 0) if belongs else {},
            lambda: question.read(wanted) if question is not None else None,
        )
        place = {number: place for place, number in enumerate(wanted)}
        there = [] if rows is None else rows.numbers.tolist()
        if rows is not None:
            relations = [
                (kind, place[one], place[other])
                for kind, one, other in edges
                if kind in ("COMPLEMENTS", "CONFLICTS") and one in place and other in place
            ]
            cache.know(replace(rows, numbers=np.array([place[number] for number in there])), relations)
        members = {*numbers, *mates} if follows else set()
        applying = [(source, target) for kind, source, target in edges if kind == "APPLIES_TO"]
        applying += [(target, source) for kind, source, target in edges if kind == "TRIGGERS"]
        scenarios = [(place[skill], scenario) for skill, scenario in applying if skill in members]
        cache.connections.know(scenarios, [(one, place[skill]) for one, skill in used], ())
        owners = sorted((target, source) for kind, source, target in edges if kind == "OWNS")
        every, gone = np.array(wanted, np.int64), set(numbers).difference(there)  # another process has just ended them
        candidates = np.array([place[number] for number in numbers if number not in gone], np.int64)
        communities = SavedCommunities(every, owners, labels, len(settings.resolutions)) if belongs else None
        return Around(cache, candidates, every, communities)

    def _fill(self, cache: GraphCache, numbers: Iterable[int]) -> None:
        wanted = sorted(numbers)
        rows, relations = self._store.together(lambda: self._search.rows(wanted), lambda: self._store.relations(wanted))
        if rows is not None:
            cache.know(rows, relations)

    def _similarity(
        self, query: str, vector: Float32Array | None, reader: int | None, k: int, prepared: Prepared
    ) -> tuple[Similarity, ServerQuestion | None, tuple[Float32Array | None, bool]]:
        """Return how similar skills are, the query by words, and the vector of the user."""
        search, nobody = self._search, (None, False)
        by_words = self._settings.query_similarity != "vectors"
        question = None
        if by_words:
            question = ServerQuestion(query, reader, self._store, search, prepared.corpus, prepared.common)
        asks = [] if question is None else [question.found, question.found_together, question.own, question.mine]
        most = max(self._settings.candidates, k)
        person, shared, own, *found = self._store.together(
            lambda: nobody if reader is None else search.person(reader),
            lambda: NONE if vector is None else search.nearest(vector, most),
            lambda: NONE if vector is None or reader is None else search.own(reader, vector),
            *asks,
        )
        if question is not None:
            question.take(*found)
        if vector is None:
            assert question is not None
            return WordSimilarity(question), question, person
        by_vectors = ServerVectors(vector, shared, own)
        if question is None:
            return by_vectors, None, person
        mine = drawn(np.arange(len(by_vectors.own)), BACKGROUND)
        cosines = np.concatenate([products(prepared.background, vector), by_vectors.own_cosines[mine]])
        return HybridSimilarity(by_vectors, question, cosines), question, person

    def _calibrated(self, sample: list[int], membership: Membership | None) -> Trust:
        cache = GraphCache(self._store, self._settings, self._dimensions)
        uses = self._search.latest_uses(SAMPLED)
        near = self._search.around(sample, None, GAP)
        self._fill(cache, {*sample, *near, *(skill for _, _, skill, _ in uses)})
        cache.connections.know((), (), uses)
        for user in {user for _, user, _, _ in uses}:
            vector, described = self._search.person(user)
            cache.know_user(user, vector, described=described)
        known = [number for number in sample if number < len(cache.live) and cache.live[number]]
        return calibrated(cache, membership, self._settings, np.array(sorted(known)[:SAMPLE], np.int64))
