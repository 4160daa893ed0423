"""The store of a skill graph in one SQLite file: opening it, forgetting, other vectors, moving house.

The one rule: who is forgotten is gone from the file, from its log and from what the file's free pages still hold.

    store = SqliteStore.open("skills.db", tenant="team-a")

`SqliteRows` has the reading and writing of single rows, `sqlite_file` the tables and how the file is shared.
"""

from __future__ import annotations

import base64
import json
import os
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from pathlib import Path

from agentfw_memory.errors import BadInputError, StoreBusyError

from .checks import name_of
from .records import EDGE_ENDS
from .sqlite_file import PATIENCE, open_file, patiently, transaction
from .sqlite_rows import SqliteRows, digest, packed, unpacked
from .store import Change, Clock, EmbedderRecord, Float32Array, Record

__all__ = ["SqliteStore"]

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
    "profile": "user",
}


class SqliteStore(SqliteRows):
    """One tenant of one file."""

    def __init__(self, connection: sqlite3.Connection, path: str, tenant: str, number: int, clock: Clock) -> None:
        super().__init__(connection, tenant, number, clock)
        self.path = path

    @classmethod
    def open(cls, path: str | Path, *, tenant: str, power_safe: bool = False, clock: Clock = time.time) -> SqliteStore:
        """Open or make a file, and the tenant in it; `:memory:` keeps it only as long as this process."""
        connection = open_file(path, power_safe=power_safe)
        try:
            number = _tenant_number(connection, tenant)
        except BaseException:
            connection.close()
            raise
        return cls(connection, str(path), tenant, number, clock)

    def bytes_on_disk(self) -> int:
        """Of the whole file, other tenants included, with its log."""
        files = (self.path, f"{self.path}-wal")
        return sum(os.path.getsize(file) for file in files if os.path.exists(file))

    @property
    def index_path(self) -> Path | None:
        if self.path == ":memory:":
            return None
        return Path(f"{self.path}-{blake2b(self.tenant.encode(), digest_size=6).hexdigest()}.index")

    def close(self) -> None:
        self._connection.close()

    # Caches that are kept in the store

    def save_state(self, change: Change, name: str, state: bytes) -> None:
        self._execute(
            "INSERT OR REPLACE INTO state (tenant, name, value) VALUES (?, ?, ?)", (self._tenant, name, state)
        )

    def state(self, name: str) -> bytes | None:
        rows = self._rows("SELECT value FROM state WHERE tenant = ? AND name = ?", self._tenant, name)
        return bytes(rows[0][0]) if rows else None

    # Forgetting

    def forget(self, change: Change, user: int) -> dict[str, int]:
        skills = self._numbers("SELECT DISTINCT number FROM version WHERE tenant = ? AND owner = ?", user)
        trajectories = self._numbers("SELECT number FROM trajectory WHERE tenant = ? AND user = ?", user)
        gone = [*skills, *trajectories, user]
        around = set(self._ends("source", "target", gone)) | set(self._ends("target", "source", gone))
        receipt = {
            "skills": len(skills),
            "versions": self._delete("version", "number", skills),
            "vectors": self._delete("live", "number", skills) + self._delete("profile", "user", [user]),
            "edges": self._delete("edge", "source", gone) + self._delete("edge", "target", gone),
            "trajectories": self._delete("trajectory", "number", trajectories),
        }
        self._delete("node", "number", trajectories)
        receipt["nodes"] = self._delete("node", "number", [user]) + self._delete_orphans(around)
        receipt["communities"] = self._execute("DELETE FROM state WHERE tenant = ?", (self._tenant,)).rowcount
        self._delete("staged", "number", gone)
        self._connection.executemany(
            "INSERT INTO ended (tenant, changed, number) VALUES (?, ?, ?)",
            [(self._tenant, change.number, number) for number in (*skills, user)],
        )
        self.recount(change, sorted(around.difference(gone)))
        self._execute("UPDATE tenant SET forgotten = ? WHERE tenant = ?", (change.number, self._tenant))
        return receipt

    def erase(self) -> None:
        """Write the whole file anew, and fold the log into it, which still has what was written before.

        SQLite can overwrite deleted rows with zeros (`secure_delete`), but that isn't enough: when it moves rows
        between pages, copies of them stay behind in what is free of a page.
        """
        until = time.monotonic() + PATIENCE
        # What it is built in holds only what stays, and may be too large for memory.
        self._execute("PRAGMA temp_store = FILE")
        patiently(lambda: self._execute("VACUUM"))
        self._execute("PRAGMA temp_store = MEMORY")
        while patiently(lambda: self._execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone())[0]:
            if time.monotonic() > until:
                raise StoreBusyError(
                    "the log still holds what was forgotten, because another process has been reading it all the time",
                    mend="close the other process and call forget again",
                )
            time.sleep(0.05)

    # Other vectors

    def stage_vectors(self, change: Change, embedder: EmbedderRecord, vectors: Mapping[int, Float32Array]) -> None:
        key = _key(embedder)
        self._execute("DELETE FROM staged WHERE tenant = ? AND embedder <> ?", (self._tenant, key))
        self._connection.executemany(
            "INSERT OR REPLACE INTO staged (tenant, number, embedder, vector) VALUES (?, ?, ?, ?)",
            [(self._tenant, number, key, packed(vector)) for number, vector in vectors.items()],
        )

    def unstaged(self, embedder: EmbedderRecord, rows: int) -> list[tuple[int, str]]:
        sql = (
            "SELECT number, text FROM (SELECT number, text FROM version WHERE tenant = ?1 AND valid_to IS NULL "
            "UNION ALL SELECT user, text FROM profile WHERE tenant = ?1) every "
            "WHERE NOT EXISTS (SELECT 1 FROM staged WHERE tenant = ?1 AND number = every.number AND embedder = ?2) "
            "LIMIT ?3"
        )
        return self._rows(sql, self._tenant, _key(embedder), rows)

    def take_staged(self, change: Change, embedder: EmbedderRecord) -> None:
        for table, number in (("live", "number"), ("profile", "user")):
            self._execute(
                f"UPDATE {table} SET changed = ?1, vector = "
                f"(SELECT vector FROM staged WHERE tenant = ?2 AND number = {table}.{number}) WHERE tenant = ?2",
                (change.number, self._tenant),
            )
        self._execute("DELETE FROM staged WHERE tenant = ?", (self._tenant,))
        self.set_embedder(change, embedder)

    # Moving house

    def dump(self) -> Iterator[Record]:
        with transaction(self._connection, begin="BEGIN"):
            maker = self.embedder()
            head = [maker.name, maker.version, maker.dimensions] if maker else None
            numbers = self._value("SELECT next_number FROM tenant WHERE tenant = ?", self._tenant)
            yield {"row": "tenant", "next_number": numbers, "embedder": head}
            for table, columns in _DUMPED.items():
                sql = f"SELECT {', '.join(columns)} FROM {table} WHERE tenant = ? ORDER BY {_ORDER[table]}"
                for row in self._execute(sql, (self._tenant,)):
                    record = {"row": table, **dict(zip(columns, row, strict=True))}
                    if "vector" in record:
                        record["vector"] = base64.b64encode(record["vector"]).decode()
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
                names = ", ".join(values)
                self._execute(
                    f"INSERT INTO {record['row']} (tenant, {names}) VALUES (?{', ?' * len(values)})",
                    (self._tenant, *values.values()),
                )
            except (KeyError, ValueError, TypeError, AttributeError, sqlite3.IntegrityError) as error:
                raise ValueError(f"row {count} can't be taken: {type(error).__name__}: {error}") from None
        return count

    # Within

    def _load_head(self, change: Change, record: Record) -> int:
        if record["row"] != "tenant":
            raise ValueError("an export begins with the row of its tenant")
        sql = "UPDATE tenant SET next_number = ? WHERE tenant = ?"
        self._execute(sql, (int(record["next_number"]), self._tenant))
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
        sql = f"SELECT DISTINCT e.{far} FROM json_each(?) j CROSS JOIN edge e ON e.tenant = ? AND e.{near} = j.value"
        return [number for (number,) in self._rows(sql, json.dumps(numbers), self._tenant)]

    def _delete(self, table: str, column: str, numbers: list[int]) -> int:
        sql = f"DELETE FROM {table} WHERE tenant = ? AND {column} = ?"
        return self._connection.executemany(sql, [(self._tenant, number) for number in numbers]).rowcount

    def _delete_orphans(self, numbers: set[int]) -> int:
        """Delete those of these tools and scenarios that no edge has any more, past ones included."""
        sql = (
            "DELETE FROM node WHERE tenant = ?1 AND number = ?2 AND kind IN ('tool', 'scenario') "
            "AND NOT EXISTS (SELECT 1 FROM edge WHERE tenant = ?1 AND target = ?2) "
            "AND NOT EXISTS (SELECT 1 FROM edge WHERE tenant = ?1 AND source = ?2)"
        )
        values = [(self._tenant, number) for number in sorted(numbers)]
        return max(0, self._connection.executemany(sql, values).rowcount)


def _tenant_number(connection: sqlite3.Connection, tenant: str) -> int:
    find = "SELECT tenant FROM tenant WHERE name = ?"
    rows = patiently(lambda: connection.execute(find, (tenant,)).fetchall())
    if not rows:
        with transaction(connection):
            sql = "INSERT INTO tenant (name, identity) VALUES (?, ?) ON CONFLICT DO NOTHING"
            connection.execute(sql, (tenant, uuid.uuid4().hex))
            rows = connection.execute(find, (tenant,)).fetchall()
    return int(rows[0][0])


def _key(embedder: EmbedderRecord) -> str:
    return json.dumps([embedder.name, embedder.version, embedder.dimensions])


def _vector(text: str, dimensions: int) -> bytes:
    blob = base64.b64decode(text, validate=True)
    if len(blob) != 4 * dimensions or not all(abs(value) < float("inf") for value in unpacked(blob).tolist()):
        raise BadInputError(f"a vector isn't {dimensions} finite numbers")
    return blob
