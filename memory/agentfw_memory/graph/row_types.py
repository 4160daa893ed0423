"""Rows of a graph as values: what is written of a skill or an edge, and what is read of many skills."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from .records import Bools, EdgeKind, Float32Array, Floats, Integers, Visibility
from .stores.sql import Store
from .stores.store import Change, Insert

LIVE = ("number", "owner", "shared", "vector", "uses", "rewards", "valid_from")
"""The columns that `live_rows` makes arrays of."""


@dataclass(frozen=True, slots=True)
class SkillRow:
    """The first version of a new skill, or the next version of a skill."""

    number: int
    owner: int
    text: str
    visibility: Visibility
    vector: Float32Array
    valid_from: float
    metadata: str = ""  # an object as JSON, or nothing
    expires_at: float | None = None

    @property
    def searched(self) -> Mapping[str, Any]:
        """The columns of `live` that a version of a skill sets."""
        return {
            "shared": int(self.visibility == "shared"),
            "digest": digest(told_apart(self.text, self.metadata)),
            "valid_from": self.valid_from,
            "vector": self.vector,
            "words": self.text,
        }


@dataclass(frozen=True, slots=True)
class LiveRows:
    """The columns of valid skills that a search needs, one entry per skill."""

    numbers: Integers
    owners: Integers
    shared: Bools
    uses: Integers
    rewards: Floats  # sum of the rewards of all uses
    valid_from: Floats
    vectors: Float32Array


class EdgeRow(NamedTuple):
    """A valid edge, with the columns that are read and written of it."""

    kind: EdgeKind
    source: int
    target: int
    weight: float = 1.0
    valid_from: float | None = None
    user_term: float | None = None  # of a use: how similar user and skill were before it
    community_term: float | None = None
    """Of a use: the share of communities that user and skill had in common before it."""

    @property
    def where(self) -> Mapping[str, Any]:
        """The condition that a row is the valid edge of this kind between these nodes."""
        return {"source": self.source, "kind": self.kind, "target": self.target, "valid_to": None}


def version_insert(change: Change, rows: Iterable[tuple[SkillRow, int]]) -> Insert:
    """Start versions, each with its ordinal."""
    given = ("number", "owner", "text", "visibility", "valid_from", "metadata", "expires_at")
    values = [(*(getattr(row, name) for name in given), ordinal, change.now) for row, ordinal in rows]
    return Insert("version", (*given, "ordinal", "recorded_at"), values)


def live_rows(store: Store, batch: Sequence[tuple[Any, ...]]) -> LiveRows:
    """Return one or more rows of the columns `LIVE` as arrays, in the order of their numbers."""
    ordered = sorted(batch, key=lambda row: row[0])
    numbers, owners, shared, vectors, uses, rewards, valid_from = zip(*ordered, strict=True)
    return LiveRows(
        numbers=np.array(numbers, np.int64),
        owners=np.array(owners, np.int64),
        shared=np.array(shared, np.bool_),
        uses=np.array(uses, np.int64),
        rewards=np.array(rewards, np.float64),
        valid_from=np.array(valid_from, np.float64),
        vectors=store.vectors(vectors),
    )


def told_apart(text: str, metadata: str) -> str:
    """Return what tells an owner's skills apart: the text, with the metadata if there is any, in whatever order."""
    return f"{text}\0{json.dumps(json.loads(metadata), sort_keys=True)}" if metadata else text


def digest(text: str) -> str:
    return blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()
