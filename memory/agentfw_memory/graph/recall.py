"""Recalling: what a process holds in memory for it, brought up to date, and the skills with the reasons they came.

The one rule: before anything is recalled, the store is asked whether anything has changed. What comes back is the graph
as it was at that moment, and each skill is looked at once more: whether this reader may see it.
"""

from __future__ import annotations

import contextlib

from agentfw_memory.errors import StoreRefusedError
from agentfw_memory.graph.bm25 import Words
from agentfw_memory.graph.community_membership import Membership
from agentfw_memory.graph.embedders import Embedder
from agentfw_memory.graph.graph_cache import View
from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.ranking import Likeness, Ranked, VectorLikeness, WordLikeness, rank
from agentfw_memory.graph.records import Hit, Skill, Why
from agentfw_memory.graph.skill_index import SHELVES
from agentfw_memory.graph.stores.interface import EmbedderRecord, Float32Array, Store
from agentfw_memory.graph.validation import rows_of
from agentfw_memory.graph.vector_index import ListIndex, faiss_installed
from agentfw_memory.graph.vector_index_file import load_index, save_index

__all__ = ["Recaller", "record_of"]

TRIES = 3
SEEN = 50_000
"""So many skills that were recalled are kept as they are, until they change."""
RESAVED = 0.05
"""An index that has grown by this share is saved again."""
NOBODY = 0
"""A user who has nothing yet; no node has this number."""


class Recaller:
    """What one process knows of one tenant. For one thread at a time."""

    view: View
    membership: Membership | None
    _words: Words[int] | None
    _seen: dict[int, Skill]

    def __init__(self, store: Store, embedder: Embedder, settings: GraphSettings) -> None:
        self._store, self._embedder, self._settings = store, embedder, settings
        self._maker = record_of(embedder)
        self._saved_sizes: dict[str, int] = {}
        self._start()

    def embed(self, texts: list[str]) -> Float32Array:
        return rows_of(self._embedder.embed(texts), texts, self._embedder.dimensions)

    def check_embedder(self) -> None:
        """An error where another process has embedded everything anew with something else."""
        kept = self._store.embedder()
        if kept != self._maker:
            raise _refusal(self._store.tenant, kept, self._maker)

    def catch_up(self, upto: int | None = None) -> None:
        """Bring what is in memory to the present, or to the change `upto`."""
        counter = self._store.counter() if upto is None else upto
        if counter == self.view.counter:
            return
        self.check_embedder()
        if not self.view.counter:
            self._begin()
        try:
            self._take(self.view.catch_up(counter))
        except BaseException:
            # What was taken in half can't be trusted; the next who asks loads it anew.
            self._start()
            raise

    def recall(self, query: str, user: str, k: int) -> list[Hit]:
        """The k skills that fit best."""
        self.catch_up()
        reader = self._store.find("user", user)
        likeness = self._likeness(query, reader)
        for _ in range(TRIES):
            ranked = rank(self.view, self.membership, likeness, self._settings, user=reader, k=k)
            skills = self._skills([one.number for one in ranked], user, reader)
            if len(skills) == len(ranked):
                break
            # Another process has just taken one of them away, or made it private.
            self.catch_up()
        return [_hit(one, skills) for one in ranked if one.number in skills]

    def save(self) -> None:
        """Keep the communities and a large index for the next process."""
        self.catch_up()
        if self.membership is not None:
            self.membership.save()
        for shelf, index in self.view.shelves.indexes.items():
            # What was saved a while ago is good too: the next process takes what came after.
            grown = abs(len(index) - self._saved_sizes.get(shelf, 0)) > RESAVED * len(index)
            if isinstance(index, ListIndex) and grown and save_index(index, shelf, self.view.counter, self._store):
                self._saved_sizes[shelf] = len(index)

    def prepare(self) -> None:
        """Everything that may take long: loading, and a full pass over the communities."""
        self.catch_up()
        if self.membership is not None:
            self.membership.split_all()
        self.save()

    def drop_communities(self) -> None:
        """Somebody was forgotten: count the communities anew, without them."""
        self.membership = None
        self.catch_up()

    def close(self) -> None:
        """Save, if anything was ever recalled, and unless others have gone over to another embedder."""
        if self.view.counter:
            with contextlib.suppress(StoreRefusedError):
                self.save()

    # Within

    def _start(self) -> None:
        """Know nothing yet."""
        self.view = View(self._store, self._settings, self._embedder.dimensions)
        self.membership = None
        self._words = Words() if self._settings.query_similarity == "words" else None
        self._seen = {}

    def _take(self, touched: list[int]) -> None:
        """Bring to the present what follows from the view, of which these skills are new, changed or gone."""
        for number in touched if self._seen else ():
            self._seen.pop(number, None)
        if self._words is not None:
            texts = self._store.texts(touched)
            for number in touched:
                if number in texts:
                    self._words.add(number, texts[number])
                else:
                    self._words.remove(number)
        if self._settings.community_weight:
            self.membership = self.membership or Membership(self._store, self._settings)
            live = self.view.live
            self.membership.catch_up(one for one in touched if one >= len(live) or not live[one])

    def _begin(self) -> None:
        for shelf in SHELVES if faiss_installed() else ():
            found = load_index(self._store, shelf, dimensions=self._embedder.dimensions, probed=self._settings.probed)
            if found is not None:
                self.view.begin_with(shelf, *found)
                self._saved_sizes[shelf] = len(found[0])

    def _skills(self, numbers: list[int], user: str, reader: int | None) -> dict[int, Skill]:
        """These skills, as far as they are there for this reader."""
        missing = [number for number in numbers if number not in self._seen]
        if missing:
            if len(self._seen) > SEEN:
                self._seen.clear()
                missing = numbers
            self._seen.update(self._store.skills(missing, NOBODY if reader is None else reader))
        found = {number: self._seen[number] for number in numbers if number in self._seen}
        return {number: skill for number, skill in found.items() if skill.visibility == "shared" or skill.owner == user}

    def _likeness(self, query: str, reader: int | None) -> Likeness:
        if self._words is not None:
            return WordLikeness(self._words, query, self.view, reader)
        return VectorLikeness(self.view, self.embed([query])[0], reader)


def record_of(embedder: Embedder) -> EmbedderRecord:
    return EmbedderRecord(embedder.name, embedder.version, int(embedder.dimensions))


def _refusal(tenant: str, kept: EmbedderRecord | None, given: EmbedderRecord) -> StoreRefusedError:
    def shown(one: EmbedderRecord | None) -> str:
        return f"{one.name} (version {one.version or 'unknown'}, {one.dimensions} dimensions)" if one else "nobody"

    return StoreRefusedError(
        f'the vectors of tenant "{tenant}" were made by {shown(kept)}, not by {shown(given)}',
        fix="open it with that embedder, or make them anew: SkillGraph.reembed(path, tenant=..., embedder=...)",
    )


def _hit(one: Ranked, skills: dict[int, Skill]) -> Hit:
    if one.found_by is None:
        path = "like the query"
    else:
        skill = skills[one.number]
        path = f"also {skill.owner}'s, as is s{one.found_by}, which is like the query"
    return Hit(one.score, skills[one.number], Why(*one.terms, path))
