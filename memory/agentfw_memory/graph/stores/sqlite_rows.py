"""Reading and writing a tenant's rows in SQLite: nodes, skills with their versions, edges.

The one rule: every statement names the tenant. A person's text is only ever a parameter of a statement, never a part
of one, so that quotes and wildcards in it mean themselves.

`SqliteStore` adds what is done to a graph as a whole.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import numpy as np

from agentfw_memory.graph.records import Edge, EdgeKind, NodeKind, Skill, SkillVersion
from agentfw_memory.graph.stores.interface import (
    BINDING,
    Change,
    Clock,
    EdgeRow,
    EmbedderRecord,
    Float32Array,
    LiveRows,
    SkillRow,
    TrajectoryRow,
)
from agentfw_memory.graph.stores.sqlite_file import patiently, transaction

__all__ = ["SqliteRows", "digest", "packed", "unpacked"]

_SKILL = """
SELECT v.number, l.owner, v.text, v.visibility, l.uses, l.rewards, v.valid_from, v.recorded_at
FROM json_each(:numbers) j
CROSS JOIN live l ON l.tenant = :tenant AND l.number = j.value
CROSS JOIN version v ON v.tenant = :tenant AND v.number = l.number AND v.valid_to IS NULL
WHERE :reader IS NULL OR l.shared OR l.owner = :reader
"""

_SKILL_EDGES = """
SELECT e.row, e.source, e.kind, e.target FROM json_each(?1) j
CROSS JOIN edge e ON e.tenant = ?2 AND e.source = j.value AND e.valid_to IS NULL
WHERE e.kind IN ('REQUIRES', 'APPLIES_TO')
"""

_EDGES = """
SELECT e.kind, e.source, s.kind, s.name, e.target, t.kind, t.name, e.weight, e.valid_from, e.valid_to, e.recorded_at
FROM edge e
LEFT JOIN node s ON s.tenant = e.tenant AND s.number = e.source
LEFT JOIN node t ON t.tenant = e.tenant AND t.number = e.target
WHERE e.tenant = :tenant AND e.row IN (
    SELECT row FROM edge WHERE tenant = :tenant AND source = :number
    UNION SELECT row FROM edge WHERE tenant = :tenant AND target = :number)
ORDER BY e.row
"""


NAMES_KEPT = 100_000


class SqliteRows:
    """The rows of one tenant."""

    def __init__(self, connection: sqlite3.Connection, tenant: str, number: int, clock: Clock) -> None:
        self._connection, self.tenant, self._tenant, self._clock = connection, tenant, number, clock
        self._execute = connection.execute
        self._names: dict[int, str] = {}

    # Who and what

    @property
    def identity(self) -> str:
        return str(self._value("SELECT identity FROM tenant WHERE tenant = ?", self._tenant))

    def embedder(self) -> EmbedderRecord | None:
        sql = "SELECT embedder, embedder_version, dimensions FROM tenant WHERE tenant = ?"
        name, version, dimensions = self._rows(sql, self._tenant)[0]
        return None if name is None else EmbedderRecord(name, version, dimensions)

    def set_embedder(self, change: Change, embedder: EmbedderRecord) -> None:
        self._execute(
            "UPDATE tenant SET embedder = ?, embedder_version = ?, dimensions = ? WHERE tenant = ?",
            (embedder.name, embedder.version, embedder.dimensions, self._tenant),
        )

    def counter(self) -> int:
        return int(self._value("SELECT counter FROM tenant WHERE tenant = ?", self._tenant))

    def forgotten(self) -> int:
        return int(self._value("SELECT forgotten FROM tenant WHERE tenant = ?", self._tenant))

    # Writing

    @contextmanager
    def writing(self) -> Iterator[Change]:
        with transaction(self._connection):
            sql = "UPDATE tenant SET counter = counter + 1 WHERE tenant = ? RETURNING counter"
            yield Change(int(self._value(sql, self._tenant)), self._clock())

    def nodes(self, change: Change, kind: NodeKind, names: Sequence[str]) -> dict[str, int]:
        numbers: dict[str, int] = {}
        for name in names:
            if name not in numbers:
                number = self.find(kind, name)
                numbers[name] = self._new_node(change, kind, name) if number is None else number
        return numbers

    def new_numbers(self, change: Change, count: int) -> range:
        sql = "UPDATE tenant SET next_number = next_number + ? WHERE tenant = ? RETURNING next_number"
        end = int(self._value(sql, count, self._tenant))
        return range(end - count, end)

    def add_skills(self, change: Change, rows: Sequence[SkillRow]) -> None:
        self._connection.executemany(
            "INSERT INTO live (tenant, number, changed, owner, shared, digest, vector) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    self._tenant,
                    row.number,
                    change.number,
                    row.owner,
                    row.visibility == "shared",
                    digest(row.text),
                    packed(row.vector),
                )
                for row in rows
            ],
        )
        self._begin_versions(change, rows)

    def twins(self, pairs: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
        sql = "SELECT number FROM live WHERE tenant = ? AND owner = ? AND digest = ?"
        found = {(owner, text): self._rows(sql, self._tenant, owner, digest(text)) for owner, text in pairs}
        return {pair: rows[0][0] for pair, rows in found.items() if rows}

    def replace_skill(self, change: Change, row: SkillRow) -> None:
        self._end_versions([row.number], row.valid_from)
        self._begin_versions(change, [row])
        self._execute(
            "UPDATE live SET changed = ?, shared = ?, digest = ?, vector = ? WHERE tenant = ? AND number = ?",
            (
                change.number,
                row.visibility == "shared",
                digest(row.text),
                packed(row.vector),
                self._tenant,
                row.number,
            ),
        )
        self._unstage([row.number])

    def end_skills(self, change: Change, numbers: Sequence[int]) -> None:
        self._end_versions(numbers, change.now)
        of = [(self._tenant, number) for number in numbers]
        self._connection.executemany("DELETE FROM live WHERE tenant = ? AND number = ?", of)
        self._note_ended(change, numbers)
        for end in ("source", "target"):
            sql = f"UPDATE edge SET valid_to = ? WHERE tenant = ? AND {end} = ? AND valid_to IS NULL"
            self._connection.executemany(sql, [(change.now, *one) for one in of])
        self._unstage(numbers)

    def count_use(self, change: Change, number: int, uses: int, rewards: float) -> None:
        self._execute(
            "UPDATE live SET uses = uses + ?, rewards = rewards + ?, changed = ? WHERE tenant = ? AND number = ?",
            (uses, rewards, change.number, self._tenant, number),
        )

    def recount(self, change: Change, numbers: Iterable[int]) -> None:
        tallied = "SELECT {} FROM edge WHERE tenant = ?1 AND target = ?2 AND kind = 'EXECUTED' AND valid_to IS NULL"
        self._connection.executemany(
            f"UPDATE live SET uses = ({tallied.format('count(*)')}), rewards = ({tallied.format('total(weight)')}), "
            "changed = ?3 WHERE tenant = ?1 AND number = ?2",
            [(self._tenant, number, change.number) for number in numbers],
        )

    def touch(self, change: Change, numbers: Iterable[int]) -> None:
        self._connection.executemany(
            "UPDATE live SET changed = ? WHERE tenant = ? AND number = ?",
            [(change.number, self._tenant, number) for number in numbers],
        )

    def add_edges(self, change: Change, rows: Sequence[EdgeRow]) -> int:
        new = 0
        for row in rows:
            # The index over valid edges refuses what is there already.
            new += self._execute(
                "INSERT INTO edge (tenant, kind, source, target, weight, valid_from, recorded_at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (
                    self._tenant,
                    row.kind,
                    row.source,
                    row.target,
                    row.weight,
                    change.now if row.valid_from is None else row.valid_from,
                    change.now,
                ),
            ).rowcount or self._reweigh(change, row)
        return new

    def end_edges(self, change: Change, rows: Sequence[EdgeRow]) -> int:
        sql = (
            "UPDATE edge SET valid_to = ? "
            "WHERE tenant = ? AND source = ? AND kind = ? AND target = ? AND valid_to IS NULL"
        )
        values = [(change.now, self._tenant, row.source, row.kind, row.target) for row in rows]
        return sum(self._execute(sql, each).rowcount for each in values)

    def add_trajectory(self, change: Change, row: TrajectoryRow) -> int:
        number = self._new_node(change, "trajectory", row.id)
        self._execute(
            "INSERT INTO trajectory (tenant, number, user, query, outcome, reward) VALUES (?, ?, ?, ?, ?, ?)",
            (self._tenant, number, row.user, row.query, row.outcome, row.reward),
        )
        return number

    def set_profile(self, change: Change, user: int, text: str, vector: Float32Array) -> None:
        self._execute(
            "INSERT OR REPLACE INTO profile (tenant, user, changed, text, vector) VALUES (?, ?, ?, ?, ?)",
            (self._tenant, user, change.number, text, packed(vector)),
        )
        self._unstage([user])

    # Reading

    def find(self, kind: NodeKind, name: str) -> int | None:
        rows = self._rows(
            "SELECT number FROM node WHERE tenant = ? AND kind = ? AND name = ?", self._tenant, kind, name
        )
        return rows[0][0] if rows else None

    def live(self, since: int = 0, rows: int = 20_000) -> Iterator[LiveRows]:
        columns = "SELECT number, owner, shared, vector, uses, rewards FROM live WHERE tenant = ? AND number > ?"
        changed = "" if since == 0 else "AND changed > ?"
        values = () if since == 0 else (since,)
        last = 0
        while batch := self._rows(f"{columns} {changed} ORDER BY number LIMIT {rows}", self._tenant, last, *values):
            last = batch[-1][0]
            numbers, owners, shared, vectors, uses, rewards = zip(*batch, strict=True)
            yield LiveRows(
                np.array(numbers, np.int64),
                np.array(owners, np.int64),
                np.array(shared, np.bool_),
                np.array(uses, np.int64),
                np.array(rewards, np.float64),
                unpacked(b"".join(vectors)).reshape(len(batch), -1),
            )

    def ended(self, since: int) -> list[int]:
        sql = "SELECT number FROM ended WHERE tenant = ? AND changed > ?"
        gone = [number for (number,) in self._rows(sql, self._tenant, since)]
        if gone:
            self._names.clear()  # somebody may have been forgotten, and their name with them
        return gone

    def structure(self, after: int = 0) -> Iterator[tuple[int, int, int, float]]:
        sql = (
            "SELECT e.row, coalesce(t.user, e.source), e.target, e.weight FROM edge e INDEXED BY edge_row "
            "LEFT JOIN trajectory t ON t.tenant = e.tenant AND t.number = e.source AND e.kind = 'EXECUTED' "
            "WHERE e.row > ? AND e.tenant = ? AND e.valid_to IS NULL AND e.kind IN ('OWNS', 'EXECUTED') "
            "AND e.weight >= ? ORDER BY e.row LIMIT 50000"
        )
        while batch := self._rows(sql, after, self._tenant, BINDING):
            after = batch[-1][0]
            yield from batch

    def relations(self, numbers: Sequence[int] | None = None) -> list[tuple[EdgeKind, int, int]]:
        kinds = "kind IN ('COMPLEMENTS', 'CONFLICTS') AND valid_to IS NULL"
        if numbers is None:
            return self._rows(f"SELECT kind, source, target FROM edge WHERE tenant = ? AND {kinds}", self._tenant)
        sql = (
            "SELECT e.kind, e.source, e.target FROM json_each(?1) j "
            f"CROSS JOIN edge e ON e.tenant = ?2 AND e.{{}} = j.value AND e.{kinds}"
        )
        both = f"{sql.format('source')} UNION {sql.format('target')}"
        return self._rows(both, json.dumps(list(numbers)), self._tenant)

    def profile(self, user: int) -> Float32Array | None:
        rows = self._rows("SELECT vector FROM profile WHERE tenant = ? AND user = ?", self._tenant, user)
        return unpacked(rows[0][0]) if rows else None

    def profiles_changed(self, since: int) -> list[int]:
        rows = self._rows("SELECT user FROM profile WHERE tenant = ? AND changed > ?", self._tenant, since)
        return [user for (user,) in rows]

    def skills(self, numbers: Sequence[int], reader: int | None = None) -> dict[int, Skill]:
        asked = json.dumps(list(numbers))
        values = {"numbers": asked, "tenant": self._tenant, "reader": reader}
        rows = patiently(lambda: self._execute(_SKILL, values).fetchall())
        edges = sorted(self._rows(_SKILL_EDGES, asked, self._tenant))
        names = self._node_names({owner for _, owner, *_ in rows} | {target for *_, target in edges})
        of: dict[tuple[int, str], tuple[str, ...]] = {}
        for _, source, kind, target in edges:
            of[source, kind] = (*of.get((source, kind), ()), names[target])
        return {
            number: Skill(
                f"s{number}",
                names[owner],
                text,
                of.get((number, "REQUIRES"), ()),
                of.get((number, "APPLIES_TO"), ()),
                visibility,
                uses,
                rewards / uses if uses else 0.0,
                valid_from,
                recorded_at,
            )
            for number, owner, text, visibility, uses, rewards, valid_from, recorded_at in rows
        }

    def texts(self, numbers: Sequence[int]) -> dict[int, str]:
        sql = (
            "SELECT v.number, v.text FROM json_each(?) j "
            "CROSS JOIN version v ON v.tenant = ? AND v.number = j.value AND v.valid_to IS NULL"
        )
        return dict(self._rows(sql, json.dumps(list(numbers)), self._tenant))

    def skills_of(self, scenario: int) -> list[int]:
        sql = (
            "SELECT source FROM edge WHERE tenant = ? AND target = ? AND kind = 'APPLIES_TO' AND valid_to IS NULL "
            "UNION SELECT target FROM edge WHERE tenant = ? AND source = ? AND kind = 'TRIGGERS' AND valid_to IS NULL"
        )
        # Sorted here: asked for an order, SQLite goes through all edges of the tenant.
        rows = self._rows(sql, self._tenant, scenario, self._tenant, scenario)
        return sorted(number for (number,) in rows)

    def versions(self, number: int) -> list[SkillVersion]:
        sql = (
            "SELECT text, visibility, valid_from, valid_to, recorded_at FROM version "
            "WHERE tenant = ? AND number = ? ORDER BY ordinal"
        )
        return [SkillVersion(*row) for row in self._rows(sql, self._tenant, number)]

    def edges(self, number: int) -> list[Edge]:
        values = {"tenant": self._tenant, "number": number}
        rows = patiently(lambda: self._execute(_EDGES, values).fetchall())
        return [
            Edge(kind, _named(source, source_kind, source_name), _named(target, target_kind, target_name), *rest)
            for kind, source, source_kind, source_name, target, target_kind, target_name, *rest in rows
        ]

    def edge_rows(self, number: int) -> list[EdgeRow]:
        sql = (
            "SELECT kind, source, target, weight, valid_from FROM edge "
            "WHERE tenant = ?1 AND source = ?2 AND valid_to IS NULL UNION ALL "
            "SELECT kind, source, target, weight, valid_from FROM edge "
            "WHERE tenant = ?1 AND target = ?2 AND valid_to IS NULL"
        )
        return [EdgeRow(*row) for row in self._rows(sql, self._tenant, number)]

    def co_uses(self, numbers: Sequence[int], reward: float) -> dict[tuple[int, int], int]:
        sql = (
            "SELECT a.target, b.target, count(*) FROM json_each(?1) i "
            "CROSS JOIN edge a ON a.tenant = ?2 AND a.target = i.value AND a.kind = 'EXECUTED' AND a.valid_to IS NULL "
            "CROSS JOIN edge b ON b.tenant = ?2 AND b.source = a.source AND b.kind = 'EXECUTED' AND b.valid_to IS NULL "
            "WHERE a.weight >= ?3 AND b.target > a.target AND b.target IN (SELECT value FROM json_each(?1)) "
            "GROUP BY a.target, b.target ORDER BY 1, 2"
        )
        rows = self._rows(sql, json.dumps(list(numbers)), self._tenant, reward)
        return {(one, other): count for one, other, count in rows}

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        nodes = dict(self._rows("SELECT kind, count(*) FROM node WHERE tenant = ? GROUP BY kind", self._tenant))
        live, shared = self._rows("SELECT count(*), ifnull(sum(shared), 0) FROM live WHERE tenant = ?", self._tenant)[0]
        edges = "SELECT kind, count(*) FROM edge WHERE tenant = ? AND valid_to IS NULL GROUP BY kind"
        past = self._value("SELECT count(*) FROM version WHERE tenant = ? AND valid_to IS NOT NULL", self._tenant)
        return {
            "nodes": {**nodes, "skill": live},
            "edges": dict(self._rows(edges, self._tenant)),
            "skills": {"shared": shared, "past": past},
        }

    # Within

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        return patiently(lambda: self._execute(sql, values).fetchall())

    def _value(self, sql: str, *values: Any) -> Any:
        return self._rows(sql, *values)[0][0]

    def _node_names(self, numbers: set[int]) -> dict[int, str]:
        """The names of users, tools and scenarios; they never change, and are kept for the next who asks."""
        missing = {number for number in numbers if number not in self._names}
        if missing:
            if len(self._names) > NAMES_KEPT:
                self._names.clear()
                missing = numbers
            sql = "SELECT n.number, n.name FROM json_each(?) j CROSS JOIN node n ON n.tenant = ? AND n.number = j.value"
            self._names.update(self._rows(sql, json.dumps(sorted(missing)), self._tenant))
        return self._names

    def _new_node(self, change: Change, kind: NodeKind, name: str) -> int:
        number = self.new_numbers(change, 1)[0]
        self._execute("INSERT INTO node VALUES (?, ?, ?, ?, ?)", (self._tenant, number, kind, name, change.now))
        return number

    def _begin_versions(self, change: Change, rows: Sequence[SkillRow]) -> None:
        self._connection.executemany(
            "INSERT INTO version (tenant, number, ordinal, owner, text, visibility, valid_from, recorded_at) VALUES "
            "(?1, ?2, (SELECT count(*) FROM version WHERE tenant = ?1 AND number = ?2), ?3, ?4, ?5, ?6, ?7)",
            [
                (self._tenant, row.number, row.owner, row.text, row.visibility, row.valid_from, change.now)
                for row in rows
            ],
        )

    def _end_versions(self, numbers: Sequence[int], when: float) -> None:
        self._connection.executemany(
            "UPDATE version SET valid_to = ? WHERE tenant = ? AND number = ? AND valid_to IS NULL",
            [(when, self._tenant, number) for number in numbers],
        )

    def _note_ended(self, change: Change, numbers: Sequence[int]) -> None:
        """Note for other processes that these are no more."""
        self._connection.executemany(
            "INSERT INTO ended (tenant, changed, number) VALUES (?, ?, ?)",
            [(self._tenant, change.number, number) for number in numbers],
        )

    def _reweigh(self, change: Change, row: EdgeRow) -> int:
        """End the present edge where it weighs something else, and begin it anew."""
        same = "tenant = ? AND source = ? AND kind = ? AND target = ? AND valid_to IS NULL AND weight = ?"
        values = (self._tenant, row.source, row.kind, row.target, row.weight)
        if self._rows(f"SELECT 1 FROM edge WHERE {same}", *values):
            return 0
        self.end_edges(change, [row])
        return self.add_edges(change, [row])

    def _unstage(self, numbers: Sequence[int]) -> None:
        self._connection.executemany(
            "DELETE FROM staged WHERE tenant = ? AND number = ?", [(self._tenant, number) for number in numbers]
        )


def digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def packed(vector: Float32Array) -> bytes:
    """Little-endian floats of four bytes, on whatever machine."""
    return np.asarray(vector, "<f4").tobytes()


def unpacked(blob: bytes) -> Float32Array:
    return np.frombuffer(blob, "<f4").astype(np.float32, copy=False)


def _named(number: int, kind: str | None, name: str | None) -> str:
    return f"skill:s{number}" if kind is None else f"{kind}:{name}"
