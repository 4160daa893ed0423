"""What a store does with a whole tenant: expiry, deleting for good, replacing all vectors, export and import.

SQLite and PostgreSQL run the same statements in the same order, so the same graph gives the same receipt and the same
export in both.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar

import numpy as np

from agentfw_memory.errors import SkillGraphError, StorageError, StoreBusyError
from agentfw_memory.graph.arrays import Float32Array
from agentfw_memory.graph.records import EDGE_ENDS
from agentfw_memory.graph.stores.interface import Answer, Change, EmbedderRecord, Record, Search, told_apart
from agentfw_memory.graph.stores.sql_rows import SqlRows, digest
from agentfw_memory.graph.validation import check_name

__all__ = ["SqlStore"]

# The exported columns of each table and their order. A row comes after the rows that it refers to.
_EXPORTED: Mapping[str, tuple[tuple[str, ...], str]] = {
    "node": (("number", "kind", "name", "recorded_at"), "number"),
    "trajectory": (("number", "user", "query", "outcome", "reward"), "number"),
    "version": (
        (
            *("number", "ordinal", "owner", "text", "visibility", "valid_from", "valid_to", "recorded_at"),
            *("metadata", "expires_at"),
        ),
        "number, ordinal",
    ),
    "live": (("number", "owner", "shared", "uses", "rewards", "vector"), "number"),
    "edge": (("kind", "source", "target", "weight", "valid_from", "valid_to", "recorded_at"), "row"),
    "profile": (("user", "text", "vector"), '"user"'),
}
_ABSENT: Mapping[str, str | None] = {"metadata": "", "expires_at": None}
"""Columns that an export of an earlier version lacks, with their values."""
EXPIRED = "FROM version WHERE tenant = ? AND expires_at <= ? AND valid_to IS NULL"
_MALFORMED: tuple[type[Exception], ...] = (KeyError, ValueError, TypeError, AttributeError, SkillGraphError)


class SqlStore(SqlRows):
    """The store of one tenant in an SQL database."""

    refusals: ClassVar[tuple[type[Exception], ...]] = ()
    """Exceptions that the database driver raises for an invalid row."""

    def retried(self, call: Callable[[], Answer], *, repeatable: bool) -> Answer:
        return call()

    def reading(self) -> AbstractContextManager[None]:
        return nullcontext()

    def together(self, *calls: Callable[[], Any]) -> list[Any]:
        return [call() for call in calls]

    @property
    def search(self) -> Search | None:
        return None

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        nodes = "SELECT kind, count(*) FROM node WHERE tenant = ? GROUP BY kind"
        edges = "SELECT kind, count(*) FROM edge WHERE tenant = ? AND valid_to IS NULL GROUP BY kind"
        live, shared = self._rows("SELECT count(*), coalesce(sum(shared), 0) FROM live WHERE tenant = ?", self._tenant)[
            0
        ]
        past = self._value("SELECT count(*) FROM version WHERE tenant = ? AND valid_to IS NOT NULL", self._tenant)
        return {
            "nodes": {**dict(sorted(self._rows(nodes, self._tenant))), "skill": live},
            "edges": dict(sorted(self._rows(edges, self._tenant))),
            "skills": {"shared": int(shared), "past": past},
        }

    # Saved caches

    def save_state(self, change: Change, name: str, state: bytes) -> None:
        sql = (
            "INSERT INTO state (tenant, name, value) VALUES (?, ?, ?) "
            "ON CONFLICT (tenant, name) DO UPDATE SET value = excluded.value"
        )
        self._run(sql, self._tenant, name, state)

    def state(self, name: str) -> bytes | None:
        found = self._column("SELECT value FROM state WHERE tenant = ? AND name = ?", self._tenant, name)
        return bytes(found[0]) if found else None

    # Expiry

    def look(self) -> tuple[int, bool]:
        sql = f"SELECT counter, EXISTS (SELECT 1 {EXPIRED}) FROM tenant WHERE tenant = ?"
        counter, expired = self._rows(sql, self._tenant, self._clock(), self._tenant)[0]
        return int(counter), bool(expired)

    def expired(self) -> list[int]:
        return self._column(f"SELECT number {EXPIRED}", self._tenant, self._clock())

    def set_expiry(self, change: Change, number: int, when: float | None) -> None:
        sql = "UPDATE version SET expires_at = ? WHERE tenant = ? AND number = ? AND valid_to IS NULL"
        self._run(sql, when, self._tenant, number)

    # Forgetting

    def forget(self, change: Change, user: int) -> dict[str, int]:
        owned = "SELECT DISTINCT number FROM version WHERE tenant = ? AND owner = ?"
        skills = self._column(owned, self._tenant, user)
        made = 'SELECT number FROM trajectory WHERE tenant = ? AND "user" = ?'
        trajectories = self._column(made, self._tenant, user)
        gone = [*skills, *trajectories, user]
        neighbours = self._neighbours(gone)
        receipt = {
            "skills": len(skills),
            "versions": self._delete("version", "number", skills),
            "vectors": self._delete("live", "number", skills) + self._delete("profile", '"user"', [user]),
            "edges": self._delete_edges(gone),
            "trajectories": self._delete("trajectory", "number", trajectories),
        }
        self._delete("node", "number", trajectories)
        receipt["nodes"] = self._delete("node", "number", [user]) + self._delete_unused(neighbours)
        saved = "DELETE FROM state WHERE tenant = ? AND name LIKE ?"
        receipt["communities"] = self._run(saved, self._tenant, "communities%")
        self._note_forgotten(change, [*skills, user], receipt)
        self.recount(change, sorted(neighbours.difference(gone)))
        return receipt

    def owners_ever(self, numbers: Sequence[int]) -> list[tuple[int, int]]:
        sql = f"SELECT DISTINCT number, owner FROM version WHERE tenant = ? AND number {self.any_of}"
        return sorted(self._rows(sql, self._tenant, self._numbers(numbers)))

    def versions_of(self, user: int) -> list[tuple[int, int, str, bool]]:
        sql = "SELECT number, ordinal, text, valid_to IS NOT NULL FROM version WHERE tenant = ? AND owner = ?"
        return self._rows(sql, self._tenant, user)

    def told_by(self, user: int) -> list[tuple[int, str]]:
        sql = "SELECT number, query || ' ' || outcome FROM trajectory WHERE tenant = ? AND \"user\" = ?"
        return self._rows(sql, self._tenant, user)

    def erase_versions(
        self, change: Change, versions: Sequence[tuple[int, int]], trajectories: Sequence[int]
    ) -> dict[str, int]:
        sql = "DELETE FROM version WHERE tenant = ? AND number = ? AND ordinal = ?"
        deleted = self._run_many(sql, [(self._tenant, *version) for version in versions])
        numbers = sorted({number for number, _ in versions})
        left = f"SELECT number FROM version WHERE tenant = ? AND number {self.any_of}"
        skills = sorted(set(numbers).difference(self._column(left, self._tenant, self._numbers(numbers))))
        neighbours = self._neighbours(skills)
        emptied = f"UPDATE trajectory SET query = '', outcome = '' WHERE tenant = ? AND number {self.any_of}"
        receipt = {
            "skills": len(skills),
            "versions": deleted,
            "vectors": self._delete("live", "number", skills),
            "edges": self._delete_edges(skills),
            "trajectories": self._run(emptied, self._tenant, self._numbers(trajectories)),
            "nodes": self._delete_unused(neighbours),
        }
        self._note_forgotten(change, skills, receipt)
        return receipt

    # Re-embedding

    def stage_vectors(self, change: Change, embedder: EmbedderRecord, vectors: Mapping[int, Float32Array]) -> None:
        key = _key(embedder)
        self._run("DELETE FROM staged WHERE tenant = ? AND embedder <> ?", self._tenant, key)
        sql = (
            f"INSERT INTO staged (tenant, number, embedder, vector) VALUES (?, ?, ?, {self.vector_value}) "
            "ON CONFLICT (tenant, number) DO UPDATE SET embedder = excluded.embedder, vector = excluded.vector"
        )
        self._run_many(sql, [(self._tenant, number, key, self._vector(vector)) for number, vector in vectors.items()])

    def unstaged(self, embedder: EmbedderRecord, rows: int) -> list[tuple[int, str]]:
        sql = (
            "SELECT number, text FROM (SELECT tenant, number, text FROM version WHERE valid_to IS NULL "
            'UNION ALL SELECT tenant, "user", text FROM profile) embedded WHERE tenant = ? '
            "AND NOT EXISTS (SELECT 1 FROM staged s "
            "WHERE s.tenant = embedded.tenant AND s.number = embedded.number AND s.embedder = ?) LIMIT ?"
        )
        return self._rows(sql, self._tenant, _key(embedder), rows)

    def take_staged(self, change: Change, embedder: EmbedderRecord) -> None:
        for table, number in (("live", "number"), ("profile", '"user"')):
            self._run(
                f"UPDATE {table} SET changed = ?, vector = "
                f"(SELECT s.vector FROM staged s WHERE s.tenant = {table}.tenant AND s.number = {table}.{number}) "
                "WHERE tenant = ?",
                change.number,
                self._tenant,
            )
        self._run("DELETE FROM staged WHERE tenant = ?", self._tenant)
        self.set_embedder(change, embedder)

    # Export and import

    def dump(self) -> Iterator[Record]:
        with self._snapshot():
            maker = self.embedder()
            head = [maker.name, maker.version, maker.dimensions] if maker else None
            next_number = self._value("SELECT next_number FROM tenant WHERE tenant = ?", self._tenant)
            yield {"row": "tenant", "next_number": next_number, "embedder": head}
            for table, (columns, order) in _EXPORTED.items():
                names = ", ".join(self.vector_column if name == "vector" else f'"{name}"' for name in columns)
                for row in self._stream(f"SELECT {names} FROM {table} WHERE tenant = ? ORDER BY {order}", self._tenant):
                    record = {"row": table, **dict(zip(columns, row, strict=True))}
                    if "vector" in record:
                        record["vector"] = _encoded(self._read_vectors([record["vector"]])[0])
                    yield record

    def load(self, change: Change, records: Iterable[Record]) -> int:
        dimensions = 0
        texts: dict[int, tuple[str, str, float]] = {}
        count = 0
        for count, record in enumerate(records, start=1):
            try:
                if count == 1:
                    dimensions = self._load_tenant(change, record)
                else:
                    self._load_row(change, record, dimensions, texts)
            except (StorageError, StoreBusyError):
                raise
            except (*_MALFORMED, *self.refusals) as error:
                raise ValueError(f"row {count} is invalid: {type(error).__name__}: {error}") from None
        return count

    # Helpers

    def _load_tenant(self, change: Change, record: Record) -> int:
        """Load the first row of an export and return the dimensions of its vectors."""
        if record["row"] != "tenant":
            raise ValueError("an export starts with the row of its tenant")
        sql = "UPDATE tenant SET next_number = ? WHERE tenant = ?"
        self._run(sql, int(record["next_number"]), self._tenant)
        if record["embedder"] is None:
            return 0
        name, version, dimensions = record["embedder"]
        maker, present = EmbedderRecord(str(name), str(version), int(dimensions)), self.embedder()
        if present is not None and present != maker:
            raise ValueError(f"its vectors were made by {maker}, those of this tenant by {present}")
        self.set_embedder(change, maker)
        return maker.dimensions

    def _load_row(
        self, change: Change, record: Record, dimensions: int, texts: dict[int, tuple[str, str, float]]
    ) -> None:
        """Load one row. `texts` holds what is said of valid versions, whose rows of `live` follow later."""
        table = record["row"]
        values: dict[str, Any] = {
            name: record[name] if name in record else _ABSENT[name] for name in _EXPORTED[table][0]
        }
        if table == "version" and values["valid_to"] is None:
            texts[values["number"]] = values["text"], values["metadata"], values["valid_from"]
        if table == "edge" and values["kind"] not in EDGE_ENDS:
            raise ValueError(f"unknown kind of edge {values['kind']!r}")
        if "name" in values:
            check_name(str(values["kind"]), values["name"])
        if "vector" in values:
            values["vector"] = self._vector(_decoded(values["vector"], dimensions))
            values["changed"] = change.number
        if table == "live":
            text, metadata, valid_from = texts.pop(values["number"])
            values["digest"] = digest(told_apart(text, metadata))
            values.update(zip(self.searched, self._searched(text, valid_from), strict=True))
        names = ", ".join(f'"{name}"' for name in values)
        special = {"vector": self.vector_value, **self.searched}
        places = ", ".join(special.get(name, "?") for name in values)
        self._run(f"INSERT INTO {table} (tenant, {names}) VALUES (?, {places})", self._tenant, *values.values())

    def _delete_edges(self, nodes: list[int]) -> int:
        return self._delete("edge", "source", nodes) + self._delete("edge", "target", nodes)

    def _note_forgotten(self, change: Change, gone: list[int], receipt: dict[str, int]) -> None:
        """Delete what is kept beside the rows of nodes, and tell other processes that they are gone."""
        # What is called "search" says how common words are that a thousand skills have, and nothing of anyone.
        # Communities hold no words.
        saved = "DELETE FROM state WHERE tenant = ? AND name NOT LIKE ? AND name NOT LIKE ?"
        receipt["word_index"] = self._run(saved, self._tenant, "search%", "communities%")
        self._delete("staged", "number", gone)
        self._note_ended(change, gone)
        self._run("UPDATE tenant SET forgotten = ? WHERE tenant = ?", change.number, self._tenant)

    def _neighbours(self, numbers: list[int]) -> set[int]:
        """Return the nodes at the other end of these nodes' edges, ended edges included."""
        found: set[int] = set()
        for near, far in (("source", "target"), ("target", "source")):
            sql = f"SELECT {far} FROM edge WHERE tenant = ? AND {near} {self.any_of}"
            found.update(self._column(sql, self._tenant, self._numbers(numbers)))
        return found

    def _delete_unused(self, numbers: set[int]) -> int:
        """Delete those of these tools and scenarios that have no edge left, ended edges included."""
        edge = "SELECT 1 FROM edge e WHERE e.tenant = node.tenant AND e.{} = node.number"
        # Not kind IN (...), for which SQLite would read all tools and scenarios of the tenant.
        sql = (
            f"DELETE FROM node WHERE tenant = ? AND number {self.any_of} AND kind NOT IN ('user', 'trajectory') "
            f"AND NOT EXISTS ({edge.format('target')}) AND NOT EXISTS ({edge.format('source')})"
        )
        return self._run(sql, self._tenant, self._numbers(numbers))


def _key(embedder: EmbedderRecord) -> str:
    return json.dumps([embedder.name, embedder.version, embedder.dimensions])


def _encoded(vector: Float32Array) -> str:
    return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()


def _decoded(text: str, dimensions: int) -> Float32Array:
    blob = base64.b64decode(text, validate=True)
    if len(blob) != 4 * dimensions or not np.isfinite(np.frombuffer(blob, "<f4")).all():
        raise ValueError(f"a vector isn't {dimensions} finite numbers")
    return np.frombuffer(blob, "<f4").astype(np.float32, copy=False)
