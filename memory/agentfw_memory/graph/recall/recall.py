"""Recall: brings the in-memory copy up to date and returns skills with the reasons for them.

Before each recall the store is asked whether anything has changed, so the answer is the graph as of that moment. Each
returned skill is checked once more for whether this user may see it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from agentfw_memory.errors import StorageError, StoreRefusedError
from agentfw_memory.graph.arrays import Float32Array
from agentfw_memory.graph.communities.membership import Membership
from agentfw_memory.graph.facts.newest_first import newest_first
from agentfw_memory.graph.facts.questions import asked_share, wanted_subjects
from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.index.embedders import Embedder
from agentfw_memory.graph.index.skill_index import PARTS
from agentfw_memory.graph.index.vector_index import ListIndex, faiss_installed, products
from agentfw_memory.graph.index.vector_index_file import load_index, save_index
from agentfw_memory.graph.index.word_index import SHARED, WordIndex
from agentfw_memory.graph.index.word_index_state import load_words, save_words
from agentfw_memory.graph.recall.calibration import TRUSTED, Trust, calibrated
from agentfw_memory.graph.recall.graph_cache import GraphCache
from agentfw_memory.graph.recall.loaded import SMALL
from agentfw_memory.graph.recall.ranking import Ranked, chosen, rank
from agentfw_memory.graph.recall.ratings import Rating, by_ratings
from agentfw_memory.graph.recall.server_recall import ServerRecall
from agentfw_memory.graph.recall.similarity import HybridSimilarity, Similarity, VectorSimilarity, WordSimilarity
from agentfw_memory.graph.records import Hit, Skill, Why
from agentfw_memory.graph.stores.interface import EmbedderRecord, Search, Store
from agentfw_memory.graph.text.dates import spans
from agentfw_memory.graph.validation import check_vectors

__all__ = ["Recaller", "record_of"]

ATTEMPTS = 3
ORDERED = 10
"""Minimum number of hits among which those about the same thing are ordered by time."""
MAXIMUM_CACHED_SKILLS = 50_000
RECALIBRATED_AFTER = 0.05
"""Share of the skills that must have changed before the terms are calibrated again."""
RESAVE_GROWTH = 0.05
"""Share of an index that must have changed to be saved again."""
FOCUSED = 200
"""Number of similar skills that learning looks at in a graph that isn't in memory."""
NOBODY = 0
"""The number of a user who isn't in the store yet. No node has it."""


class Recaller:
    """What one process holds of one tenant. Not thread-safe."""

    cache: GraphCache
    membership: Membership | None
    _words: WordIndex | None
    _trust: Trust | None
    _skill_cache: dict[int, Skill]
    _readers: dict[str, int | None]

    def __init__(self, store: Store, embedder: Embedder, settings: GraphSettings) -> None:
        self._store, self._embedder, self._settings = store, embedder, settings
        self._maker = record_of(embedder)
        self._saved_sizes: dict[str, int] = {}
        self.server: ServerRecall | None = None
        """Searches in the database, if the graph is too large for this process."""
        self._reset()

    def embed(self, texts: list[str]) -> Float32Array:
        return check_vectors(self._embedder.embed(texts), texts, self._embedder.dimensions)

    def check_embedder(self) -> None:
        """Raise StoreRefusedError if another process has re-embedded the tenant."""
        present = self._store.embedder()
        if present != self._maker:
            raise _wrong_embedder(self._store.tenant, present, self._maker)

    def catch_up(self, upto: int | None = None) -> None:
        """Take over all changes of the store, or those up to the change `upto`."""
        if self.server is not None:
            self.check_embedder()
            return
        counter = self._store.counter() if upto is None else upto
        if counter == self.cache.counter:
            return
        self.check_embedder()
        search, most = self._store.search, self._settings.in_memory_up_to
        if not self.cache.counter:
            if search is not None and search.count() > most:
                self._leave_to(search)
                return
            self._load_indexes()
        self._readers.clear()
        try:
            self._update(self.cache.catch_up(counter))
        except BaseException:
            # A half-updated cache can't be trusted. The next call loads it again.
            self._reset()
            raise
        if search is not None and len(self.cache) > most:
            self._leave_to(search)

    def recall(self, query: str, user: str, k: int, at_least: float, *, upto: int | None = None) -> list[Hit]:
        """Return the k best skills that are at least so relevant, as of the change `upto` at least."""
        vector = self._query_vector(query)
        with self._store.reading():
            if self.server is None:
                self.catch_up(upto)
            return self._recall(query, vector, user, k, at_least)

    def _recall(self, query: str, vector: Float32Array | None, user: str, k: int, at_least: float) -> list[Hit]:
        times = spans(query, self._store.now()) if self._settings.time_weight else ()
        for _ in range(ATTEMPTS):
            reader, stated, head, _ = self._store.together(
                lambda: self._reader(user),
                lambda: self._stated(query, user),
                lambda: None if self.server is None else self.server.head(),
                lambda: None if self.server is None else self.check_embedder(),
            )
            asked = self._visible(stated, reader)
            ranked = self._ranked(query, vector, reader, max(k, ORDERED), times, asked, at_least, head)
            skills, ratings = self._read(ranked, user, reader)
            if ratings:
                ranked = by_ratings(query, ranked, ratings, self._settings.rating_weight)
            if len(skills) == len(ranked):
                break
            # Another process has just removed one of them or made it private.
            self.catch_up()
        hits = [_hit(one, skills) for one in ranked if one.number in skills]
        return (newest_first(query, hits) if self._settings.fact_weight and not times else hits)[:k]

    def _ranked(
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
        if self.server is not None:
            return self.server.rank(query, vector, reader, k, times, asked, at_least, head)
        similarity, settings = self._similarity(query, vector, reader), self._settings
        return rank(
            self.cache,
            self.membership,
            chosen(similarity, settings, k, asked),
            similarity,
            settings,
            user=reader,
            k=k,
            trust=self._calibrated(),
            query=query,
            times=times,
            asked=asked,
            at_least=at_least,
        )

    def asked(self, query: str, user: str, reader: int | None) -> dict[int, float]:
        """Return the skills that state a fact which a query asks for, each with how much of that it states."""
        return self._visible(self._stated(query, user), reader)

    def focus(self, owner: str, scenarios: Sequence[str], vectors: Iterable[Float32Array]) -> None:
        """Have a user's skills at hand, and those of these scenarios that are most similar to some vectors.

        A graph that is in memory has them anyway.
        """
        if self.server is not None:
            user = self._store.find("user", owner)
            known = [self._store.find("scenario", name) for name in scenarios]
            numbers = [number for number in known if number is not None]
            self.cache = self.server.of_owner(NOBODY if user is None else user, numbers, vectors, FOCUSED)

    def focus_on(self, user: int) -> None:
        """Have a user's skills at hand."""
        if self.server is not None:
            self.cache = self.server.of_owner(user, (), (), FOCUSED)

    def save(self) -> None:
        """Save the communities, the word index and large indexes of vectors for the next process."""
        self.catch_up()
        if self.membership is not None:
            self.membership.save()
        if self._words is not None and sum(self._words.touched.values()) > RESAVE_GROWTH * len(self._words):
            save_words(self._words, self.cache.counter, self._store)
        for part, index in self.cache.index.parts.items():
            # An index saved a while ago is good enough: the next process adds what came later.
            grown = abs(len(index) - self._saved_sizes.get(part, 0)) > RESAVE_GROWTH * len(index)
            if isinstance(index, ListIndex) and grown and save_index(index, part, self.cache.counter, self._store):
                self._saved_sizes[part] = len(index)

    def prepare(self) -> None:
        """Do what may take long: load everything and run a full pass over the communities."""
        self.catch_up()
        if self.server is not None:
            self.server.prepare()
            return
        if self._settings.community_weight:
            self._joined().split_all()
        self.save()

    def communities(self) -> tuple[int, ...]:
        """Return the number of communities per level."""
        self.catch_up()
        if self.server is not None:
            return self.server.prepared(self.server.head()).communities
        if not self._settings.community_weight:
            return ()
        if self.membership is None:
            self._joined().catch_up()
        return self._joined().counts

    def drop_communities(self) -> None:
        """Compute the communities again, because a user was forgotten."""
        self.membership = None
        self.catch_up()

    def unload(self) -> None:
        """Give back the memory of a small graph."""
        if len(self.cache) <= SMALL:
            self._reset()

    def close(self) -> None:
        """Save, if anything was loaded, no other process has changed the embedder, and the store can be reached."""
        if self.cache.counter:
            with contextlib.suppress(StoreRefusedError, StorageError):
                self.save()

    # Helpers

    def _stated(self, query: str, user: str) -> dict[int, float]:
        subjects = wanted_subjects(query, user) if self._settings.fact_weight else []
        stated = self._store.facts_of(subjects) if subjects else []
        shares = {number: asked_share(name.partition(": ")[2], query) for name, number in stated}
        return {number: share for number, share in shares.items() if share}

    def _visible(self, found: Mapping[int, float], reader: int | None) -> dict[int, float]:
        return {number: found[number] for number in self._store.skills(list(found), reader or NOBODY)} if found else {}

    def _leave_to(self, search: Search) -> None:
        """Let the database search from now on, because the graph is too large for a process."""
        self._reset()
        self.server = ServerRecall(self._store, search, self._settings, self._embedder.dimensions)

    def _reset(self) -> None:
        self.cache = GraphCache(self._store, self._settings, self._embedder.dimensions)
        self.membership = None
        self._words = None if self._settings.query_similarity == "vectors" else WordIndex()
        self._words_saved_at = 0
        self._trust, self._uncalibrated = None, 0
        self._skill_cache = {}
        self._readers = {}

    def _reader(self, user: str) -> int | None:
        if self.server is not None:
            return self._store.find("user", user)
        if user not in self._readers:
            if len(self._readers) > MAXIMUM_CACHED_SKILLS:
                self._readers.clear()
            self._readers[user] = self._store.find("user", user)
        return self._readers[user]

    def _update(self, touched: list[int]) -> None:
        """Update what depends on skills that are new, changed or gone."""
        for number in touched if self._skill_cache else ():
            self._skill_cache.pop(number, None)
        if self._words is not None:
            self._update_words(self._words, touched)
        self._uncalibrated += len(touched)
        if self.membership is not None or self._communities_count():
            live = self.cache.live
            self._joined().catch_up(touched, [one for one in touched if one >= len(live) or not live[one]])

    def _communities_count(self) -> bool:
        """Return whether communities can change a score. Finding them takes seconds in a large graph."""
        settings = self._settings
        return bool(settings.community_weight and (not settings.calibrate or self.cache.connections.uses))

    def _joined(self) -> Membership:
        if self.membership is None:
            self.membership = Membership(self._store, self._settings)
            self._trust = None
        return self.membership

    def _update_words(self, words: WordIndex, touched: list[int]) -> None:
        if self._words_saved_at:
            # The cache was just filled, so everything is touched. Of a saved index, only later changes are not there.
            unlike = np.setxor1d(np.flatnonzero(self.cache.live), words.numbers())
            touched = np.union1d(unlike, self._store.changed(self._words_saved_at)).astype(np.int64).tolist()
            self._words_saved_at = 0
        texts = self._store.texts(touched)
        for number in touched:
            if number in texts and number < len(self.cache.live) and self.cache.live[number]:
                part = SHARED if self.cache.shared[number] else int(self.cache.owner[number])
                words.put(number, texts[number], part)
            else:
                words.remove(number)

    def _load_indexes(self) -> None:
        if self._words is not None and (saved := load_words(self._store)):
            self._words, self._words_saved_at = saved
        for part in PARTS if faiss_installed() else ():
            found = load_index(self._store, part, dimensions=self._embedder.dimensions, probed=self._settings.probed)
            if found is not None:
                self.cache.start_with(part, *found)
                self._saved_sizes[part] = len(found[0])

    def _skills(self, numbers: list[int], user: str, reader: int | None) -> dict[int, Skill]:
        """Return those of these skills that exist and that this user may see."""
        if self.server is not None:  # nobody says here which skills have changed
            return self._store.skills(numbers, NOBODY if reader is None else reader)
        missing = [number for number in numbers if number not in self._skill_cache]
        if missing:
            if len(self._skill_cache) > MAXIMUM_CACHED_SKILLS:
                self._skill_cache.clear()
                missing = numbers
            self._skill_cache.update(self._store.skills(missing, NOBODY if reader is None else reader))
        found = {number: self._skill_cache[number] for number in numbers if number in self._skill_cache}
        return {number: skill for number, skill in found.items() if skill.visibility == "shared" or skill.owner == user}

    def _query_vector(self, query: str) -> Float32Array | None:
        return None if self._settings.query_similarity == "words" else self.embed([query])[0]

    def _similarity(self, query: str, vector: Float32Array | None, reader: int | None) -> Similarity:
        if self._words is None or vector is None:
            if vector is not None:
                return VectorSimilarity(self.cache, vector, reader)
            assert self._words is not None
            return WordSimilarity(self._words.question(query, reader))
        by_vectors = VectorSimilarity(self.cache, vector, reader)
        cosines = np.concatenate([products(some, vector) for some in self.cache.background(reader)])
        return HybridSimilarity(by_vectors, self._words.question(query, reader), cosines)

    def _read(
        self, ranked: Sequence[Ranked], user: str, reader: int | None
    ) -> tuple[dict[int, Skill], Sequence[Rating]]:
        """Return these skills, and what the user thought of answers with them."""
        rated = self._rated(ranked) if reader is not None and self._settings.rating_weight else []
        skills, ratings = self._store.together(
            lambda: self._skills([one.number for one in ranked], user, reader),
            lambda: self._store.ratings(reader or NOBODY, rated) if rated else [],
        )
        return skills, ratings

    def _rated(self, ranked: Sequence[Ranked]) -> list[int]:
        """Return those of these skills that somebody may have rated an answer with."""
        rated = None if self.server is not None else self.cache.connections.rated
        return [one.number for one in ranked if rated is None or one.number in rated]

    def _calibrated(self) -> Trust:
        if not self._settings.calibrate:
            return TRUSTED
        if self._trust is None or self._uncalibrated > RECALIBRATED_AFTER * len(self.cache):
            self._trust, self._uncalibrated = calibrated(self.cache, self.membership, self._settings), 0
        return self._trust


def record_of(embedder: Embedder) -> EmbedderRecord:
    return EmbedderRecord(embedder.name, embedder.version, int(embedder.dimensions))


def _wrong_embedder(tenant: str, present: EmbedderRecord | None, given: EmbedderRecord) -> StoreRefusedError:
    def shown(one: EmbedderRecord | None) -> str:
        return f"{one.name} (version {one.version or 'unknown'}, {one.dimensions} dimensions)" if one else "nobody"

    return StoreRefusedError(
        f'the vectors of tenant "{tenant}" were made by {shown(present)}, not by {shown(given)}',
        fix="open it with that embedder, or re-embed it: SkillGraph.reembed(path, tenant=..., embedder=...)",
    )


PATHS = {
    "owner": "same owner ({owner}) as s{candidate}",
    "scenario": "same scenario as s{candidate}",
    "trajectory": "used together with s{candidate}",
    "complement": "complements s{candidate}",
    "time": "just before or after s{candidate}",
}
"""How a connection between a candidate and a skill is told."""


def _hit(one: Ranked, skills: dict[int, Skill]) -> Hit:
    skill = skills[one.number]
    path = "similar to the query"
    if one.found is not None:
        told = PATHS[one.found.connection].format(owner=skill.owner, candidate=one.found.candidate)
        path = f"{told}, which is similar to the query"
    return Hit(one.score, skill, Why(**one.terms, path=path, points=one.points), one.relevance)
