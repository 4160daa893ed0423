"""The store of skill graphs on a PostgreSQL server: opening it, forgetting, other vectors, moving house.

The one rule: it keeps every promise of the store in a file, and says where it can't: who is forgotten is gone from the
tables and their files at once, but a server's own log and backups are in its keeper's hands.

    store = PostgresStore.open("postgresql://ana@db.example.org/team", tenant="team-a")
"""

from __future__ import annotations

import base64
import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from agentfw_memory.errors import SkillGraphError

from .checks import name_of
from .postgres_rows import PostgresRows, listed, unsent
from .postgres_server import TABLES, open_server, told, transaction
from .records import EDGE_ENDS
from .sqlite_rows import digest, packed, unpacked
from .store import Change, Clock, EmbedderRecord, Float32Array, Record

__all__ = ["PostgresStore"]

# What is exported of each table, in an order in which a row comes after those that it names.
_DUMPED: Mapping[str, tuple[str, ...]] = {
    "node": ("number", "kind", "name", "recorded_at"),
    "trajectory": ("number", "user", "query", "outcome", "reward"),
    "version": ("number", "ordinal", "owner", "text", "visibility", "valid_from", "valid_to", "recorded_at"),
    "live": ("number", "owner", "shared", "uses", "rewards", "vector"),
    "edge": ("kind", "source", "target", "weight", "valid_from", "valid_to", "recorded_at"),
    "profile": ("user", "text", "vector"),
}
_ORDER = {
    "node": "number",
    "trajectory": "number",
    "version": "number, ordinal",
    "live": "number",
    "edge": "row",
    "profile": '"user"',
}
FETCHED = 2_000
"""Rows that an export takes from the server at a time."""


class PostgresStore(PostgresRows):
    """One tenant of one database."""

    @classmethod
    def open(cls, url: str, *, tenant: str, clock: Clock = time.time) -> PostgresStore:
        """Connect, and make the tenant where it is new."""
        connection = open_server(url)
        try:
            with told():
                find = "SELECT tenant FROM tenant WHERE name = %s"
                row = connection.execute(find, (tenant,)).fetchone()
                if row is None:
                    connection.execute(
                        "INSERT INTO tenant (name, identity) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                        (tenant, uuid.uuid4().hex),
                    )
                    row = connection.execute(find, (tenant,)).fetchone()
            assert row is not None
        except BaseException:
            connection.close()
            raise
        return cls(connection, tenant, int(row[0]), clock)

    def bytes_on_disk(self) -> int:
        """Of all tables, other tenants included."""
        sql = (
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c "
            "WHERE c.relnamespace = 'skillgraph'::regnamespace AND c.relkind = 'r'"
        )
        return int(self._value(sql))

    @property
    def index_path(self) -> Path | None:
        """Nowhere: each process makes its index from the rows."""
        return None

    def close(self) -> None:
        self._connection.close()

    # Caches that are kept in the store

    def save_state(self, change: Change, name: str, state: bytes) -> None:
        sql = (
            "INSERT INTO state (tenant, name, value) VALUES (%s, %s, %s) "
            "ON CONFLICT (tenant, name) DO UPDATE SET value = excluded.value"
        )
        self._execute(sql, self._tenant, name, state)

    def state(self, name: str) -> bytes | None:
        rows = self._rows("SELECT value FROM state WHERE tenant = %s AND name = %s", self._tenant, name)
        return bytes(rows[0][0]) if rows else None

    # Forgetting

    def forget(self, change: Change, user: int) -> dict[str, int]:
        skills = self._numbers("SELECT DISTINCT number FROM version WHERE tenant = %s AND owner = %s", user)
        trajectories = self._numbers('SELECT number FROM trajectory WHERE tenant = %s AND "user" = %s', user)
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
        receipt["communities"] = self._execute("DELETE FROM state WHERE tenant = %s", self._tenant)
        self._delete("staged", "number", gone)
        self._end(change, [*skills, user])
        self.recount(change, sorted(around.difference(gone)))
        self._execute("UPDATE tenant SET forgotten = %s WHERE tenant = %s", change.number, self._tenant)
        return receipt

    def erase(self) -> None:
        """Write the tables anew, so that nothing of what was deleted is left in their files.

        The server's log, until it is overwritten, and its archives, replicas and backups can't be reached from here.
        """
        for table in TABLES:
            self._execute(f"VACUUM FULL {table}")

    # Other vectors

    def stage_vectors(self, change: Change, embedder: EmbedderRecord, vectors: Mapping[int, Float32Array]) -> None:
        key = _key(embedder)
        self._execute("DELETE FROM staged WHERE tenant = %s AND embedder <> %s", self._tenant, key)
        self._many(
            "INSERT INTO staged (tenant, number, embedder, vector) VALUES (%s, %s, %s, %s::real[]::vector) "
            "ON CONFLICT (tenant, number) DO UPDATE SET embedder = excluded.embedder, vector = excluded.vector",
            [(self._tenant, number, key, listed(vector)) for number, vector in vectors.items()],
        )

    def unstaged(self, embedder: EmbedderRecord, rows: int) -> list[tuple[int, str]]:
        sql = (
            "SELECT number, text FROM (SELECT tenant, number, text FROM version WHERE valid_to IS NULL "
            'UNION ALL SELECT tenant, "user", text FROM profile) embedded WHERE tenant = %s '
            "AND NOT EXISTS (SELECT 1 FROM staged s "
            "WHERE s.tenant = embedded.tenant AND s.number = embedded.number AND s.embedder = %s) "
            "ORDER BY number LIMIT %s"
        )
        return self._rows(sql, self._tenant, _key(embedder), rows)

    def take_staged(self, change: Change, embedder: EmbedderRecord) -> None:
        for table, number in (("live", "number"), ("profile", '"user"')):
            self._execute(
                f"UPDATE {table} SET changed = %s, vector = "
                f"(SELECT s.vector FROM staged s WHERE s.tenant = {table}.tenant AND s.number = {table}.{number}) "
                "WHERE tenant = %s",
                change.number,
                self._tenant,
            )
        self._execute("DELETE FROM staged WHERE tenant = %s", self._tenant)
        self.set_embedder(change, embedder)

    # Moving house

    def dump(self) -> Iterator[Record]:
        with transaction(self._connection, begin="ISOLATION LEVEL REPEATABLE READ, READ ONLY"):
            maker = self.embedder()
            head = [maker.name, maker.version, maker.dimensions] if maker else None
            numbers = self._value("SELECT next_number FROM tenant WHERE tenant = %s", self._tenant)
            yield {"row": "tenant", "next_number": numbers, "embedder": head}
            for table, columns in _DUMPED.items():
                names = ", ".join("vector_send(vector)" if name == "vector" else f'"{name}"' for name in columns)
                sql = f"SELECT {names} FROM {table} WHERE tenant = %s ORDER BY {_ORDER[table]}"
                with self._connection.cursor(f"dump_{table}") as cursor:
                    cursor.itersize = FETCHED
                    for row in cursor.execute(sql.encode(), (self._tenant,)):
                        record = {"row": table, **dict(zip(columns, row, strict=True))}
                        if "vector" in record:
                            record["vector"] = base64.b64encode(packed(unsent(record["vector"]))).decode()
                        yield record

    def load(self, change: Change, records: Iterable[Record]) -> int:
        dimensions = 0
        texts: dict[int, str] = {}
        count = 0
        for count, record in enumerate(records, start=1):
            try:
                if count == 1:
                    dimensions = self._load_head(change, record)
                    continue
                values = {name: record[name] for name in _DUMPED[record["row"]]}
                if record["row"] == "version" and values["valid_to"] is None:
                    texts[values["number"]] = values["text"]
                if record["row"] == "edge" and values["kind"] not in EDGE_ENDS:
                    raise ValueError(f"no kind of edge is called {values['kind']!r}")
                if "name" in values:
                    name_of(str(values["kind"]), values["name"])
                if "vector" in values:
                    values["vector"] = _vector(values["vector"], dimensions)
                    values["changed"] = change.number
                if record["row"] == "live":
                    values["digest"] = digest(texts.pop(values["number"]))
                names = ", ".join(f'"{name}"' for name in values)
                places = ", ".join("%s::real[]::vector" if name == "vector" else "%s" for name in values)
                sql = f"INSERT INTO {record['row']} (tenant, {names}) VALUES (%s, {places})"
                self._execute(sql, self._tenant, *values.values())
            except (KeyError, ValueError, TypeError, AttributeError, SkillGraphError) as error:
                raise ValueError(f"row {count} can't be taken: {type(error).__name__}: {error}") from None
        return count

    # Within

    def _load_head(self, change: Change, record: Record) -> int:
        if record["row"] != "tenant":
            raise ValueError("an export begins with the row of its tenant")
        sql = "UPDATE tenant SET next_number = %s WHERE tenant = %s"
        self._execute(sql, int(record["next_number"]), self._tenant)
        if record["embedder"] is None:
            return 0
        name, version, dimensions = record["embedder"]
        maker, kept = EmbedderRecord(str(name), str(version), int(dimensions)), self.embedder()
        if kept is not None and kept != maker:
            raise ValueError(f"its vectors were made by {maker}, those of this tenant by {kept}")
        self.set_embedder(change, maker)
        return maker.dimensions

    def _numbers(self, sql: str, *values: int) -> list[int]:
        return [number for (number,) in self._rows(sql, self._tenant, *values)]

    def _ends(self, near: str, far: str, numbers: list[int]) -> list[int]:
        """What is at the far end of the edges of these nodes."""
        sql = f"SELECT DISTINCT {far} FROM edge WHERE tenant = %s AND {near} = ANY(%s::bigint[])"
        return [number for (number,) in self._rows(sql, self._tenant, numbers)]

    def _delete(self, table: str, column: str, numbers: list[int]) -> int:
        sql = f"DELETE FROM {table} WHERE tenant = %s AND {column} = ANY(%s::bigint[])"
        return self._execute(sql, self._tenant, numbers)

    def _delete_orphans(self, numbers: set[int]) -> int:
        """Delete those of these tools and scenarios that no edge has any more, past ones included."""
        sql = (
            "DELETE FROM node n WHERE n.tenant = %s AND n.number = ANY(%s::bigint[]) "
            "AND n.kind IN ('tool', 'scenario') AND NOT EXISTS (SELECT 1 FROM edge e "
            "WHERE e.tenant = n.tenant AND (e.source = n.number OR e.target = n.number))"
        )
        return self._execute(sql, self._tenant, sorted(numbers))


def _key(embedder: EmbedderRecord) -> str:
    return json.dumps([embedder.name, embedder.version, embedder.dimensions])


def _vector(text: str, dimensions: int) -> list[float]:
    blob = base64.b64decode(text, validate=True)
    if len(blob) != 4 * dimensions or not np.isfinite(unpacked(blob)).all():
        raise ValueError(f"a vector isn't {dimensions} finite numbers")
    return listed(unpacked(blob))
