"""What a skill graph needs of a store: rows of one tenant, read and written in transactions.

The one rule: a store is opened for one tenant and every row that it reads or writes is that tenant's; there is no
method by which another tenant could be named. A store keeps, and knows nothing of ranking.

    with store.writing() as change:                      # everything in here, or nothing
        owner = store.nodes(change, "user", ["ana"])["ana"]
        store.add_skills(change, [SkillRow(...)])

Every write is part of a `Change`, which has a number of its own, one more than the last. What a change touches is
stamped with that number, so that another process asks for what changed `since` and takes that only.

Nodes of all kinds share one row of numbers per tenant. A number is never used again; a skill's id is `s` and its
number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from agentfw_memory.graph.graph_settings import Visibility
from agentfw_memory.graph.records import Edge, EdgeKind, NodeKind, Skill, SkillVersion

__all__ = [
    "BINDING",
    "Change",
    "Clock",
    "EdgeRow",
    "EmbedderRecord",
    "Float32Array",
    "LiveRows",
    "Record",
    "SkillRow",
    "Store",
    "TrajectoryRow",
    "number_of",
]

BINDING = 0.05
"""A use with a reward below this binds nobody to a skill; modularity knows no weights of zero or less."""

Float32Array = NDArray[np.float32]
Record = dict[str, Any]
"""One row as it is exported: plain JSON values, its table under "row"."""


@dataclass(frozen=True, slots=True)
class EmbedderRecord:
    """Who made the vectors of a tenant. A vector of another maker says nothing beside them."""

    name: str
    version: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Change:
    """A transaction that is under way: its number and its moment."""

    number: int
    now: float


@dataclass(frozen=True, slots=True)
class SkillRow:
    """A skill's new version, or a new skill's first."""

    number: int
    owner: int
    text: str
    visibility: Visibility
    vector: Float32Array
    valid_from: float


@dataclass(frozen=True, slots=True)
class LiveRows:
    """What a search needs of skills that are valid now: one array a column, one place a skill."""

    numbers: NDArray[np.int64]
    owners: NDArray[np.int64]
    shared: NDArray[np.bool_]
    uses: NDArray[np.int64]
    rewards: NDArray[np.float64]
    """The sum of the rewards of its uses."""
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
    """What is kept of a trajectory: enough to tell what happened, none of its messages."""

    id: str
    user: int
    query: str
    outcome: str
    reward: float


class Store(Protocol):
    """The rows of one tenant."""

    tenant: str

    # Who and what

    @property
    def identity(self) -> str:
        """Of this store and tenant: random, made once, kept. A cache that was made for another one is no good."""

    def embedder(self) -> EmbedderRecord | None:
        """Who made the vectors; None as long as there are none."""

    def set_embedder(self, change: Change, embedder: EmbedderRecord) -> None: ...

    def counter(self) -> int:
        """The number of the last change."""

    def forgotten(self) -> int:
        """The number of the last change that forgot somebody; a cache from before it must not stay on disk."""

    # Writing

    def writing(self) -> AbstractContextManager[Change]:
        """Everything in this block becomes so at once, at its end; an exception undoes it. Waits for other writers.

        Only one such block at a time; reads within it see what it has written.
        """

    def nodes(self, change: Change, kind: NodeKind, names: Sequence[str]) -> dict[str, int]:
        """The numbers of nodes, made where they are new. Not for skills and trajectories."""

    def new_numbers(self, change: Change, count: int) -> range: ...

    def add_skills(self, change: Change, rows: Sequence[SkillRow]) -> None:
        """Skills with new numbers."""

    def twins(self, pairs: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
        """Of these pairs of owner and text, those that are there already as a valid skill, with its number."""

    def replace_skill(self, change: Change, row: SkillRow) -> None:
        """End the present version at `row.valid_from` and begin this one."""

    def end_skills(self, change: Change, numbers: Sequence[int]) -> None:
        """They are no longer so: their versions and edges end, their vectors go, their history stays."""

    def count_use(self, change: Change, number: int, uses: int, rewards: float) -> None:
        """Add to how often a skill was used, and to the rewards of it."""

    def recount(self, change: Change, numbers: Iterable[int]) -> None:
        """Count the uses and rewards of these skills anew, from their valid EXECUTED edges."""

    def touch(self, change: Change, numbers: Iterable[int]) -> None:
        """Something about these skills changed that a search has to know, such as an edge."""

    def add_edges(self, change: Change, rows: Sequence[EdgeRow]) -> int:
        """How many are new. What is there with the same weight stays; with another weight the old one ends."""

    def end_edges(self, change: Change, rows: Sequence[EdgeRow]) -> int:
        """How many were there."""

    def add_trajectory(self, change: Change, row: TrajectoryRow) -> int:
        """Its number."""

    def set_profile(self, change: Change, user: int, text: str, vector: Float32Array) -> None: ...

    # Reading

    def find(self, kind: NodeKind, name: str) -> int | None:
        """The number of a node, if it is there. Trajectories are found by their id."""

    def live(self, since: int = 0, rows: int = 20_000) -> Iterator[LiveRows]:
        """The valid skills that changed after `since`, by number, in batches."""

    def ended(self, since: int) -> list[int]:
        """The skills that ended or were forgotten after `since`, and the users that were forgotten."""

    def structure(self, after: int = 0) -> Iterator[tuple[int, int, int, float]]:
        """What communities are found in: row, user, skill and weight of the valid edges that came after a row, from
        the earliest.

        A user is bound to the skills that are theirs (OWNS), and to those that one of their trajectories used
        (EXECUTED) by the trajectory's reward, where that is at least `BINDING`.
        """

    def relations(self, numbers: Sequence[int] | None = None) -> list[tuple[EdgeKind, int, int]]:
        """The valid COMPLEMENTS and CONFLICTS of these skills, of all without a choice."""

    def profile(self, user: int) -> Float32Array | None: ...

    def profiles_changed(self, since: int) -> list[int]:
        """Users whose profile changed after `since`."""

    def skills(self, numbers: Sequence[int], reader: int | None = None) -> dict[int, Skill]:
        """The valid ones of these skills; with a reader only those that this user may see."""

    def texts(self, numbers: Sequence[int]) -> dict[int, str]:
        """The texts of the valid ones of these skills."""

    def skills_of(self, scenario: int) -> list[int]:
        """The valid skills that apply to a scenario or are triggered by it."""

    def versions(self, number: int) -> list[SkillVersion]: ...

    def edges(self, number: int) -> list[Edge]:
        """All edges of a node, also those that ended, from the earliest."""

    def edge_rows(self, number: int) -> list[EdgeRow]:
        """The valid edges of a node, by numbers."""

    def co_uses(self, numbers: Sequence[int], reward: float) -> dict[tuple[int, int], int]:
        """For pairs of these skills, the smaller number first: how many trajectories of this reward used both."""

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """{"nodes": by kind, "edges": by kind (valid ones), "skills": {"shared": n, "past": n}}"""

    def bytes_on_disk(self) -> int: ...

    @property
    def index_path(self) -> Path | None:
        """Where a search index may be kept beside this tenant's rows; None for nowhere."""

    # Caches that are kept in the store

    def save_state(self, change: Change, name: str, state: bytes) -> None: ...

    def state(self, name: str) -> bytes | None: ...

    # Forgetting

    def forget(self, change: Change, user: int) -> dict[str, int]:
        """Delete a user with everything that is theirs; how many rows, by `Receipt`'s names. States are deleted too."""

    def erase(self) -> None:
        """After `forget` was committed: see to it that no byte of what was deleted is left in the files."""

    # Other vectors

    def stage_vectors(self, change: Change, embedder: EmbedderRecord, vectors: Mapping[int, Float32Array]) -> None:
        """Put new vectors (of skills, and of users' profiles) beside the present ones; what is staged for another
        embedder goes. A change of the text takes its staged vector back."""

    def unstaged(self, embedder: EmbedderRecord, rows: int) -> list[tuple[int, str]]:
        """At most so many numbers and texts that have no vector of this embedder yet."""

    def take_staged(self, change: Change, embedder: EmbedderRecord) -> None:
        """Put all staged vectors in the place of the present ones."""

    # Moving house

    def dump(self) -> Iterator[Record]:
        """Every row of this tenant, history included, as of one moment, in the order in which `load` takes them."""

    def load(self, change: Change, records: Iterable[Record]) -> int:
        """Take the rows of a dump into a tenant that has none; how many. A row that can't be is a ValueError, and so
        are vectors of another embedder than the tenant's."""

    def close(self) -> None: ...


def number_of(skill: str) -> int | None:
    """The number in a skill's id; None where it is no such id.

    >>> number_of("s17"), number_of("17"), number_of("s01")
    (17, None, None)
    """
    digits = skill[1:]
    plain = skill[:1] == "s" and digits.isascii() and digits.isdigit() and len(digits) < 19
    return int(digits) if plain and str(int(digits)) == digits else None


Clock = Callable[[], float]
"""Seconds since 1970."""
