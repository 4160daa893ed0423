"""Reading and writing a tenant's rows in PostgreSQL: nodes, skills with their versions, edges.

The one rule: every statement names the tenant, and a reader is part of the statement that reads, never a filter
afterwards. Values are parameters only.

`PostgresStore` adds what is done to a graph as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

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
from agentfw_memory.graph.stores.postgres_server import told, transaction
from agentfw_memory.graph.stores.sqlite_rows import digest

if TYPE_CHECKING:
    from agentfw_memory.graph.stores.postgres_server import Connection

__all__ = ["PostgresRows", "listed", "unsent"]

NAMES_KEPT = 100_000

_SKILL = """
SELECT l.number, l.owner, v.text, v.visibility, l.uses, l.rewards, v.valid_from, v.recorded_at
FROM live l JOIN version v ON v.tenant = l.tenant AND v.number = l.number AND v.valid_to IS NULL
WHERE l.tenant = %(tenant)s AND l.number = ANY(%(numbers)s::bigint[])
  AND (%(reader)s::bigint IS NULL OR l.shared = 1 OR l.owner = %(reader)s::bigint)
ORDER BY array_position(%(numbers)s::bigint[], l.number)
"""

_EDGES = """
SELECT e.kind, e.source, s.kind, s.name, e.target, t.kind, t.name, e.weight, e.valid_from, e.valid_to, e.recorded_at
FROM edge e
LEFT JOIN node s ON s.tenant = e.tenant AND s.number = e.source
LEFT JOIN node t ON t.tenant = e.tenant AND t.number = e.target
WHERE e.tenant = %(tenant)s AND (e.source = %(number)s OR e.target = %(number)s)
ORDER BY e.row
"""


class PostgresRows:
    """The rows of one tenant."""

    def __init__(self, connection: Connection, tenant: str, number: int, clock: Clock) -> None:
        self._connection, self.tenant, self._tenant, self._clock = connection, tenant, number, clock
        self._names: dict[int, str] = {}

    # Who and what

    @property
    def identity(self) -> str:
        return str(self._value("SELECT identity FROM tenant WHERE tenant = %s", self._tenant))

    def embedder(self) -> EmbedderRecord | None:
        sql = "SELECT embedder, embedder_version, dimensions FROM tenant WHERE tenant = %s"
        name, version, dimensions = self._rows(sql, self._tenant)[0]
        return None if name is None else EmbedderRecord(name, version, dimensions)

    def set_embedder(self, change: Change, embedder: EmbedderRecord) -> None:
        sql = "UPDATE tenant SET embedder = %s, embedder_version = %s, dimensions = %s WHERE tenant = %s"
        self._execute(sql, embedder.name, embedder.version, embedder.dimensions, self._tenant)

    def counter(self) -> int:
        return int(self._value("SELECT counter FROM tenant WHERE tenant = %s", self._tenant))

    def forgotten(self) -> int:
        return int(self._value("SELECT forgotten FROM tenant WHERE tenant = %s", self._tenant))

    # Writing

    @contextmanager
    def writing(self) -> Iterator[Change]:
        with transaction(self._connection):
            # The lock on this row is what makes writers of a tenant wait for each other.
            sql = "UPDATE tenant SET counter = counter + 1 WHERE tenant = %s RETURNING counter"
            yield Change(int(self._value(sql, self._tenant)), self._clock())

    def nodes(self, change: Change, kind: NodeKind, names: Sequence[str]) -> dict[str, int]:
        numbers: dict[str, int] = {}
        for name in names:
            if name not in numbers:
                number = self.find(kind, name)
                numbers[name] = self._new_node(change, kind, name) if number is None else number
        return numbers

    def new_numbers(self, change: Change, count: int) -> range:
        sql = "UPDATE tenant SET next_number = next_number + %s WHERE tenant = %s RETURNING next_number"
        end = int(self._value(sql, count, self._tenant))
        return range(end - count, end)

    def add_skills(self, change: Change, rows: Sequence[SkillRow]) -> None:
        self._many(
            "INSERT INTO live (tenant, number, changed, owner, shared, digest, vector) "
            "VALUES (%s, %s, %s, %s, %s, %s, %s::real[]::vector)",
            [
                (
                    self._tenant,
                    row.number,
                    change.number,
                    row.owner,
                    int(row.visibility == "shared"),
                    digest(row.text),
                    listed(row.vector),
                )
                for row in rows
            ],
        )
        self._begin_versions(change, rows)

    def twins(self, pairs: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
        sql = "SELECT number FROM live WHERE tenant = %s AND owner = %s AND digest = %s"
        found = {(owner, text): self._rows(sql, self._tenant, owner, digest(text)) for owner, text in pairs}
        return {pair: rows[0][0] for pair, rows in found.items() if rows}

    def replace_skill(self, change: Change, row: SkillRow) -> None:
        self._end_versions([row.number], row.valid_from)
        self._begin_versions(change, [row])
        self._execute(
            "UPDATE live SET changed = %s, shared = %s, digest = %s, vector = %s::real[]::vector "
            "WHERE tenant = %s AND number = %s",
            change.number,
            int(row.visibility == "shared"),
            digest(row.text),
            listed(row.vector),
            self._tenant,
            row.number,
        )
        self._unstage([row.number])

    def end_skills(self, change: Change, numbers: Sequence[int]) -> None:
        gone = [int(number) for number in numbers]
        self._end_versions(gone, change.now)
        self._execute("DELETE FROM live WHERE tenant = %s AND number = ANY(%s::bigint[])", self._tenant, gone)
        self._note_ended(change, gone)
        for end in ("source", "target"):
            sql = f"UPDATE edge SET valid_to = %s WHERE tenant = %s AND {end} = ANY(%s::bigint[]) AND valid_to IS NULL"
            self._execute(sql, change.now, self._tenant, gone)
        self._unstage(gone)

    def count_use(self, change: Change, number: int, uses: int, rewards: float) -> None:
        sql = "UPDATE live SET uses = uses + %s, rewards = rewards + %s, changed = %s WHERE tenant = %s AND number = %s"
        self._execute(sql, uses, rewards, change.number, self._tenant, number)

    def recount(self, change: Change, numbers: Iterable[int]) -> None:
        counted = (
            "(SELECT {} FROM edge e WHERE e.tenant = live.tenant AND e.target = live.number "
            "AND e.kind = 'EXECUTED' AND e.valid_to IS NULL)"
        )
        sql = (
            f"UPDATE live SET uses = {counted.format('count(*)')}, rewards = "
            f"{counted.format('coalesce(sum(e.weight), 0)')}, changed = %s WHERE tenant = %s "
            "AND number = ANY(%s::bigint[])"
        )
        self._execute(sql, change.number, self._tenant, [int(number) for number in numbers])

    def touch(self, change: Change, numbers: Iterable[int]) -> None:
        sql = "UPDATE live SET changed = %s WHERE tenant = %s AND number = ANY(%s::bigint[])"
        self._execute(sql, change.number, self._tenant, [int(number) for number in numbers])

    def add_edges(self, change: Change, rows: Sequence[EdgeRow]) -> int:
        new = 0
        for row in rows:
            # The index over valid edges refuses what is there already.
            new += self._execute(
                "INSERT INTO edge (tenant, kind, source, target, weight, valid_from, recorded_at) "
                "VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                self._tenant,
                row.kind,
                row.source,
                row.target,
                row.weight,
                change.now if row.valid_from is None else row.valid_from,
                change.now,
            ) or self._reweigh(change, row)
        return new

    def end_edges(self, change: Change, rows: Sequence[EdgeRow]) -> int:
        sql = (
            "UPDATE edge SET valid_to = %s "
            "WHERE tenant = %s AND source = %s AND kind = %s AND target = %s AND valid_to IS NULL"
        )
        return sum(self._execute(sql, change.now, self._tenant, row.source, row.kind, row.target) for row in rows)

    def add_trajectory(self, change: Change, row: TrajectoryRow) -> int:
        number = self._new_node(change, "trajectory", row.id)
        sql = 'INSERT INTO trajectory (tenant, number, "user", query, outcome, reward) VALUES (%s, %s, %s, %s, %s, %s)'
        self._execute(sql, self._tenant, number, row.user, row.query, row.outcome, row.reward)
        return number

    def set_profile(self, change: Change, user: int, text: str, vector: Float32Array) -> None:
        self._execute(
            'INSERT INTO profile (tenant, "user", changed, text, vector) VALUES (%s, %s, %s, %s, %s::real[]::vector) '
            'ON CONFLICT (tenant, "user") DO UPDATE '
            "SET changed = excluded.changed, text = excluded.text, vector = excluded.vector",
            self._tenant,
            user,
            change.number,
            text,
            listed(vector),
        )
        self._unstage([user])

    # Reading

    def find(self, kind: NodeKind, name: str) -> int | None:
        sql = "SELECT number FROM node WHERE tenant = %s AND kind = %s AND name = %s"
        rows = self._rows(sql, self._tenant, kind, name)
        return rows[0][0] if rows else None

    def live(self, since: int = 0, rows: int = 20_000) -> Iterator[LiveRows]:
        sql = (
            "SELECT number, owner, shared, vector_send(vector), uses, rewards FROM live "
            "WHERE tenant = %s AND number > %s AND changed > %s ORDER BY number LIMIT %s"
        )
        last = 0
        while batch := self._rows(sql, self._tenant, last, since, rows):
            last = batch[-1][0]
            numbers, owners, shared, vectors, uses, rewards = zip(*batch, strict=True)
            yield LiveRows(
                np.array(numbers, np.int64),
                np.array(owners, np.int64),
                np.array(shared, np.bool_),
                np.array(uses, np.int64),
                np.array(rewards, np.float64),
                np.stack([unsent(vector) for vector in vectors]),
            )

    def ended(self, since: int) -> list[int]:
        sql = "SELECT number FROM ended WHERE tenant = %s AND changed > %s"
        gone = [number for (number,) in self._rows(sql, self._tenant, since)]
        if gone:
            self._names.clear()  # somebody may have been forgotten, and their name with them
        return gone

    def structure(self, after: int = 0) -> Iterator[tuple[int, int, int, float]]:
        sql = (
            'SELECT e.row, coalesce(t."user", e.source), e.target, e.weight FROM edge e '
            "LEFT JOIN trajectory t ON t.tenant = e.tenant AND t.number = e.source AND e.kind = 'EXECUTED' "
            "WHERE e.row > %s AND e.tenant = %s AND e.valid_to IS NULL AND e.kind IN ('OWNS', 'EXECUTED') "
            "AND e.weight >= %s ORDER BY e.row LIMIT 50000"
        )
        while batch := self._rows(sql, after, self._tenant, BINDING):
            after = batch[-1][0]
            yield from batch

    def relations(self, numbers: Sequence[int] | None = None) -> list[tuple[EdgeKind, int, int]]:
        sql = (
            "SELECT kind, source, target FROM edge "
            "WHERE tenant = %s AND kind IN ('COMPLEMENTS', 'CONFLICTS') AND valid_to IS NULL"
        )
        if numbers is None:
            return self._rows(sql, self._tenant)
        asked = [int(number) for number in numbers]
        both = f"{sql} AND source = ANY(%s::bigint[]) UNION {sql} AND target = ANY(%s::bigint[])"
        return self._rows(both, self._tenant, asked, self._tenant, asked)

    def profile(self, user: int) -> Float32Array | None:
        sql = 'SELECT vector_send(vector) FROM profile WHERE tenant = %s AND "user" = %s'
        rows = self._rows(sql, self._tenant, user)
        return unsent(rows[0][0]) if rows else None

    def profiles_changed(self, since: int) -> list[int]:
        sql = 'SELECT "user" FROM profile WHERE tenant = %s AND changed > %s'
        return [user for (user,) in self._rows(sql, self._tenant, since)]

    def skills(self, numbers: Sequence[int], reader: int | None = None) -> dict[int, Skill]:
        asked = [int(number) for number in numbers]
        values = {"tenant": self._tenant, "numbers": asked, "reader": reader}
        rows = self._named_rows(_SKILL, values)
        edges = self._rows(
            "SELECT source, kind, target FROM edge WHERE tenant = %s AND source = ANY(%s::bigint[]) "
            "AND valid_to IS NULL AND kind IN ('REQUIRES', 'APPLIES_TO') ORDER BY row",
            self._tenant,
            [row[0] for row in rows],
        )
        names = self._node_names({row[1] for row in rows} | {target for *_, target in edges})
        of: dict[tuple[int, str], tuple[str, ...]] = {}
        for source, kind, target in edges:
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
        sql = "SELECT number, text FROM version WHERE tenant = %s AND number = ANY(%s::bigint[]) AND valid_to IS NULL"
        return dict(self._rows(sql, self._tenant, [int(number) for number in numbers]))

    def skills_of(self, scenario: int) -> list[int]:
        sql = (
            "SELECT source FROM edge WHERE tenant = %s AND target = %s AND kind = 'APPLIES_TO' AND valid_to IS NULL "
            "UNION SELECT target FROM edge "
            "WHERE tenant = %s AND source = %s AND kind = 'TRIGGERS' AND valid_to IS NULL ORDER BY 1"
        )
        return [number for (number,) in self._rows(sql, self._tenant, scenario, self._tenant, scenario)]

    def versions(self, number: int) -> list[SkillVersion]:
        sql = (
            "SELECT text, visibility, valid_from, valid_to, recorded_at FROM version "
            "WHERE tenant = %s AND number = %s ORDER BY ordinal"
        )
        return [SkillVersion(*row) for row in self._rows(sql, self._tenant, number)]

    def edges(self, number: int) -> list[Edge]:
        return [
            Edge(kind, _named(source, source_kind, source_name), _named(target, target_kind, target_name), *rest)
            for kind, source, source_kind, source_name, target, target_kind, target_name, *rest in self._named_rows(
                _EDGES, {"tenant": self._tenant, "number": number}
            )
        ]

    def edge_rows(self, number: int) -> list[EdgeRow]:
        sql = (
            "SELECT kind, source, target, weight, valid_from FROM edge "
            "WHERE tenant = %s AND (source = %s OR target = %s) AND valid_to IS NULL ORDER BY row"
        )
        return [EdgeRow(*row) for row in self._rows(sql, self._tenant, number, number)]

    def co_uses(self, numbers: Sequence[int], reward: float) -> dict[tuple[int, int], int]:
        sql = (
            "SELECT a.target, b.target, count(*) FROM edge a JOIN edge b ON b.tenant = a.tenant "
            "AND b.source = a.source AND b.kind = 'EXECUTED' AND b.valid_to IS NULL AND b.target > a.target "
            "WHERE a.tenant = %s AND a.kind = 'EXECUTED' AND a.valid_to IS NULL AND a.weight >= %s "
            "AND a.target = ANY(%s::bigint[]) AND b.target = ANY(%s::bigint[]) "
            "GROUP BY a.target, b.target ORDER BY 1, 2"
        )
        asked = [int(number) for number in numbers]
        return {(one, other): count for one, other, count in self._rows(sql, self._tenant, reward, asked, asked)}

    def counts(self) -> Mapping[str, Mapping[str, int]]:
        nodes = self._rows("SELECT kind, count(*) FROM node WHERE tenant = %s GROUP BY kind ORDER BY 1", self._tenant)
        live, shared = self._rows(
            "SELECT count(*), coalesce(sum(shared), 0) FROM live WHERE tenant = %s", self._tenant
        )[0]
        edges = "SELECT kind, count(*) FROM edge WHERE tenant = %s AND valid_to IS NULL GROUP BY kind ORDER BY 1"
        past = self._value("SELECT count(*) FROM version WHERE tenant = %s AND valid_to IS NOT NULL", self._tenant)
        return {
            "nodes": {**dict(nodes), "skill": live},
            "edges": dict(self._rows(edges, self._tenant)),
            "skills": {"shared": int(shared), "past": past},
        }

    # Within

    def _execute(self, sql: str, *values: Any) -> int:
        """How many rows it touched."""
        with told():
            return self._connection.execute(sql.encode(), values).rowcount

    def _many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        with told(), self._connection.cursor() as cursor:
            cursor.executemany(sql.encode(), rows)

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        with told():
            return self._connection.execute(sql.encode(), values).fetchall()

    def _named_rows(self, sql: str, values: Mapping[str, Any]) -> list[Any]:
        with told():
            return self._connection.execute(sql.encode(), values).fetchall()

    def _value(self, sql: str, *values: Any) -> Any:
        return self._rows(sql, *values)[0][0]

    def _node_names(self, numbers: set[int]) -> dict[int, str]:
        """The names of users, tools and scenarios; they never change, and are kept for the next who asks."""
        missing = {number for number in numbers if number not in self._names}
        if missing:
            if len(self._names) > NAMES_KEPT:
                self._names.clear()
                missing = numbers
            sql = "SELECT number, name FROM node WHERE tenant = %s AND number = ANY(%s::bigint[])"
            self._names.update(self._rows(sql, self._tenant, sorted(missing)))
        return self._names

    def _new_node(self, change: Change, kind: NodeKind, name: str) -> int:
        number = self.new_numbers(change, 1)[0]
        sql = "INSERT INTO node (tenant, number, kind, name, recorded_at) VALUES (%s, %s, %s, %s, %s)"
        self._execute(sql, self._tenant, number, kind, name, change.now)
        return number

    def _begin_versions(self, change: Change, rows: Sequence[SkillRow]) -> None:
        self._many(
            "INSERT INTO version (tenant, number, ordinal, owner, text, visibility, valid_from, recorded_at) VALUES "
            "(%s, %s, (SELECT count(*) FROM version WHERE tenant = %s AND number = %s), %s, %s, %s, %s, %s)",
            [
                (
                    *(self._tenant, row.number, self._tenant, row.number),
                    *(row.owner, row.text, row.visibility, row.valid_from, change.now),
                )
                for row in rows
            ],
        )

    def _end_versions(self, numbers: Sequence[int], when: float) -> None:
        sql = "UPDATE version SET valid_to = %s WHERE tenant = %s AND number = ANY(%s::bigint[]) AND valid_to IS NULL"
        self._execute(sql, when, self._tenant, list(numbers))

    def _note_ended(self, change: Change, numbers: Sequence[int]) -> None:
        """Note for other processes that these are no more."""
        sql = "INSERT INTO ended (tenant, changed, number) SELECT %s, %s, unnest(%s::bigint[])"
        self._execute(sql, self._tenant, change.number, list(numbers))

    def _reweigh(self, change: Change, row: EdgeRow) -> int:
        """End the present edge where it weighs something else, and begin it anew."""
        same = "tenant = %s AND source = %s AND kind = %s AND target = %s AND valid_to IS NULL AND weight = %s"
        values = (self._tenant, row.source, row.kind, row.target, row.weight)
        if self._rows(f"SELECT 1 FROM edge WHERE {same}", *values):
            return 0
        self.end_edges(change, [row])
        return self.add_edges(change, [row])

    def _unstage(self, numbers: Sequence[int]) -> None:
        sql = "DELETE FROM staged WHERE tenant = %s AND number = ANY(%s::bigint[])"
        self._execute(sql, self._tenant, list(numbers))


def listed(vector: Float32Array) -> list[float]:
    """A vector as the numbers that PostgreSQL makes one of."""
    return [float(number) for number in np.asarray(vector, np.float32)]


def unsent(blob: bytes) -> Float32Array:
    """A vector as the server sends it: four bytes of head, then big-endian floats."""
    return np.frombuffer(blob, ">f4", offset=4).astype(np.float32)


def _named(number: int, kind: str | None, name: str | None) -> str:
    return f"skill:s{number}" if kind is None else f"{kind}:{name}"
