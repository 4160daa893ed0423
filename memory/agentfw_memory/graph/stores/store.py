"""The interface between a skill graph and the database that it is kept in.

A store holds the rows of one tenant and knows nothing of graphs, ranking or words. It reads (`read`, `scan`), writes
(`write`, inside `writing`), and deletes for good (`erase`). A store whose database can search also has a `search`.

    with store.writing() as change:                      # all of this is committed, or none of it
        store.write(Insert("node", ("number", "kind", "name", "recorded_at"), [(1, "user", "ana", change.now)]))
    store.read(Select("node", ("number",), {"kind": "user", "name": "ana"}))      # [[(1,)]]

A store is opened for one tenant and reads and writes only that tenant's rows. No method takes a tenant, so that no
caller can reach another one.

Changes are numbered in order, and rows say which change last touched them, so that other processes can ask for what
changed since the last one they have seen.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from agentfw_memory.graph.arrays import Float32Array, Floats, Integers
from agentfw_memory.graph.graph_settings import PATIENCE
from agentfw_memory.graph.records import Use

Answer = TypeVar("Answer")

Clock = Callable[[], float]
"""Returns the current time in seconds since 1970."""


@dataclass(frozen=True, slots=True)
class EmbedderRecord:
    """The embedder that made a tenant's vectors. Vectors of different embedders can't be compared."""

    name: str
    version: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of a tenant as a whole, as of one moment."""

    identity: str
    """Random id of this store and tenant. A cache made for another identity is discarded."""
    counter: int
    """The number of the last change."""
    forgotten: int
    """The number of the last change that deleted for good. Caches from before it must not stay on disk."""
    next_number: int
    embedder: EmbedderRecord | None
    """The embedder of the vectors, or None before the first one."""
    latest_edge: int
    """The row of the latest edge, or 0."""
    any_expired: bool
    """Whether there are skills whose time is over."""


@dataclass(frozen=True, slots=True)
class Change:
    """An open write transaction: its number and its time, and whose vectors the tenant has."""

    number: int
    now: float
    embedder: EmbedderRecord | None


# Conditions: a value that a column must have, None for an empty column, or one of these.


@dataclass(frozen=True, slots=True)
class Among:
    """One of some values, or of what a `Select` of one column finds."""

    values: Iterable[int] | Iterable[str] | Select


@dataclass(frozen=True, slots=True)
class Between:
    """At least `low`, above `above`, and at most `high`, as far as they are given. Text is compared by code points."""

    low: float | str | None = None
    high: float | str | None = None
    above: float | None = None


@dataclass(frozen=True, slots=True)
class Not:
    """Anything but a value, or nothing of what is among some. `Not(None)` is anything at all."""

    value: Any


Where = Mapping[str, Any]
"""Conditions by column. A row has to meet all of them."""


@dataclass(frozen=True, slots=True)
class Select:
    """Reads these columns of the rows that meet some conditions, in no particular order."""

    table: str
    columns: tuple[str, ...]
    where: Where = field(default_factory=dict)
    distinct: bool = False
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Count:
    """Counts rows: (value, count) by the values of a column."""

    table: str
    by: str
    where: Where = field(default_factory=dict)


Reading = Select | Count


@dataclass(frozen=True, slots=True)
class Insert:
    """Adds rows. With a key that exists, a row is refused, or left out (`existing="keep"`), or it replaces the other
    one (`existing="replace"`, for tables with nothing but a key that tells rows apart)."""

    table: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    existing: str = "refuse"


@dataclass(frozen=True, slots=True)
class Update:
    """Changes the rows that meet some conditions: columns become values, and numbers are added to columns."""

    table: str
    where: Where
    values: Mapping[str, Any] = field(default_factory=dict)
    add: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes the rows that meet some conditions."""

    table: str
    where: Where


Writing = Insert | Update | Delete


# Searching, in a database that can, so that no process has to hold the whole of a large graph. Shared skills are
# searched by an index, and what a user has in private is read as a whole: it is little. So what a user may not see is
# never looked at, and neither is what a filter leaves out.

Nearest = tuple[Integers, Floats]
"""Skills with their similarities, the most similar first."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """How many texts there are and how many different terms they have, each text counted for itself."""

    count: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True)
class Sought:
    """What skills are searched for with."""

    reader: int | None
    vector: Float32Array | None
    nearest: int
    """Number of shared skills to find by their vectors."""
    terms: Sequence[str]
    """The words, of which the skills with each are found: shared ones with a seldom word, private ones with any."""
    seldom: Sequence[str]
    holders: int
    """Maximum number of shared skills to find with each seldom word."""
    together: Sequence[str]
    """Common words, of which the shared skills with all of them are found."""
    most_together: int
    among: int | None
    """Number of first skills among which these are looked for, or None for all of them."""
    where: Mapping[str, Any] = field(default_factory=dict)
    """What the metadata of a skill must be. See metadata_filter.py."""


@dataclass(frozen=True, slots=True)
class Proposals:
    """What was found, and what is needed to weigh it."""

    person: Float32Array | None
    """The vector of the reader's profile, or the mean of their skills."""
    described: bool
    """Whether it is a profile's."""
    shared: Nearest
    own: Nearest
    """All private skills of the reader."""
    holders: Mapping[str, list[int]]
    together: Sequence[int]
    own_holders: Mapping[str, list[int]]
    own_corpus: Corpus
    """The texts of all private skills of the reader."""


@dataclass(frozen=True, slots=True)
class Summary:
    """What is true of all skills."""

    corpus: Corpus
    """The texts of all shared skills."""
    common: dict[str, int]
    """How many of them have each common word."""
    sample: list[int]
    """Shared skills, drawn from all of them."""
    uses: list[Use]
    """The latest uses, oldest first."""


class DatabaseSearch(Protocol):
    """Searches the skills of one tenant."""

    def propose(self, sought: Sought) -> Proposals:
        """Search by vectors and words."""

    def connected(
        self, numbers: Sequence[int], reader: int | None, *, seconds: float, siblings: int
    ) -> tuple[list[int], list[int]]:
        """Return the visible skills just before and after each of these, at most so many seconds away, and so many of
        the most useful skills of each one's owner."""

    def similar_in(self, scenarios: Sequence[int], query: Float32Array, k: int, reader: int | None) -> list[int]:
        """Return the skills of these scenarios with the most similar vectors: visible ones, or anyone's private ones.

        Without scenarios, all skills are looked at.
        """

    def person(self, user: int) -> tuple[Float32Array | None, bool]:
        """Return the vector of a user's profile, or the mean of their skills, or None, and whether it is a profile."""

    def summary(self, *, common: int, sample: int, uses: int) -> Summary:
        """Describe the whole graph. A word is common if more than so many shared skills have it."""

    def build(self, dimensions: int, progress: Callable[[str], object]) -> None:
        """Create the indexes that aren't there. Takes minutes for a million skills, during which others go on."""


NOTHING: Nearest = np.zeros(0, np.int64), np.zeros(0)


class Store(ABC):
    """The rows of one tenant in one database."""

    tenant: str

    @classmethod
    @abstractmethod
    def open(
        cls,
        where: str | Path,
        *,
        tenant: str,
        clock: Clock,
        patience: float = PATIENCE,
        power_safe: bool = False,
    ) -> Self:
        """Open or create a database and the tenant in it. `where` is a path, or an address with the store's scheme.

        Calls wait up to `patience` seconds for a server. With `power_safe`, each commit waits for the disk.
        """

    @classmethod
    @abstractmethod
    def tenants(cls, where: str | Path) -> list[str]:
        """Return the names of the tenants in a database."""

    @abstractmethod
    def close(self) -> None: ...

    # Reading

    @abstractmethod
    def head(self) -> Head:
        """Return what is known of the tenant as a whole. It is asked before each call of a graph, so it is fast."""

    @abstractmethod
    def now(self) -> float:
        """The time of the store's clock."""

    @abstractmethod
    def read(self, *readings: Reading) -> list[list[tuple[Any, ...]]]:
        """Return the rows of each. A server is asked for all of them at once."""

    @abstractmethod
    def scan(
        self, table: str, columns: tuple[str, ...], where: Where, *, after: int = 0, size: int = 50_000
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a table in the order of its key, in batches of up to `size`.

        The key comes first among the columns, and only rows are read whose key begins above `after`.
        """

    @abstractmethod
    def vectors(self, values: Sequence[Any]) -> Float32Array:
        """Convert values of a column of vectors, as they were read, to the rows of a matrix."""

    @abstractmethod
    def snapshot(self) -> AbstractContextManager[None]:
        """Read the same state in all of the block."""

    # Writing

    @abstractmethod
    def writing(self) -> AbstractContextManager[Change]:
        """Open a write transaction. It commits at the end of the block and rolls back on an exception.

        Waits for other writers. Reads inside the block see its writes.
        """

    @abstractmethod
    def write(self, *writings: Writing) -> list[int]:
        """Write inside a transaction, and return how many rows each has changed. Vectors are given as arrays."""

    @abstractmethod
    def new_numbers(self, count: int) -> range:
        """Return numbers for nodes, inside a transaction."""

    @abstractmethod
    def set_head(
        self, *, embedder: EmbedderRecord | None = None, forgotten: int | None = None, next_number: int | None = None
    ) -> None:
        """Change what is known of the tenant as a whole, inside a transaction."""

    @abstractmethod
    def take_staged(self, change: Change) -> None:
        """Replace the vectors of skills and profiles by the staged ones, inside a transaction."""

    # Deleting for good, and the rest

    @abstractmethod
    def erase(self) -> None:
        """Remove deleted rows from the files too. Call it after the deletion was committed."""

    @abstractmethod
    def retried(self, call: Callable[[], Answer], *, repeatable: bool) -> Answer:
        """Return what a call returns. Repeat it for a while if it loses its connection to a server.

        A call that is not `repeatable` is repeated only if it is certain that nothing of it was stored.
        """

    @abstractmethod
    def bytes_on_disk(self) -> int:
        """Return the size of the database, other tenants included."""

    @property
    def search(self) -> DatabaseSearch | None:
        """What searches in the database, so that no process has to hold all of it, or None if the database can't."""
        return None
