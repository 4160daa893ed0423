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

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agentfw_memory.graph.arrays import Bools, Float32Array, Floats, Integers
from agentfw_memory.graph.records import Edge, EdgeKind, NodeKind, Skill, SkillVersion, Visibility

__all__ = [
    "MINIMUM_WEIGHT",
    "Change",
    "Clock",
    "EdgeRow",
    "EmbedderRecord",
    "LiveRows",
    "Record",
    "SkillRow",
    "Store",
    "TrajectoryRow",
]

MINIMUM_WEIGHT = 0.05
"""Minimum reward of a use that counts towards communities. Modularity needs weights above zero."""

Record = dict[str, Any]
"""One exported row: plain JSON values, with the name of its table under "row"."""

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
        """The number of the last change that forgot a user. Caches from before it must not stay on disk."""

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
        """Return the numbers of valid skills that have one of these (owner, text) pairs."""

    def replace_skill(self, change: Change, row: SkillRow) -> None:
        """End the current version at `row.valid_from` and start this one."""

    def end_skills(self, change: Change, numbers: Sequence[int]) -> None:
        """End skills with their versions and edges. Their vectors are deleted, their history stays."""

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

    def uses(self, after: int = 0) -> Iterator[tuple[int, int, int, int, float]]:
        """Yield the valid EXECUTED edges after a row: (row, trajectory, its user, skill, reward), oldest first."""

    def profile(self, user: int) -> Float32Array | None:
        """Return the vector of a user's profile."""

    def profiles_changed(self, since: int) -> list[int]:
        """Return the users whose profile changed after `since`."""

    def skills(self, numbers: Sequence[int], reader: int | None = None) -> dict[int, Skill]:
        """Return the valid ones of these skills, in this order. With a `reader`, only those that user may see."""

    def texts(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the texts of the valid ones of these skills."""

    def skills_of(self, scenario: int) -> list[int]:
        """Return the valid skills that apply to a scenario or are triggered by it."""

    def versions(self, number: int) -> list[SkillVersion]:
        """Return all versions of a skill, oldest first."""

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

    # Saved caches

    def save_state(self, change: Change, name: str, state: bytes) -> None: ...

    def state(self, name: str) -> bytes | None: ...

    # Forgetting

    def forget(self, change: Change, user: int) -> dict[str, int]:
        """Delete a user and all their data, and all saved states. Return row counts by the names of `Receipt`."""

    def erase(self) -> None:
        """Remove deleted rows from the files too. Call it after `forget` was committed."""

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
