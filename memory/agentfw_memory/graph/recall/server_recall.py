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
from dataclasses import asdict, dataclass

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
from agentfw_memory.graph.stores.interface import Corpus, Search, Store

__all__ = ["ServerRecall"]

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


class Labels:
    """The communities that `prepare` saved. A later skill is in those of its owner."""

    def __init__(self, store: Store, search: Search, levels: int) -> None:
        self._store, self._search, self._nowhere = store, search, (-1,) * levels

    def together(self, user: int, skills: Integers) -> Floats:
        owners: dict[int, list[int]] = {number: [] for number in skills.tolist()}
        for skill, owner in self._store.owners(list(owners)):
            owners[skill].append(owner)
        known = dict(self._search.labels([user, *owners, *(one for some in owners.values() for one in some)]))
        if user not in known:
            return np.zeros(len(skills))
        for skill, users in owners.items():
            if skill not in known and users:
                known[skill] = known.get(users[0], self._nowhere)

        def labels(nodes: Integers) -> Integers:
            return np.array([known.get(node, self._nowhere) for node in nodes.tolist()], np.int64)

        several = {place: np.array(users) for place, users in enumerate(owners.values()) if len(users) > 1}
        return shares(np.array(known[user], np.int64), skills, several, labels)


class ServerVectors:
    """Dot products with a query: those of the best shared skills, and those of all private ones."""

    few = False

    def __init__(self, query: Float32Array, reader: int | None, search: Search) -> None:
        self._query, self._search = query, search
        empty = np.zeros(0, np.int64), np.zeros(0)
        self.own, self.own_cosines = empty if reader is None else search.own(reader, query)

    def best(self, k: int) -> Integers:
        shared, cosines = self._search.nearest(self._query, k)
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
    ) -> list[Ranked]:
        """Return the k best skills."""
        prepared, settings = self.prepared(), self._settings
        similarity = self._similarity(query, vector, reader, prepared)
        candidates = chosen(similarity, settings, k, asked)
        cache = self.around(candidates.tolist(), reader)
        labels = self._labels() if settings.community_weight else None
        trust = prepared.trust if settings.calibrate else TRUSTED
        return rank(
            cache,
            labels,
            candidates,
            similarity,
            settings,
            user=reader,
            k=k,
            trust=trust,
            query=query,
            times=times,
            asked=asked,
            at_least=at_least,
        )

    def around(self, numbers: list[int], reader: int | None) -> GraphCache:
        """Return skills with what is connected to them, as far as the reader may see it."""
        search, settings = self._search, self._settings
        cache = GraphCache(self._store, settings, self._dimensions)
        if not numbers:
            return cache
        wanted = dict.fromkeys([*numbers, *search.around(numbers, reader, GAP)])
        scenarios: list[tuple[int, int]] = []
        used: list[tuple[int, int]] = []
        if settings.siblings and settings.second_hop == "owner":
            wanted.update(dict.fromkeys(search.siblings(numbers, reader, settings.siblings)))
        elif settings.siblings:
            used = search.used_with(numbers, REMEMBERED)
            scenarios = self._store.scenarios(numbers)
            named = sorted({scenario for _, scenario in scenarios})
            mates = search.mates(named, reader, settings.siblings) if named else []
            scenarios += self._store.scenarios(mates) if mates else []
            related = [one for _, *ends in self._store.relations(numbers) for one in ends]
            wanted.update(dict.fromkeys([*(skill for _, skill in used), *mates, *related]))
        self._fill(cache, wanted)
        cache.connections.know(((skill, one) for skill, one in scenarios if skill in wanted), used, ())
        if reader is not None:
            self._know_user(cache, reader)
        return cache

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

    def prepared(self) -> Prepared:
        """Return what was found out last."""
        head = self._store.state(HEAD)
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

    def _labels(self) -> Together:
        return Labels(self._store, self._search, len(self._settings.resolutions))

    def _fill(self, cache: GraphCache, numbers: Iterable[int]) -> None:
        rows = self._search.rows(sorted(numbers))
        if rows is not None:
            cache.know(rows)

    def _know_user(self, cache: GraphCache, user: int) -> None:
        vector, described = self._search.person(user)
        cache.know_user(user, vector, described=described)

    def _similarity(
        self, query: str, vector: Float32Array | None, reader: int | None, prepared: Prepared
    ) -> Similarity:
        by_words = self._settings.query_similarity != "vectors"
        question = (
            ServerQuestion(query, reader, self._store, self._search, prepared.corpus, prepared.common)
            if by_words
            else None
        )
        if vector is None:
            assert question is not None
            return WordSimilarity(question)
        by_vectors = ServerVectors(vector, reader, self._search)
        if question is None:
            return by_vectors
        own = drawn(np.arange(len(by_vectors.own)), BACKGROUND)
        cosines = np.concatenate([products(prepared.background, vector), by_vectors.own_cosines[own]])
        return HybridSimilarity(by_vectors, question, cosines)

    def _calibrated(self, sample: list[int], membership: Membership | None) -> Trust:
        cache = GraphCache(self._store, self._settings, self._dimensions)
        uses = self._search.latest_uses(SAMPLED)
        near = self._search.around(sample, None, GAP)
        self._fill(cache, {*sample, *near, *(skill for _, _, skill, _ in uses)})
        cache.connections.know((), (), uses)
        for user in {user for _, user, _, _ in uses}:
            self._know_user(cache, user)
        known = [number for number in sample if number < len(cache.live) and cache.live[number]]
        return calibrated(cache, membership, self._settings, np.array(sorted(known)[:SAMPLE], np.int64))
