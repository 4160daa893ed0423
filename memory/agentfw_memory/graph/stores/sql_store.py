"""What a store does to a tenant as a whole, whatever database it is: forgetting, other vectors, moving house.

The one rule: both stores do it by the same statements in the same order, so that a receipt and an export say the same
of the same graph. A statement here is written with `?` for its values, and is one that both databases understand.

`SqliteStore` and `PostgresStore` add what their databases do each in its own way.
"""

from __future__ import annotations

import base64
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import numpy as np

from agentfw_memory.errors import SkillGraphError, StorageError, StoreBusyError
from agentfw_memory.graph.records import EDGE_ENDS
from agentfw_memory.graph.stores.interface import Change, EmbedderRecord, Float32Array, Record
from agentfw_memory.graph.stores.sqlite_rows import digest, packed, unpacked
from agentfw_memory.graph.validation import name_of

__all__ = ["WholeTenant"]

# What is exported of each table, in an order in which a row comes after those that it names, and in which order.
_DUMPED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "node": (("number", "kind", "name", "recorded_at"), "number"),
    "trajectory": (("number", "user", "query", "outcome", "reward"), "number"),
    "version": (
        ("number", "ordinal", "owner", "text", "visibility", "valid_from", "valid_to", "recorded_at"),
        "number, ordinal",
    ),
    "live": (("number", "owner", "shared", "uses", "rewards", "vector"), "number"),
    "edge": (("kind", "source", "target", "weight", "valid_from", "valid_to", "recorded_at"), "row"),
    "profile": (("user", "text", "vector"), '"user"'),
}
_MISSHAPEN: tuple[type[Exception], ...] = (KeyError, ValueError, TypeError, AttributeError, SkillGraphError)


class WholeTenant(ABC):
    """The half of a store that is the same for all of them."""

    _tenant: int
    vector_value: ClassVar[str] = "?"
    """How a vector stands in a statement."""
    vector_read: ClassVar[str] = "vector"
    """How a vector is asked for."""
    refusals: ClassVar[tuple[type[Exception], ...]] = ()
    """What the database raises for a row that can't be."""

    # Caches that are kept in the store

    def save_state(self, change: Change, name: str, state: bytes) -> None:
        sql = (
            "INSERT INTO state (tenant, name, value) VALUES (?, ?, ?) "
            "ON CONFLICT (tenant, name) DO UPDATE SET value = excluded.value"
        )
        self._do(sql, self._tenant, name, state)

    def state(self, name: str) -> bytes | None:
        rows = self._ask("SELECT value FROM state WHERE tenant = ? AND name = ?", self._tenant, name)
        return bytes(rows[0][0]) if rows else None

    # Forgetting

    def forget(self, change: Change, user: int) -> dict[str, int]:
        skills = self._numbers("SELECT DISTINCT number FROM version WHERE tenant = ? AND owner = ?", user)
        trajectories = self._numbers('SELECT number FROM trajectory WHERE tenant = ? AND "user" = ?', user)
        gone = [*skills, *trajectories, user]
        around = set(self._ends("source", "target", gone)) | set(self._ends("target", "source", gone))
        receipt = {
            "skills": len(skills),
            "versions": self._delete("version", "number", skills),
            "vectors": self._delete("live", "number", skills) + self._delete("profile", '"user"', [user]),
            "edges": self._delete("edge", "source", gone) + self._delete("edge", "target", gone),
            "trajectories": self._delete("trajectory", "number", trajectories),
        }
        self._delete("node", "number", trajectories)
        receipt["nodes"] = self._delete("node", "number", [user]) + self._delete_orphans(around)
        receipt["communities"] = self._do("DELETE FROM state WHERE tenant = ?", self._tenant)
        self._delete("staged", "number", gone)
        self._note_ended(change, [*skills, user])
        self.recount(change, sorted(around.difference(gone)))
        self._do("UPDATE tenant SET forgotten = ? WHERE tenant = ?", change.number, self._tenant)
        return receipt

    # Other vectors

    def stage_vectors(self, change: Change, embedder: EmbedderRecord, vectors: Mapping[int, Float32Array]) -> None:
        key = _key(embedder)
        self._do("DELETE FROM staged WHERE tenant = ? AND embedder <> ?", self._tenant, key)
        sql = (
            f"INSERT INTO staged (tenant, number, embedder, vector) VALUES (?, ?, ?, {self.vector_value}) "
            "ON CONFLICT (tenant, number) DO UPDATE SET embedder = excluded.embedder, vector = excluded.vector"
        )
        self._do_many(sql, [(self._tenant, number, key, self._vector(vector)) for number, vector in vectors.items()])

    def unstaged(self, embedder: EmbedderRecord, rows: int) -> list[tuple[int, str]]:
        sql = (
            "SELECT number, text FROM (SELECT tenant, number, text FROM version WHERE valid_to IS NULL "
            'UNION ALL SELECT tenant, "user", text FROM profile) embedded WHERE tenant = ? '
            "AND NOT EXISTS (SELECT 1 FROM staged s "
            "WHERE s.tenant = embedded.tenant AND s.number = embedded.number AND s.embedder = ?) LIMIT ?"
        )
        return self._ask(sql, self._tenant, _key(embedder), rows)

    def take_staged(self, change: Change, embedder: EmbedderRecord) -> None:
        for table, number in (("live", "number"), ("profile", '"user"')):
            self._do(
                f"UPDATE {table} SET changed = ?, vector = "
                f"(SELECT s.vector FROM staged s WHERE s.tenant = {table}.tenant AND s.number = {table}.{number}) "
                "WHERE tenant = ?",
                change.number,
                self._tenant,
            )
        self._do("DELETE FROM staged WHERE tenant = ?", self._tenant)
        self.set_embedder(change, embedder)

    # Moving house

    def dump(self) -> Iterator[Record]:
        with self._snapshot():
            maker = self.embedder()
            head = [maker.name, maker.version, maker.dimensions] if maker else None
            numbers = self._ask("SELECT next_number FROM tenant WHERE tenant = ?", self._tenant)[0][0]
            yield {"row": "tenant", "next_number": numbers, "embedder": head}
            for table, (columns, order) in _DUMPED.items():
                names = ", ".join(self.vector_read if name == "vector" else f'"{name}"' for name in columns)
                for row in self._stream(f"SELECT {names} FROM {table} WHERE tenant = ? ORDER BY {order}", self._tenant):
                    record = {"row": table, **dict(zip(columns, row, strict=True))}
                    if "vector" in record:
                        record["vector"] = base64.b64encode(packed(self._read_vector(record["vector"]))).decode()
                    yield record

    def load(self, change: Change, records: Iterable[Record]) -> int:
        dimensions = 0
        texts: dict[int, str] = {}
        count = 0
        for count, record in enumerate(records, start=1):
            try:
                if count == 1:
                    dimensions = self._load_head(change, record)
                else:
                    self._load_row(change, record, dimensions, texts)
            except (StorageError, StoreBusyError):
                raise
            except (*_MISSHAPEN, *self.refusals) as error:
                raise ValueError(f"row {count} can't be taken: {type(error).__name__}: {error}") from None
        return count

    # Within

    def _load_head(self, change: Change, record: Record) -> int:
        if record["row"] != "tenant":
            raise ValueError("an export begins with the row of its tenant")
        sql = "UPDATE tenant SET next_number = ? WHERE tenant = ?"
        self._do(sql, int(record["next_number"]), self._tenant)
        if record["embedder"] is None:
            return 0
        name, version, dimensions = record["embedder"]
        maker, kept = EmbedderRecord(str(name), str(version), int(dimensions)), self.embedder()
        if kept is not None and kept != maker:
            raise ValueError(f"its vectors were made by {maker}, those of this tenant by {kept}")
        self.set_embedder(change, maker)
        return maker.dimensions

    def _load_row(self, change: Change, record: Record, dimensions: int, texts: dict[int, str]) -> None:
        """`texts` are those of valid versions, whose vectors are still to come."""
        table = record["row"]
        values = {name: record[name] for name in _DUMPED[table][0]}
        if table == "version" and values["valid_to"] is None:
            texts[values["number"]] = values["text"]
        if table == "edge" and values["kind"] not in EDGE_ENDS:
            raise ValueError(f"no kind of edge is called {values['kind']!r}")
        if "name" in values:
            name_of(str(values["kind"]), values["name"])
        if "vector" in values:
            values["vector"] = self._vector(_decoded(values["vector"], dimensions))
            values["changed"] = change.number
        if table == "live":
            values["digest"] = digest(texts.pop(values["number"]))
        names = ", ".join(f'"{name}"' for name in values)
        places = ", ".join(self.vector_value if name == "vector" else "?" for name in values)
        self._do(f"INSERT INTO {table} (tenant, {names}) VALUES (?, {places})", self._tenant, *values.values())

    def _numbers(self, sql: str, user: int) -> list[int]:
        return [number for (number,) in self._ask(sql, self._tenant, user)]

    # What each database does in its own way

    @abstractmethod
    def _do(self, sql: str, *values: Any) -> int:
        """How many rows it touched."""

    @abstractmethod
    def _do_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None: ...

    @abstractmethod
    def _ask(self, sql: str, *values: Any) -> list[Any]:
        """The rows."""

    @abstractmethod
    def _stream(self, sql: str, *values: Any) -> Iterator[Any]:
        """The rows, a few at a time."""

    @abstractmethod
    def _snapshot(self) -> AbstractContextManager[None]:
        """What is read within is as of one moment."""

    @abstractmethod
    def _vector(self, vector: Float32Array) -> Any:
        """A vector as the database takes it."""

    @abstractmethod
    def _read_vector(self, value: Any) -> Float32Array:
        """A vector as the database gave it."""

    @abstractmethod
    def _ends(self, near: str, far: str, numbers: Sequence[int]) -> list[int]:
        """What is at the far end of the edges of these nodes."""

    @abstractmethod
    def _delete(self, table: str, column: str, numbers: Sequence[int]) -> int: ...

    @abstractmethod
    def _delete_orphans(self, numbers: set[int]) -> int:
        """Delete those of these tools and scenarios that no edge has any more, past ones included."""

    @abstractmethod
    def _note_ended(self, change: Change, numbers: Sequence[int]) -> None:
        """Note for other processes that these are no more."""

    @abstractmethod
    def embedder(self) -> EmbedderRecord | None: ...

    @abstractmethod
    def set_embedder(self, change: Change, embedder: EmbedderRecord) -> None: ...

    @abstractmethod
    def recount(self, change: Change, numbers: Iterable[int]) -> None: ...


def _key(embedder: EmbedderRecord) -> str:
    return json.dumps([embedder.name, embedder.version, embedder.dimensions])


def _decoded(text: str, dimensions: int) -> Float32Array:
    blob = base64.b64decode(text, validate=True)
    if len(blob) != 4 * dimensions or not np.isfinite(unpacked(blob)).all():
        raise ValueError(f"a vector isn't {dimensions} finite numbers")
    return unpacked(blob)
