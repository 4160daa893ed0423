"""SkillGraph: a memory of skills that recalls those which fit a query and a user, and learns from trajectories.

    >>> with SkillGraph.open(":memory:", tenant="team-a", embedder="hash") as graph:
    ...     _ = graph.add_skill(owner="ana", text="Offer the earliest slot first", scenarios=["rescheduling"])
    ...     _ = graph.add_skill(owner="ben", text="Offer the latest slot first")
    ...     [hit.skill.text for hit in graph.recall("which slot do I offer?", user="ana")]
    ['Offer the earliest slot first']

A graph belongs to one tenant. A skill is private to its owner or shared within the tenant, and never leaves the tenant.
Only skills that a user may see are searched.

Acknowledged writes survive `kill -9`, and several processes may read and write one file. A change ends one version of
a skill and starts another, so `history` returns every version. Only `forget` deletes data.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from agentfw_memory.errors import BadInputError, UnknownSkillError
from agentfw_memory.graph.exchange.import_export import export_jsonl, import_jsonl, to_networkx
from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.index.embedders import Embedder, open_embedder
from agentfw_memory.graph.index.vector_index_file import remove_indexes
from agentfw_memory.graph.learning.editing import Editor
from agentfw_memory.graph.learning.extraction import Extractor, Trajectory, extract
from agentfw_memory.graph.learning.sharing import Sharing
from agentfw_memory.graph.learning.trajectories import Learner
from agentfw_memory.graph.recall.recall import Recaller, record_of
from agentfw_memory.graph.records import Hit, Learned, NewSkill, Receipt, Skill, SkillHistory, Stats, Visibility
from agentfw_memory.graph.stores import list_tenants, open_store
from agentfw_memory.graph.stores.interface import Clock, Store
from agentfw_memory.graph.validation import check_name, check_skill, check_text, check_vectors

if TYPE_CHECKING:
    import networkx

__all__ = ["SkillGraph"]

REEMBED_BATCH = 500
"""Number of texts that `reembed` embeds between two commits."""

EmbedderChoice = str | Embedder | Callable[[Sequence[str]], Any]


class SkillGraph:
    """The skills of one tenant. Thread-safe, and several processes may open the same file."""

    def __init__(
        self, store: Store, embedder: Embedder, settings: GraphSettings, extractor: Extractor = extract
    ) -> None:
        if store.embedder() is None:
            with store.writing() as change:
                if store.embedder() is None:
                    store.set_embedder(change, record_of(embedder))
        self._store, self.settings = store, settings
        self._recaller = Recaller(store, embedder, settings)
        self._editor = Editor(store, self._recaller, settings)
        self._learner = Learner(store, self._recaller, self._editor, settings, extractor)
        self._sharing = Sharing(store, self._recaller, settings)
        self._lock, self._closed = threading.RLock(), False
        self._recaller.check_embedder()

    @classmethod
    def open(
        cls,
        where: str | Path,
        *,
        tenant: str,
        embedder: EmbedderChoice = "",
        settings: GraphSettings | None = None,
        extractor: Extractor = extract,
        clock: Clock = time.time,
    ) -> SkillGraph:
        """Open or create a tenant's graph, in a file or at a `postgresql://` URL.

        The default embedder is the one that made the graph's vectors, or the best one installed for a new graph.
        """
        chosen = settings or GraphSettings()
        store = open_store(where, tenant=tenant, power_safe=chosen.power_safe, clock=clock)
        try:
            present = store.embedder()
            if embedder == "" and present is not None:
                embedder = present.name
            return cls(store, open_embedder(embedder), chosen, extractor)
        except BaseException:
            store.close()
            raise

    @classmethod
    def tenants(cls, where: str | Path) -> list[str]:
        """Return the names of the tenants in a file or database."""
        return list_tenants(where)

    @property
    def tenant(self) -> str:
        return self._store.tenant

    # Skills

    def add_skill(
        self,
        *,
        owner: str,
        text: str,
        tools: Iterable[str] = (),
        scenarios: Iterable[str] = (),
        visibility: Visibility = "private",
        valid_from: float | None = None,
    ) -> Skill:
        """Add a skill. If the owner has this text already, that skill is returned, with the new tools and scenarios."""
        return self.add_skills([NewSkill(owner, text, _listed(tools), _listed(scenarios), visibility, valid_from)])[0]

    def add_skills(self, skills: Iterable[NewSkill]) -> list[Skill]:
        """Add several skills: all of them or none."""
        with self._lock:
            return self._editor.add(skills)

    def update_skill(
        self,
        skill: str,
        *,
        text: str | None = None,
        visibility: Visibility | None = None,
        tools: Iterable[str] | None = None,
        scenarios: Iterable[str] | None = None,
        valid_from: float | None = None,
    ) -> Skill:
        """Start a new version of a skill. What isn't given stays as it is."""
        with self._lock:
            return self._editor.update(
                skill, text=text, visibility=visibility, tools=tools, scenarios=scenarios, valid_from=valid_from
            )

    def retire_skill(self, skill: str) -> None:
        """End a skill. It is no longer recalled, but its history stays."""
        with self._lock:
            self._editor.retire(skill)

    def skill(self, skill: str) -> Skill:
        """Return the current version of a skill."""
        with self._lock:
            return self._editor.current(check_skill(skill))

    def skills(self, *, owner: str, scenario: str | None = None) -> list[Skill]:
        """Return an owner's skills, oldest first: all of them, or those that apply to a scenario."""
        check_name("owner", owner)
        with self._lock:
            self._recaller.catch_up()
            user = self._store.find("user", owner)
            numbers = set() if user is None else set(self._recaller.cache.owned.get(user, ()))
            if scenario is not None:
                known = self._store.find("scenario", check_name("scenario", scenario))
                numbers &= set() if known is None else set(self._store.skills_of(known))
            return list(self._store.skills(sorted(numbers)).values())

    def owners(self) -> list[str]:
        """Return the users who own skills, sorted."""
        with self._lock:
            self._recaller.catch_up()
            firsts = [min(numbers) for numbers in self._recaller.cache.owned.values()]
            return sorted(skill.owner for skill in self._store.skills(firsts).values())

    def history(self, skill: str) -> SkillHistory:
        """Return every version and edge of a skill, ended ones included."""
        number = check_skill(skill)
        with self._lock:
            versions = self._store.versions(number)
            if not versions:
                raise UnknownSkillError(skill)
            return SkillHistory(tuple(versions), tuple(self._store.edges(number)))

    # Edges and users

    def connect(self, source: str, kind: str, target: str, *, weight: float = 1.0) -> None:
        """Add an edge: REQUIRES, APPLIES_TO, TRIGGERS, COMPLEMENTS or CONFLICTS. Skills are named by their ids."""
        with self._lock:
            self._editor.connect(source, kind, target, weight)

    def disconnect(self, source: str, kind: str, target: str) -> bool:
        """End an edge. Return False if there is none."""
        with self._lock:
            return self._editor.disconnect(source, kind, target)

    def set_profile(self, user: str, text: str) -> None:
        """Describe a user in words. Without a profile, the mean of a user's skills describes them."""
        with self._lock:
            self._editor.set_profile(user, text)

    # Recalling and learning

    def recall(self, query: str, *, user: str, k: int = 5) -> list[Hit]:
        """Return the k best skills that this user may see, each with the reasons for its score."""
        check_text("query", query, self.settings.longest_text)
        check_name("user", user)
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise BadInputError(f"can't recall {k!r} skills", fix="pass k as 1 or more")
        with self._lock:
            return self._recaller.recall(query, user, k)

    async def arecall(self, query: str, *, user: str, k: int = 5) -> list[Hit]:
        """Recall in another thread, so that an event loop goes on meanwhile."""
        return await asyncio.to_thread(self.recall, query, user=user, k=k)

    def learn(self, trajectory: Trajectory | Mapping[str, Any], reward: float) -> Learned:
        """Learn from a trajectory and its reward. A trajectory that was learned before changes nothing."""
        with self._lock:
            return self._learner.learn(trajectory, reward)

    async def alearn(self, trajectory: Trajectory | Mapping[str, Any], reward: float) -> Learned:
        """Learn in another thread, so that an event loop goes on meanwhile."""
        return await asyncio.to_thread(self.learn, trajectory, reward)

    # The whole graph

    def forget(self, user: str) -> Receipt:
        """Delete all data of a user: skills, trajectories, profile, history, vectors, and their bytes on disk.

        Shared copies that too few other users are behind are deleted too.
        """
        check_name("user", user)
        with self._lock:
            number = self._store.find("user", user)
            counts: dict[str, int] = {}
            if number is not None:
                self._recaller.catch_up()
                with self._store.writing() as change:
                    self._recaller.catch_up(change.number - 1)
                    shared = self._sharing.behind(number)
                    counts = self._store.forget(change, number)
                    self._sharing.settle(change, shared)
            counts["index_files"] = remove_indexes(self._store)
            self._store.erase()
            self._recaller.drop_communities()
            return Receipt(user, **counts)

    def stats(self) -> Stats:
        """Return counts, and the embedder of the vectors."""
        with self._lock:
            counts, maker = self._store.counts(), self._store.embedder()
            self._recaller.catch_up()
            membership = self._recaller.membership
            return Stats(
                self.tenant,
                counts["nodes"],
                counts["edges"],
                counts["skills"]["shared"],
                counts["skills"]["past"],
                () if membership is None else membership.counts,
                "" if maker is None else maker.name,
                "" if maker is None else maker.version,
                0 if maker is None else maker.dimensions,
                self._store.bytes_on_disk(),
            )

    def prepare(self) -> None:
        """Load the graph, compute the communities, and save both for the next process.

        The first recall loads the graph by itself. A server calls this before it starts to listen.
        """
        with self._lock:
            self._recaller.prepare()

    def export_jsonl(self, path: str | Path) -> int:
        """Write every row, with history and vectors, as lines of JSON. Return the number of rows."""
        with self._lock:
            return export_jsonl(self._store, path)

    def import_jsonl(self, path: str | Path) -> int:
        """Import an export into this tenant, which must be empty. Return the number of rows."""
        with self._lock:
            return import_jsonl(self._store, path)

    def to_networkx(self) -> networkx.MultiDiGraph[str]:
        """Return the current graph for networkx. `networkx.write_graphml` writes it to a file."""
        with self._lock:
            return to_networkx(self._store, self._recaller)

    @classmethod
    def reembed(
        cls,
        where: str | Path,
        *,
        tenant: str,
        embedder: EmbedderChoice,
        clock: Clock = time.time,
        progress: Callable[[int], object] = lambda done: None,
    ) -> int:
        """Embed all texts of a tenant again with another embedder. Return how many were embedded.

        The old vectors stay in use until all new ones are stored. An interrupted call can be repeated to resume.
        """
        maker = open_embedder(embedder)
        record, done = record_of(maker), 0
        store = open_store(where, tenant=tenant, clock=clock)
        try:
            while store.embedder() != record:
                rows = store.unstaged(record, REEMBED_BATCH)
                texts = [text for _, text in rows]
                vectors = check_vectors(maker.embed(texts), texts, record.dimensions) if texts else ()
                with store.writing() as change:
                    store.stage_vectors(change, record, dict(zip((number for number, _ in rows), vectors, strict=True)))
                    # Check again under the write lock, because another process may have added a skill just now.
                    if not store.unstaged(record, 1):
                        store.take_staged(change, record)
                done += len(rows)
                progress(done)
        finally:
            store.close()
        return done

    def close(self) -> None:
        """Save what speeds up the next process, and close the store. Closing twice does nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                try:
                    self._recaller.close()
                finally:
                    self._store.close()

    def __enter__(self) -> SkillGraph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _listed(names: Iterable[str]) -> tuple[str, ...]:
    """Return names as a tuple. A string stays a string, so that the check can reject it."""
    return names if isinstance(names, str) else tuple(names)  # type: ignore[return-value]
