"""The tables of a skill graph, what is read from them and written to them, and what a search in a database is asked.

    with store.writing() as change:                      # all of this is committed, or none of it
        store.write(Insert("node", ("number", "kind", "name", "recorded_at"), [(1, "user", "ana", change.now)]))
    store.read(Select("node", ("number",), {"kind": "user", "name": "ana"}))      # [[(1,)]]

Changes are numbered in order, and rows say which change last touched them, so that other processes can ask for what is
new. All nodes of a tenant share one sequence of numbers, and no number is used twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from ..records import Float32Array, Floats, Integers, Use

Answer = TypeVar("Answer")

Clock = Callable[[], float]  # returns the current time in seconds since 1970


# The tables, declared once for every store. Each row belongs to a tenant, which is the first column of every table and
# isn't listed here: a store adds it by itself, so that no caller can reach the rows of another tenant.

Kind = Literal["integer", "number", "text", "optional number", "optional text", "vector", "bytes", "words"]
"""What a column holds. `words` is the text of a skill, given to stores that search by words; others leave it out."""


@dataclass(frozen=True, slots=True)
class Index:
    """Columns that rows are found by, after the tenant, and which rows: all, or those where a column is empty."""

    columns: tuple[str, ...]
    valid: bool = False  # whether only rows without `valid_to` are in it
    unique: bool = False
    given: str = ""  # a column that rows in it must have


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of a table, those that tell its rows apart, and what else rows are found by."""

    columns: Mapping[str, Kind]
    key: tuple[str, ...]
    """Alone, "row" is a number that the store counts itself, in the order in which rows are added."""
    indexes: tuple[Index, ...] = ()
    small: bool = False  # whether its rows are short, so that a database may keep them in the order of the key


TABLES: Mapping[str, Table] = {
    # Users, tools, scenarios, trajectories and all other nodes but skills.
    "node": Table(
        {"number": "integer", "kind": "text", "name": "text", "recorded_at": "number"},
        ("number",),
        (Index(("kind", "name"), unique=True),),
        small=True,
    ),
    "trajectory": Table(
        {"number": "integer", "user": "integer", "query": "text", "outcome": "text", "reward": "number"},
        ("number",),
        (Index(("user",)),),
        small=True,
    ),
    # Every version of every skill. The valid one has no `valid_to`.
    "version": Table(
        {
            "number": "integer",
            "ordinal": "integer",
            "owner": "integer",
            "text": "text",
            "visibility": "text",
            "valid_from": "number",
            "valid_to": "optional number",
            "recorded_at": "number",
            "metadata": "optional text",
            "expires_at": "optional number",
        },
        ("number", "ordinal"),
        (Index(("owner",)), Index(("expires_at",), valid=True, given="expires_at")),
        small=True,
    ),
    # What a search needs of a valid skill. `changed` is the change that last touched it.
    "live": Table(
        {
            "number": "integer",
            "changed": "integer",
            "owner": "integer",
            "shared": "integer",
            "digest": "text",
            "uses": "integer",
            "rewards": "number",
            "valid_from": "number",
            "vector": "vector",
            "words": "words",
        },
        ("number",),
        (Index(("changed",)), Index(("owner", "digest"), unique=True)),
    ),
    # Skills and users that are gone, for processes that still hold them.
    "ended": Table({"changed": "integer", "number": "integer"}, ("changed", "number"), small=True),
    "edge": Table(
        {
            "row": "integer",
            "kind": "text",
            "source": "integer",
            "target": "integer",
            "weight": "number",
            "valid_from": "number",
            "valid_to": "optional number",
            "recorded_at": "number",
            # Of a use: the terms of user and community when it was learned, before it changed anything.
            "user_term": "optional number",
            "community_term": "optional number",
        },
        ("row",),
        (
            Index(("source", "kind", "target"), valid=True, unique=True),
            Index(("source",)),
            Index(("target", "kind")),
            Index(("row",)),
        ),
    ),
    "profile": Table(
        {"user": "integer", "changed": "integer", "text": "text", "vector": "vector"}, ("user",), (Index(("changed",)),)
    ),
    # Vectors of another embedder, until there is one for every text.
    "staged": Table({"number": "integer", "embedder": "text", "vector": "vector"}, ("number",)),
    # The communities of users and skills, where the database searches: a list from the coarsest level, as JSON.
    "community": Table({"node": "integer", "labels": "text"}, ("node",)),
    # Saved caches and what a search was prepared with.
    "state": Table({"name": "text", "value": "bytes"}, ("name",)),
}


@dataclass(frozen=True, slots=True)
class EmbedderRecord:
    """The embedder that made a tenant's vectors. Vectors of different embedders can't be compared."""

    name: str
    version: str
    dimensions: int


@dataclass(frozen=True, slots=True)
class Head:
    """What is known of a tenant as a whole, as of one moment."""

    counter: int  # the number of the last change
    forgotten: int  # the number of the last change that deleted for good. Caches from before it must not stay on disk.
    next_number: int
    embedder: EmbedderRecord | None  # the embedder of the vectors, or None before the first one
    latest_edge: int  # the row of the latest edge, or 0
    any_expired: bool  # whether there are skills whose time is over


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


Where = Mapping[str, Any]  # conditions by column. A row has to meet all of them.


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

Nearest = tuple[Integers, Floats]  # skills with their similarities, the most similar first
Holders = tuple[list[int], int]  # the skills with a word that fit the filter, and how many have it in all


@dataclass(frozen=True, slots=True)
class Corpus:
    """How many texts there are and how many different terms they have, each text counted for itself."""

    count: int = 0
    length: int = 0


@dataclass(frozen=True, slots=True)
class Proposals:
    """What was found, and what is needed to weigh it."""

    person: Float32Array | None  # the vector of the reader's profile, or the mean of their skills
    described: bool  # whether it is a profile's
    shared: Nearest
    own: Nearest  # all private skills of the reader
    holders: Mapping[str, Holders]
    together: Sequence[int]
    own_holders: Mapping[str, Holders]
    own_corpus: Corpus  # the texts of all private skills of the reader
    fitting: int | None  # how many that the reader may see fit the filter, if they are few enough to be counted


@dataclass(frozen=True, slots=True)
class Summary:
    """What is true of all skills."""

    corpus: Corpus  # the texts of all shared skills
    common: dict[str, int]  # how many of them have each common word
    sample: list[int]  # shared skills, drawn from all of them
    uses: list[Use]  # the latest uses, oldest first
