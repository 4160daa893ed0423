"""The interface between a skill graph and the database it is kept in.

A store is opened for one tenant and reads and writes only that tenant's rows. No method takes a tenant, so that no
caller can reach another one. A store keeps rows and knows nothing of ranking.

    with store.writing() as change:                      # all of this is committed, or none of it
        owner = store.nodes(change, "user", ["ana"])["ana"]
        store.add_skills(change, [SkillRow(...)])

Every write belongs to a `Change`. Changes are numbered in order, and each row records the change that last touched it,
so other processes can ask for what changed `since` the last one they have seen.

All nodes of a tenant share one sequence of numbers, and no number is used twice. A skill's id is `s` and its number.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from agentfw_memory.graph.arrays import Bools, Float32Array, Floats, Integers
from agentfw_memory.graph.records import Edge, EdgeKind, NodeKind, Skill, SkillVersion, Visibility

__all__ = [
    "MINIMUM_WEIGHT",
    "Answer",
    "Change",
    "Clock",
    "Corpus",
    "EdgeRow",
    "EmbedderRecord",
    "Labels",
    "LiveRows",
    "Query",
    "Record",
    "Search",
    "SkillRow",
    "Store",
    "TrajectoryRow",
    "told_apart",
]

MINIMUM_WEIGHT = 0.05
"""Minimum reward of a use that counts towards communities. Modularity needs weights above zero."""

Record = dict[str, Any]
"""One exported row: plain JSON values, with the name of its table under "row"."""

Answer = TypeVar("Answer")

Query = tuple[Any, ...]
"""A statement that reads, and its values."""

Labels = Mapping[int, tuple[int, ...]]
"""The communities of users and skills, from the coarsest level."""

Clock = Callable[[], float]
"""Returns the current time in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class EmbedderRecord:
    """The embedder that made a tenant's vectors. Vectors of different embedders can't be compared."""

    name: str
    version: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Change:
    """An open write transaction: its number and its time."""

    number: int
    now: float


@dataclass(frozen=True, slots=True)
class SkillRow:
    """The first version of a new skill, or the next version of a skill."""

    number: int
    owner: int
    text: str
    visibility: Visibility
    vector: Float32Array
    valid_from: float
    metadata: str = ""
    """An object as JSON, or nothing."""
    expires_at: float | None = None


@dataclass(frozen=True, slots=True)
class LiveRows:
    """The columns of valid skills that a search needs, one entry per skill."""

    numbers: Integers
    owners: Integers
    shared: Bools
    uses: Integers
    rewards: Floats
    """Sum of the rewards of all uses."""
    valid_from: Floats
    vectors: Float32Array


@dataclass(frozen=True, slots=True)
class EdgeRow:
    kind: EdgeKind
    source: int
    target: int
    weight: float = 1.0
    valid_from: float | None = None


@dataclass(frozen=True, slots=True)
class TrajectoryRow:
    """What is kept of a trajectory. Its steps and messages are not."""

    id: str
    user: int
    query: str
    outcome: str
    reward: float


@dataclass(frozen=True, slots=True)
class Corpus:
    """How many texts there are and how many different terms they have, each text counted for itself."""

    count: int
    length: int


def told_apart(text: str, metadata: str) -> str:
    """Return what tells an owner's skills apart: the text, with the metadata if there is any, in whatever order."""
    return f"{text}\0{json.dumps(json.loads(metadata), sort_keys=True)}" if metadata else text


class Search(Protocol):
    """Searches the skills of one tenant in the database, so that no process has to hold all of it.

    Shared skills are searched by an index, and what a user has in private is read as a whole: it is little. So what a
    user may not see is never looked at. Answers are as of the moment, without any cache.
    """

    def count(self) -> int:
        """Return the number of valid skills."""

    def nearest(self, query: Float32Array, k: int) -> tuple[Integers, Floats]:
        """Return the shared skills with the most similar vectors, and these similarities."""

    def own(self, user: int, query: Float32Array) -> tuple[Integers, Floats]:
        """Return all private skills of a user and their similarities, the most similar first."""

    def shared_with(self, terms: Sequence[str], most: int) -> dict[str, list[int]]:
        """Return for each term up to `most` shared skills that have it."""

    def shared_with_all(self, terms: Sequence[str], most: int, among: int | None = None) -> list[int]:
        """Return up to `most` shared skills that have all of these terms, of all or of so many first ones."""

    def own_with(self, user: int, terms: Sequence[str]) -> dict[str, list[int]]:
        """Return for each term the private skills of a user that have it."""

    def own_corpus(self, user: int) -> Corpus:
        """Describe the texts of a user's private skills."""

    def around(self, numbers: Sequence[int], reader: int | None, seconds: float) -> list[int]:
        """Return the visible skills just before and after each of these in time, at most so far away."""

    def used_with(self, numbers: Sequence[int], latest: int) -> list[tuple[int, int]]:
        """Return (trajectory, skill) for all uses in the latest trajectories of each of these, oldest first."""

    def mates(self, numbers: Sequence[int], reader: int | None, count: int) -> list[int]:
        """Return visible skills of each scenario of these: the most useful of the newest shared ones, and all private
        ones."""

    def siblings(self, numbers: Sequence[int], reader: int | None, count: int) -> list[int]:
        """Return the most useful visible skills of the owners of these skills."""

    def similar_in(self, scenarios: Sequence[int], query: Float32Array, k: int, reader: int | None) -> list[int]:
        """Return the skills of these scenarios with the most similar vectors: visible ones, or anyone's private ones.

        Without scenarios, all skills are looked at.
        """

    def person(self, user: int) -> tuple[Float32Array | None, bool]:
        """Return the vector of a user's profile, or the mean of their skills, or None, and whether it is a profile."""

    def latest_uses(self, count: int) -> list[tuple[int, int, int, float]]:
        """Return (trajectory, user, skill, reward) of the latest uses, oldest first."""

    def rows(self, numbers: Sequence[int]) -> LiveRows | None:
        """Return the valid ones of these skills, by number, or None if there are none."""

    def edges_of(self, skills: Sequence[int]) -> list[tuple[EdgeKind, int, int]]:
        """Return (kind, source, target) of what a recall needs of these skills: owners, scenarios and relations."""

    def labels(self, skills: Sequence[int], user: int) -> Labels:
        """Return the communities of a user, of these skills, and of their owners."""

    def save_labels(self, change: Change, nodes: Integers, labels: Integers) -> None:
        """Replace the communities of all users and skills."""

    def complete(self, after: int, rows: int, *, known: bool) -> int | None:
        """Store for up to `rows` skills after this number what searching needs. Return the last one's number, or None.

        Only for those that lack it if the others are `known` to have the words that this version finds.
        """

    def build(self, dimensions: int) -> None:
        """Create the indexes that aren't there. Takes minutes for a million skills, during which others go on."""

    def describe(self, common: int) -> tuple[Corpus, dict[str, int]]:
        """Describe the texts of all shared skills, with the terms that more than `common` of them have."""

    def sample(self, count: int) -> list[int]:
        """Return up to `count` shared skills, drawn from all of them."""


class Store(Protocol):
    """The rows of one tenant."""

    tenant: str

    # The tenant

    @property
    def identity(self) -> str:
        """Random id of this store and tenant. A cache made for another identity is discarded."""

    def embedder(self) -> EmbedderRecord | None:
        """The embedder of the vectors, or None before the first one."""

    def set_embedder(self, change: Change, embedder: EmbedderRecord) -> None: ...

    def now(self) -> float:
        """The time of the store's clock."""

    def counter(self) -> int:
        """The number of the last change."""

    def forgotten(self) -> int:
        """The number of the last change that deleted for good. Caches from before it must not stay on disk."""

    def retried(self, call: Callable[[], Answer], *, repeatable: bool) -> Answer:
        """Return what a call returns. Repeat it for a while if it loses its connection to a server.

        A call that is not `repeatable` is repeated only if it is certain that nothing of it was stored.
        """

    # Writing

    def writing(self) -> AbstractContextManager[Change]:
        """Open a write transaction. It commits at the end of the block and rolls back on an exception.

        Waits for other writers. Reads inside the block see its writes.
        """

    def nodes(self, change: Change, kind: NodeKind, names: Sequence[str]) -> dict[str, int]:
        """Return the numbers of nodes by name, creating missing ones. Not for skills and trajectories."""

    def new_numbers(self, change: Change, count: int) -> range: ...

    def add_skills(self, change: Change, rows: Sequence[SkillRow]) -> None:
        """Add skills with new numbers."""

    def twins(self, pairs: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
        """Return the numbers of valid skills that have one of these (owner, text) pairs. See `told_apart`."""

    def replace_skill(self, change: Change, row: SkillRow) -> None:
        """End the current version at `row.valid_from` and start this one."""

    def end_skills(self, change: Change, numbers: Sequence[int], when: float | None = None) -> None:
        """End skills with their versions and edges, now or `when`. Their vectors are deleted, their history stays."""

    def set_expiry(self, change: Change, number: int, when: float | None) -> None:
        """Change when a skill ends by itself. This is no new version."""

    def count_use(self, change: Change, number: int, uses: int, rewards: float) -> None:
        """Add to a skill's number of uses and to the sum of their rewards."""

    def recount(self, change: Change, numbers: Iterable[int]) -> None:
        """Recompute uses and rewards of these skills from their valid EXECUTED edges."""

    def touch(self, change: Change, numbers: Iterable[int]) -> None:
        """Mark skills as changed, for example because an edge of theirs did."""

    def add_edges(self, change: Change, rows: Sequence[EdgeRow]) -> int:
        """Add edges and return how many are new.

        An edge that exists with the same weight stays. With another weight the old edge ends and a new one starts.
        """

    def end_edges(self, change: Change, rows: Sequence[EdgeRow]) -> int:
        """End edges and return how many existed."""

    def add_trajectory(self, change: Change, row: TrajectoryRow) -> int:
        """Add a trajectory and return its number."""

    def set_profile(self, change: Change, user: int, text: str, vector: Float32Array) -> None: ...

    # Reading

    def reading(self) -> AbstractContextManager[None]:
        """Read several times over one connection. Each read still sees what was committed just before it."""

    def together(self, *calls: Callable[[], Any]) -> list[Any]:
        """Return what some calls return that only read, and none of which needs what another one returns.

        A server is asked by all of them at once. For this, a call may be begun several times.
        """

    def find(self, kind: NodeKind, name: str) -> int | None:
        """Return the number of a node, or None. Trajectories are found by their id."""

    def live(self, since: int = 0, rows: int = 20_000) -> Iterator[LiveRows]:
        """Yield the valid skills that changed after `since`, by number, in batches of up to `rows`."""

    def changed(self, since: int) -> list[int]:
        """Return the valid skills that changed after `since`, sorted."""

    def ended(self, since: int) -> list[int]:
        """Return the skills that ended or were forgotten after `since`, and the users that were forgotten."""

    def structure(self, after: int = 0) -> Iterator[tuple[int, int, int, float]]:
        """Yield the edges that communities are found in: (row, user, skill, weight), oldest first, after a row.

        A user is connected to their own skills (OWNS), and to skills that their trajectories used (EXECUTED). The
        weight of a use is its reward. Uses below `MINIMUM_WEIGHT` are left out.
        """

    def relations(self, numbers: Sequence[int] | None = None) -> list[tuple[EdgeKind, int, int]]:
        """Return the valid COMPLEMENTS and CONFLICTS edges of these skills, or of all skills."""

    def scenarios(self, numbers: Sequence[int] | None = None) -> list[tuple[int, int]]:
        """Return (skill, scenario) for the valid APPLIES_TO and TRIGGERS edges of these skills, or of all skills."""

    def latest_edge(self) -> int:
        """Return the row of the latest edge, or 0."""

    def uses(self, after: int = 0) -> Iterator[tuple[int, EdgeKind, int, int, int, float]]:
        """Yield the valid EXECUTED and SHOWN edges after a row, oldest first.

        Each is (row, kind, trajectory, its user, skill, reward).
        """

    def ratings(self, user: int, numbers: Sequence[int]) -> list[tuple[int, str, float]]:
        """Return (skill, query, reward) of the trajectories of a user that showed one of these skills, oldest first."""

    def profile(self, user: int) -> Float32Array | None:
        """Return the vector of a user's profile."""

    def profiles_changed(self, since: int) -> list[int]:
        """Return the users whose profile changed after `since`."""

    def owned(self, user: int) -> list[int]:
        """Return the valid skills of a user, sorted."""

    def owned_in(self, user: int, scenario: int) -> list[int]:
        """Return the valid skills of a user that apply to a scenario or are triggered by it, sorted."""

    def holders(self, prefix: str = "") -> list[str]:
        """Return the names of the users who have valid skills, sorted: all, or those that begin with a prefix."""

    def look(self) -> tuple[int, bool]:
        """Return the last change, as `counter` does, and whether there are skills whose time is over."""

    def expired(self) -> list[int]:
        """Return the valid skills whose time is over."""

    def skills(self, numbers: Sequence[int], reader: int | None = None) -> dict[int, Skill]:
        """Return the valid ones of these skills, in this order. With a `reader`, only those that user may see."""

    def names(self, numbers: Collection[int]) -> dict[int, str]:
        """Return the names of these users, tools, scenarios and other nodes, without those that are forgotten."""

    def texts(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the texts of the valid ones of these skills."""

    def skills_of(self, scenario: int) -> list[int]:
        """Return the valid skills that apply to a scenario or are triggered by it."""

    def versions(self, number: int) -> list[SkillVersion]:
        """Return all versions of a skill, oldest first."""

    def facts_of(self, subjects: Sequence[str]) -> list[tuple[str, int]]:
        """Return (name of the fact, skill) for all facts of these subjects that are stated now."""

    def held_at(self, when: float, reader: int) -> dict[int, tuple[str, SkillVersion]]:
        """Return what held at a time, of what this user may see: (owner, version) by skill."""

    def owners_ever(self, numbers: Sequence[int]) -> list[tuple[int, int]]:
        """Return (skill, owner) for these skills, ended ones included."""

    def versions_of(self, user: int) -> list[tuple[int, int, str, bool]]:
        """Return (skill, ordinal, text, whether it has ended) for all versions of a user's skills."""

    def told_by(self, user: int) -> list[tuple[int, str]]:
        """Return (number, query and outcome) for all trajectories of a user."""

    def edges(self, number: int) -> list[Edge]:
        """Return all edges of a node, ended ones included, oldest first."""

    def edge_rows(self, number: int) -> list[EdgeRow]:
        """Return the valid edges of a node, oldest first."""

    def owners(self, numbers: Sequence[int]) -> list[tuple[int, int]]:
        """Return (skill, user) for each user who has one of these skills, by skill and user."""

    def co_uses(self, numbers: Sequence[int], reward: float) -> dict[tuple[int, int], int]:
        """Count the trajectories of at least this reward that used both skills of a pair, smaller number first."""

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """Return {"nodes": by kind, "edges": valid ones by kind, "skills": {"shared": n, "past": n}}."""

    def bytes_on_disk(self) -> int:
        """Return the size of the database, other tenants included."""

    @property
    def index_path(self) -> Path | None:
        """Where a search index may be saved, or None if it can't be saved beside this store."""

    @property
    def search(self) -> Search | None:
        """Searches in the database, or None if the database can't."""

    # Saved caches

    def save_state(self, change: Change, name: str, state: bytes) -> None: ...

    def state(self, name: str) -> bytes | None: ...

    # Forgetting

    def forget(self, change: Change, user: int) -> dict[str, int]:
        """Delete a user and all their data, and all saved states. Return row counts by the names of `Receipt`."""

    def erase_versions(
        self, change: Change, versions: Sequence[tuple[int, int]], trajectories: Sequence[int]
    ) -> dict[str, int]:
        """Delete these versions (number, ordinal), and skills that have no version left with their vectors and edges.

        Empty the texts of these trajectories. Return row counts by the names of `Receipt`.
        """

    def erase(self) -> None:
        """Remove deleted rows from the files too. Call it after the deletion was committed."""

    # Re-embedding

    def stage_vectors(self, change: Change, embedder: EmbedderRecord, vectors: Mapping[int, Float32Array]) -> None:
        """Store new vectors of skills and profiles without using them yet.

        Vectors staged for another embedder are deleted. Changing a text deletes its staged vector.
        """

    def unstaged(self, embedder: EmbedderRecord, rows: int) -> list[tuple[int, str]]:
        """Return up to `rows` (number, text) pairs that have no staged vector of this embedder."""

    def take_staged(self, change: Change, embedder: EmbedderRecord) -> None:
        """Replace all vectors by the staged ones."""

    # Export and import

    def dump(self) -> Iterator[Record]:
        """Yield all rows, history included, from one snapshot, in the order that `load` expects."""

    def load(self, change: Change, records: Iterable[Record]) -> int:
        """Add the rows of a dump to an empty tenant and return how many there are.

        Raises ValueError for an invalid row, and for vectors of another embedder than the tenant's.
        """

    def close(self) -> None: ...
