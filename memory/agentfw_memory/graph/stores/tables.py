"""The tables of a skill graph, declared once for every store.

Each row belongs to a tenant, which is the first column of every table and isn't listed here: a store adds it by itself,
so that no caller can reach the rows of another tenant. Times are seconds since 1970.

All nodes of a tenant share one sequence of numbers, and no number is used twice. A skill's id is `s` and its number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["integer", "number", "text", "optional number", "optional text", "vector", "bytes", "words"]
"""What a column holds. `words` is the text of a skill, given to stores that search by words; others leave it out."""


@dataclass(frozen=True, slots=True)
class Index:
    """Columns that rows are found by, after the tenant, and which rows: all, or those where a column is empty."""

    columns: tuple[str, ...]
    valid: bool = False
    """Whether only rows without `valid_to` are in it."""
    unique: bool = False
    given: str = ""
    """A column that rows in it must have."""


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of a table, those that tell its rows apart, and what else rows are found by."""

    columns: Mapping[str, Kind]
    key: tuple[str, ...]
    indexes: tuple[Index, ...] = ()
    small: bool = False
    """Whether its rows are short, so that a database may keep them in the order of the key."""

    @property
    def numbered(self) -> bool:
        """Whether the store numbers the rows itself, in the order in which they are added."""
        return self.key == ("row",)


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
        {"user": "integer", "changed": "integer", "text": "text", "vector": "vector"},
        ("user",),
        (Index(("changed",)),),
    ),
    # Vectors of another embedder, until there is one for every text.
    "staged": Table({"number": "integer", "embedder": "text", "vector": "vector"}, ("number",)),
    # The communities of users and skills, where the database searches: a list from the coarsest level, as JSON.
    "community": Table({"node": "integer", "labels": "text"}, ("node",)),
    # Saved caches and what a search was prepared with.
    "state": Table({"name": "text", "value": "bytes"}, ("name",)),
}
