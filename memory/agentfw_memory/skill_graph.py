"""SkillGraph: a memory that recalls the skills which fit this query and this user, from a graph that learns.

The one rule: a graph belongs to one tenant, and who may see a skill is decided before anything is searched. A skill is
private to its owner or shared within the tenant; nothing ever crosses a tenant.

    >>> with SkillGraph.open(":memory:", tenant="team-a", embedder="hash") as graph:
    ...     _ = graph.add_skill(owner="ana", text="Offer the earliest slot first", scenarios=["rescheduling"])
    ...     _ = graph.add_skill(owner="ben", text="Offer the latest slot first")
    ...     [hit.skill.text for hit in graph.recall("which slot do I offer?", user="ana")]
    ['Offer the earliest slot first']

What is acknowledged is in the file, also after `kill -9`; several processes may read and write one file. Nothing is
overwritten: a change ends one version and begins another, and `history` tells all. `forget` is the exception: it leaves
no byte of a person.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from agentfw_memory.errors import BadInputError, UnknownSkillError
from agentfw_memory.graph.editing import Keeper
from agentfw_memory.graph.embedders import Embedder, open_embedder
from agentfw_memory.graph.extraction import Extractor, Trajectory, extract
from agentfw_memory.graph.graph_settings import GraphSettings, Visibility
from agentfw_memory.graph.import_export import export_jsonl, import_jsonl, to_networkx
from agentfw_memory.graph.learning import Learner
from agentfw_memory.graph.recall import Recaller, record_of
from agentfw_memory.graph.records import Hit, Learned, NewSkill, Receipt, Skill, SkillHistory, Stats
from agentfw_memory.graph.stores.interface import Clock, Store
from agentfw_memory.graph.stores.sqlite_store import SqliteStore
from agentfw_memory.graph.validation import name_of, rows_of, skill_number, text_of
from agentfw_memory.graph.vector_index_file import remove_index

if TYPE_CHECKING:
    import networkx

__all__ = ["SkillGraph"]

STAGED_AT_ONCE = 500
"""Vectors that `reembed` makes between two commits: what is lost when it is interrupted."""

EmbedderChoice = str | Embedder | Callable[[Sequence[str]], Any]


class SkillGraph:
    """The skills of one tenant. Safe to use from several threads; several processes may have the same file open."""

    def __init__(
        self, store: Store, embedder: Embedder, settings: GraphSettings, extractor: Extractor = extract
    ) -> None:
        if store.embedder() is None:
            with store.writing() as change:
                if store.embedder() is None:
                    store.set_embedder(change, record_of(embedder))
        self._store, self.settings = store, settings
        self._recaller = Recaller(store, embedder, settings)
        self._keeper = Keeper(store, self._recaller, settings)
        self._learner = Learner(store, self._recaller, self._keeper, settings, extractor)
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
        """Open or make the graph of a tenant, in a file or at a `postgresql://` address.

        Without an embedder it is the one that made the vectors that are there, or for a new graph the best that is
        installed.
        """
        chosen = settings or GraphSettings()
        store = open_store(where, tenant=tenant, settings=chosen, clock=clock)
        try:
            kept = store.embedder()
            if embedder == "" and kept is not None:
                embedder = kept.name
            return cls(store, open_embedder(embedder), chosen, extractor)
        except BaseException:
            store.close()
            raise

    @classmethod
    def tenants(cls, where: str | Path) -> list[str]:
        """Whose graphs are at a place, so that a slip in a name can be told from a new one."""
        if _on_a_server(where):
            from agentfw_memory.graph.stores.postgres_store import PostgresStore

            return PostgresStore.tenants(str(where))
        return SqliteStore.tenants(where)

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
        """Add a skill. One of the same text and owner is there once: it is given back, with what is new added."""
        return self.add_skills([NewSkill(owner, text, _listed(tools), _listed(scenarios), visibility, valid_from)])[0]

    def add_skills(self, skills: Iterable[NewSkill]) -> list[Skill]:
        """Add many at once: all of them or none."""
        with self._lock:
            return self._keeper.add(skills)

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
        """End the present version of a skill and begin another; what isn't given stays as it is."""
        with self._lock:
            return self._keeper.update(
                skill, text=text, visibility=visibility, tools=tools, scenarios=scenarios, valid_from=valid_from
            )

    def retire_skill(self, skill: str) -> None:
        """Let a skill be no longer so. It isn't recalled any more; its history stays."""
        with self._lock:
            self._keeper.retire(skill)

    def skill(self, skill: str) -> Skill:
        """A skill as it is now."""
        with self._lock:
            return self._keeper.current(skill_number(skill))

    def history(self, skill: str) -> SkillHistory:
        """Every version and every edge of a skill, those that ended included."""
        number = skill_number(skill)
        with self._lock:
            versions = self._store.versions(number)
            if not versions:
                raise UnknownSkillError(skill)
            return SkillHistory(tuple(versions), tuple(self._store.edges(number)))

    # Edges and people

    def connect(self, source: str, kind: str, target: str, *, weight: float = 1.0) -> None:
        """Draw an edge: REQUIRES, APPLIES_TO, TRIGGERS, COMPLEMENTS or CONFLICTS. Skills are named by their ids."""
        with self._lock:
            self._keeper.connect(source, kind, target, weight)

    def disconnect(self, source: str, kind: str, target: str) -> bool:
        """End an edge; False where there is none."""
        with self._lock:
            return self._keeper.disconnect(source, kind, target)

    def set_profile(self, user: str, text: str) -> None:
        """Say in words what a user is like. Without a profile a user is the mean of their skills."""
        with self._lock:
            self._keeper.set_profile(user, text)

    # The two things it is for

    def recall(self, query: str, *, user: str, k: int = 5) -> list[Hit]:
        """The k skills that fit best, of those that this user may see, each with its reasons."""
        text_of("query", query, self.settings.longest_text)
        name_of("user", user)
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise BadInputError(f"{k!r} skills can't be recalled", fix="ask for 1 or more")
        with self._lock:
            return self._recaller.recall(query, user, k)

    def learn(self, trajectory: Trajectory | Mapping[str, Any], reward: float) -> Learned:
        """Take in what happened and how good it was. A trajectory that was learned before changes nothing."""
        with self._lock:
            return self._learner.learn(trajectory, reward)

    # The whole

    def forget(self, user: str) -> Receipt:
        """Take a person out: their skills, trajectories, profile, history, vectors, and every byte of them on disk."""
        name_of("user", user)
        with self._lock:
            number = self._store.find("user", user)
            counts: dict[str, int] = {}
            if number is not None:
                with self._store.writing() as change:
                    counts = self._store.forget(change, number)
            counts["index_files"] = remove_index(self._store)
            self._store.erase()
            self._recaller.drop_communities()
            return Receipt(user, **counts)

    def stats(self) -> Stats:
        """How much there is."""
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
        """Load what recalling needs, find communities anew, and keep both for the next process.

        The first recall does the first of it by itself; a server calls this before it listens.
        """
        with self._lock:
            self._recaller.prepare()

    def export_jsonl(self, path: str | Path) -> int:
        """Write every row, history and vectors included, as lines of JSON; how many rows."""
        with self._lock:
            return export_jsonl(self._store, path)

    def import_jsonl(self, path: str | Path) -> int:
        """Take an export into this tenant, which must be empty; how many rows."""
        with self._lock:
            return import_jsonl(self._store, path)

    def to_networkx(self) -> networkx.MultiDiGraph[str]:
        """The graph as it is now, for networkx; `networkx.write_graphml` makes a file of it."""
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
        """Make every vector of a tenant anew with another embedder; how many were made.

        Until all are done the old ones stay in use. It may be interrupted: called again it goes on where it was.
        """
        maker = open_embedder(embedder)
        record, done = record_of(maker), 0
        store = open_store(where, tenant=tenant, settings=GraphSettings(), clock=clock)
        try:
            while store.embedder() != record:
                rows = store.unstaged(record, STAGED_AT_ONCE)
                texts = [text for _, text in rows]
                vectors = rows_of(maker.embed(texts), texts, record.dimensions) if texts else ()
                with store.writing() as change:
                    store.stage_vectors(change, record, dict(zip((number for number, _ in rows), vectors, strict=True)))
                    # Looked at again where nobody else can add: another process may have done so just now.
                    if not store.unstaged(record, 1):
                        store.take_staged(change, record)
                done += len(rows)
                progress(done)
        finally:
            store.close()
        return done

    def close(self) -> None:
        """Keep what spares the next process time, and let go of the store. Closing again does nothing."""
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


def open_store(where: str | Path, *, tenant: str, settings: GraphSettings, clock: Clock) -> Store:
    """The store at a place: a PostgreSQL server's address, or else a file."""
    name_of("tenant", tenant)
    if _on_a_server(where):
        from agentfw_memory.graph.stores.postgres_store import PostgresStore

        return PostgresStore.open(str(where), tenant=tenant, clock=clock)
    return SqliteStore.open(where, tenant=tenant, power_safe=settings.power_safe, clock=clock)


def _on_a_server(where: str | Path) -> bool:
    return isinstance(where, str) and where.startswith("postgresql://")


def _listed(names: Iterable[str]) -> tuple[str, ...]:
    """A text stays one, so that the check can say that it isn't a list."""
    return names if isinstance(names, str) else tuple(names)  # type: ignore[return-value]
