"""Reading and writing a tenant's rows in an SQL database: nodes, skills with their versions, and edges.

Every statement names the tenant. User text is only ever passed as a parameter, so quotes and wildcards in it have no
special meaning.

Statements use `?` for parameters and are valid in SQLite and in PostgreSQL. A subclass supplies the connection and
the few expressions that differ. CROSS JOIN fixes the order in which SQLite joins; PostgreSQL ignores the order.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np

from agentfw_memory.graph.arrays import Float32Array
from agentfw_memory.graph.records import Edge, EdgeKind, NodeKind, Skill, SkillVersion
from agentfw_memory.graph.stores.interface import (
    MINIMUM_WEIGHT,
    Change,
    Clock,
    EdgeRow,
    EmbedderRecord,
    LiveRows,
    Query,
    SkillRow,
    TrajectoryRow,
    told_apart,
)

__all__ = ["SqlRows", "digest"]

MAXIMUM_CACHED_NAMES = 100_000
FEW = 500
"""Up to so many skills of a scenario are looked up one by one."""


class SqlRows(ABC):
    """The rows of one tenant."""

    any_of: ClassVar[str]
    """Condition that a column is one of the numbers in the next parameter, which `_numbers` makes."""
    vector_value: ClassVar[str] = "?"
    """Placeholder of a vector parameter."""
    vector_column: ClassVar[str] = "vector"
    """Expression that reads the column `vector`."""
    since: ClassVar[str] = (
        "(SELECT v.valid_from FROM version v "
        "WHERE v.tenant = live.tenant AND v.number = live.number AND v.valid_to IS NULL)"
    )
    """Expression of the time from which a skill of `live` holds."""
    edges_by_row: ClassVar[str] = "edge e"
    """The table of edges as `e`, with a hint where the planner needs one to read them in the order of their rows."""
    by_bytes: ClassVar[str] = ""
    """Makes a comparison go by bytes, where the database compares in the order of a language."""
    searched: ClassVar[Mapping[str, str]] = {}
    """Further columns of `live`, by which the database searches, with their placeholders. `_searched` makes their
    values."""

    def __init__(self, tenant: str, number: int, clock: Clock) -> None:
        self.tenant, self._tenant, self._clock = tenant, number, clock
        self._names: dict[int, str] = {}

    # The tenant

    @property
    def identity(self) -> str:
        return str(self._value("SELECT identity FROM tenant WHERE tenant = ?", self._tenant))

    def embedder(self) -> EmbedderRecord | None:
        sql = "SELECT embedder, embedder_version, dimensions FROM tenant WHERE tenant = ?"
        name, version, dimensions = self._rows(sql, self._tenant)[0]
        return None if name is None else EmbedderRecord(name, version, dimensions)

    def set_embedder(self, change: Change, embedder: EmbedderRecord) -> None:
        sql = "UPDATE tenant SET embedder = ?, embedder_version = ?, dimensions = ? WHERE tenant = ?"
        self._run(sql, embedder.name, embedder.version, embedder.dimensions, self._tenant)

    def now(self) -> float:
        return self._clock()

    def counter(self) -> int:
        return int(self._value("SELECT counter FROM tenant WHERE tenant = ?", self._tenant))

    def forgotten(self) -> int:
        return int(self._value("SELECT forgotten FROM tenant WHERE tenant = ?", self._tenant))

    # Writing

    @contextmanager
    def writing(self) -> Iterator[Change]:
        with self._transaction():
            # In PostgreSQL, the lock on this row makes writers of a tenant wait for each other.
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
        columns = {**self._live_columns, "owner": "?", "tenant": "?", "number": "?"}
        self._run_many(
            f"INSERT INTO live ({', '.join(columns)}) VALUES ({', '.join(columns.values())})",
            [(*self._live_values(change, row), row.owner, self._tenant, row.number) for row in rows],
        )
        self._start_versions(change, rows)

    def twins(self, pairs: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
        sql = "SELECT number FROM live WHERE tenant = ? AND owner = ? AND digest = ?"
        found = {(owner, text): self._rows(sql, self._tenant, owner, digest(text)) for owner, text in pairs}
        return {pair: rows[0][0] for pair, rows in found.items() if rows}

    def replace_skill(self, change: Change, row: SkillRow) -> None:
        self._end_versions([row.number], row.valid_from)
        self._start_versions(change, [row])
        columns = ", ".join(f"{name} = {place}" for name, place in self._live_columns.items())
        sql = f"UPDATE live SET {columns} WHERE tenant = ? AND number = ?"
        self._run(sql, *self._live_values(change, row), self._tenant, row.number)
        self._delete("staged", "number", [row.number])

    def end_skills(self, change: Change, numbers: Sequence[int], when: float | None = None) -> None:
        self._end_versions(numbers, change.now if when is None else when)
        self._delete("live", "number", numbers)
        self._note_ended(change, numbers)
        for end in ("source", "target"):
            sql = f"UPDATE edge SET valid_to = ? WHERE tenant = ? AND {end} {self.any_of} AND valid_to IS NULL"
            self._run(sql, change.now, self._tenant, self._numbers(numbers))
        self._delete("staged", "number", numbers)

    def count_use(self, change: Change, number: int, uses: int, rewards: float) -> None:
        sql = "UPDATE live SET uses = uses + ?, rewards = rewards + ?, changed = ? WHERE tenant = ? AND number = ?"
        self._run(sql, uses, rewards, change.number, self._tenant, number)

    def recount(self, change: Change, numbers: Iterable[int]) -> None:
        counted = (
            "(SELECT {} FROM edge e WHERE e.tenant = live.tenant AND e.target = live.number "
            "AND e.kind = 'EXECUTED' AND e.valid_to IS NULL)"
        )
        self._run(
            f"UPDATE live SET uses = {counted.format('count(*)')}, "
            f"rewards = {counted.format('coalesce(sum(e.weight), 0)')}, changed = ? "
            f"WHERE tenant = ? AND number {self.any_of}",
            change.number,
            self._tenant,
            self._numbers(numbers),
        )

    def touch(self, change: Change, numbers: Iterable[int]) -> None:
        sql = f"UPDATE live SET changed = ? WHERE tenant = ? AND number {self.any_of}"
        self._run(sql, change.number, self._tenant, self._numbers(numbers))

    def add_edges(self, change: Change, rows: Sequence[EdgeRow]) -> int:
        # The unique index over valid edges rejects an edge that exists.
        sql = (
            "INSERT INTO edge (tenant, kind, source, target, weight, valid_from, recorded_at) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"
        )
        new = self._run_many(
            sql,
            [
                (
                    *(self._tenant, row.kind, row.source, row.target, row.weight),
                    *(change.now if row.valid_from is None else row.valid_from, change.now),
                )
                for row in rows
            ],
        )
        return new if new == len(rows) else new + sum(self._change_weight(change, row) for row in rows)

    def end_edges(self, change: Change, rows: Sequence[EdgeRow]) -> int:
        sql = (
            "UPDATE edge SET valid_to = ? "
            "WHERE tenant = ? AND source = ? AND kind = ? AND target = ? AND valid_to IS NULL"
        )
        return sum(self._run(sql, change.now, self._tenant, row.source, row.kind, row.target) for row in rows)

    def add_trajectory(self, change: Change, row: TrajectoryRow) -> int:
        number = self._new_node(change, "trajectory", row.id)
        sql = 'INSERT INTO trajectory (tenant, number, "user", query, outcome, reward) VALUES (?, ?, ?, ?, ?, ?)'
        self._run(sql, self._tenant, number, row.user, row.query, row.outcome, row.reward)
        return number

    def set_profile(self, change: Change, user: int, text: str, vector: Float32Array) -> None:
        sql = (
            f'INSERT INTO profile (tenant, "user", changed, text, vector) VALUES (?, ?, ?, ?, {self.vector_value}) '
            'ON CONFLICT (tenant, "user") DO UPDATE '
            "SET changed = excluded.changed, text = excluded.text, vector = excluded.vector"
        )
        self._run(sql, self._tenant, user, change.number, text, self._vector(vector))
        self._delete("staged", "number", [user])

    # Reading

    def find(self, kind: NodeKind, name: str) -> int | None:
        sql = "SELECT number FROM node WHERE tenant = ? AND kind = ? AND name = ?"
        rows = self._rows(sql, self._tenant, kind, name)
        return rows[0][0] if rows else None

    def live(self, since: int = 0, rows: int = 20_000) -> Iterator[LiveRows]:
        sql = self._live_select
        if not since:
            last = 0
            while batch := self._rows(f"{sql} > ? ORDER BY number LIMIT {rows}", self._tenant, last):
                last = batch[-1][0]
                yield self._live_rows(batch)
            return
        # The numbers come first: for ordered rows, SQLite would read all of them and not only those that changed.
        changed = self.changed(since)
        for start in range(0, len(changed), rows):
            asked = self._numbers(changed[start : start + rows])
            if batch := sorted(self._rows(f"{sql} {self.any_of}", self._tenant, asked)):
                yield self._live_rows(batch)

    def changed(self, since: int) -> list[int]:
        return sorted(self._column("SELECT number FROM live WHERE tenant = ? AND changed > ?", self._tenant, since))

    def ended(self, since: int) -> list[int]:
        gone = self._column("SELECT number FROM ended WHERE tenant = ? AND changed > ?", self._tenant, since)
        if gone:
            self._names.clear()  # may hold the name of a user who was forgotten
        return gone

    def structure(self, after: int = 0) -> Iterator[tuple[int, int, int, float]]:
        sql = (
            f'SELECT e.row, coalesce(t."user", e.source), e.target, e.weight FROM {self.edges_by_row} '
            "LEFT JOIN trajectory t ON t.tenant = e.tenant AND t.number = e.source AND e.kind = 'EXECUTED' "
            "WHERE e.row > ? AND e.tenant = ? AND e.valid_to IS NULL AND e.kind IN ('OWNS', 'EXECUTED') "
            "AND e.weight >= ? ORDER BY e.row LIMIT 50000"
        )
        while batch := self._rows(sql, after, self._tenant, MINIMUM_WEIGHT):
            after = batch[-1][0]
            yield from batch

    def relations(self, numbers: Sequence[int] | None = None) -> list[tuple[EdgeKind, int, int]]:
        sql = (
            "SELECT kind, source, target FROM edge "
            "WHERE tenant = ? AND kind IN ('COMPLEMENTS', 'CONFLICTS') AND valid_to IS NULL"
        )
        if numbers is None:
            return self._rows(sql, self._tenant)
        wanted = (self._tenant, self._numbers(numbers))
        both = f"{sql} AND source {self.any_of} UNION {sql} AND target {self.any_of}"
        return self._rows(both, *wanted, *wanted)

    def scenarios(self, numbers: Sequence[int] | None = None) -> list[tuple[int, int]]:
        applies = "SELECT source AS skill, target AS scenario FROM edge WHERE tenant = ? AND kind = 'APPLIES_TO'"
        triggers = "SELECT target AS skill, source AS scenario FROM edge WHERE tenant = ? AND kind = 'TRIGGERS'"
        now = "AND valid_to IS NULL"
        if numbers is None:
            return sorted(self._rows(f"{applies} {now} UNION {triggers} {now}", self._tenant, self._tenant))
        wanted = (self._tenant, self._numbers(numbers))
        of_these = f"{applies} AND source {self.any_of} {now} UNION {triggers} AND target {self.any_of} {now}"
        return sorted(self._rows(of_these, *wanted, *wanted))

    def latest_edge(self) -> int:
        sql = f"SELECT coalesce(max(e.row), 0) FROM {self.edges_by_row} WHERE e.tenant = ?"
        return int(self._value(sql, self._tenant))

    def uses(self, after: int = 0) -> Iterator[tuple[int, EdgeKind, int, int, int, float]]:
        sql = (
            f'SELECT e.row, e.kind, e.source, t."user", e.target, e.weight FROM {self.edges_by_row} '
            "CROSS JOIN trajectory t WHERE t.tenant = e.tenant AND t.number = e.source AND e.row > ? AND e.tenant = ? "
            "AND e.valid_to IS NULL AND e.kind IN ('EXECUTED', 'SHOWN') ORDER BY e.row LIMIT 50000"
        )
        while batch := self._rows(sql, after, self._tenant):
            after = batch[-1][0]
            yield from batch

    def ratings(self, user: int, numbers: Sequence[int]) -> list[tuple[int, str, float]]:
        # The plus keeps SQLite from reading all edges in this order instead of those of the few targets.
        sql = (
            "SELECT e.target, t.query, e.weight FROM edge e CROSS JOIN trajectory t WHERE t.tenant = e.tenant "
            f"AND t.number = e.source AND e.tenant = ? AND e.target {self.any_of} AND e.kind = 'SHOWN' "
            'AND e.valid_to IS NULL AND t."user" = ? ORDER BY +e.row'
        )
        return self._rows(sql, self._tenant, self._numbers(numbers), user)

    def profile(self, user: int) -> Float32Array | None:
        sql = f'SELECT {self.vector_column} FROM profile WHERE tenant = ? AND "user" = ?'
        found = self._column(sql, self._tenant, user)
        return self._read_vectors(found)[0] if found else None

    def profiles_changed(self, since: int) -> list[int]:
        return self._column('SELECT "user" FROM profile WHERE tenant = ? AND changed > ?', self._tenant, since)

    def owned(self, user: int) -> list[int]:
        return sorted(self._column("SELECT number FROM live WHERE tenant = ? AND owner = ?", self._tenant, user))

    def owned_in(self, user: int, scenario: int) -> list[int]:
        there = self.skills_of(scenario)
        if len(there) < FEW:
            sql = f"SELECT number FROM live WHERE tenant = ? AND owner = ? AND number {self.any_of}"
            return sorted(self._column(sql, self._tenant, user, self._numbers(there)))
        return sorted(set(there).intersection(self.owned(user)))

    def holders(self, prefix: str = "") -> list[str]:
        sql = (
            "SELECT name FROM node WHERE tenant = ? AND kind = 'user' AND EXISTS "
            "(SELECT 1 FROM live l WHERE l.tenant = node.tenant AND l.owner = node.number)"
        )
        if not prefix:
            return sorted(self._column(sql, self._tenant))
        begins = f"AND name{self.by_bytes} BETWEEN ? AND ?"
        return sorted(self._column(f"{sql} {begins}", self._tenant, prefix, f"{prefix}\U0010ffff"))

    def skills(self, numbers: Sequence[int], reader: int | None = None) -> dict[int, Skill]:
        asked = self._numbers(numbers)
        visible, values = ("", ()) if reader is None else ("AND (l.shared = 1 OR l.owner = ?)", (reader,))
        valid = (
            "SELECT l.number, l.owner, v.text, v.visibility, l.uses, l.rewards, v.valid_from, v.recorded_at, "
            "v.ordinal, v.metadata, v.expires_at FROM live l CROSS JOIN version v "
            "WHERE v.tenant = l.tenant AND v.number = l.number AND v.valid_to IS NULL "
            f"AND l.tenant = ? AND l.number {self.any_of} {visible}"
        )
        links = (
            f"SELECT row, source, kind, target FROM edge WHERE tenant = ? AND source {self.any_of} "
            "AND kind IN ('REQUIRES', 'APPLIES_TO', 'STATES', 'SAID_IN') AND valid_to IS NULL"
        )
        rows, edges = self._ask((valid, self._tenant, asked, *values), (links, self._tenant, asked))
        names = self.names({owner for _, owner, *_ in rows} | {target for *_, target in edges})
        linked: dict[tuple[int, str], tuple[str, ...]] = {}
        for _, source, kind, target in sorted(edges):
            linked[source, kind] = (*linked.get((source, kind), ()), names[target])
        found = {
            number: Skill(
                f"s{number}",
                names[owner],
                text,
                linked.get((number, "REQUIRES"), ()),
                linked.get((number, "APPLIES_TO"), ()),
                visibility,
                uses,
                rewards / uses if uses else 0.0,
                since,
                recorded,
                metadata=_object(metadata),
                expires_at=ends,
                fact="".join(linked.get((number, "STATES"), ())),
                conversation="".join(linked.get((number, "SAID_IN"), ())[-1:]),
                corrections=ordinal,
            )
            for (number, owner, text, visibility, uses, rewards, since, recorded, ordinal, metadata, ends) in rows
        }
        return {number: found[number] for number in numbers if number in found}

    def names(self, numbers: Collection[int]) -> dict[int, str]:
        # They never change, so they are cached.
        missing: Collection[int] = [number for number in numbers if number not in self._names]
        if missing:
            if len(self._names) > MAXIMUM_CACHED_NAMES:
                self._names.clear()
                missing = numbers
            sql = f"SELECT number, name FROM node WHERE tenant = ? AND number {self.any_of}"
            self._names.update(self._rows(sql, self._tenant, self._numbers(missing)))
        return {number: self._names[number] for number in numbers if number in self._names}

    def texts(self, numbers: Sequence[int]) -> dict[int, str]:
        sql = f"SELECT number, text FROM version WHERE tenant = ? AND number {self.any_of} AND valid_to IS NULL"
        return dict(self._rows(sql, self._tenant, self._numbers(numbers)))

    def skills_of(self, scenario: int) -> list[int]:
        sql = (
            "SELECT source FROM edge WHERE tenant = ? AND target = ? AND kind = 'APPLIES_TO' AND valid_to IS NULL "
            "UNION SELECT target FROM edge WHERE tenant = ? AND source = ? AND kind = 'TRIGGERS' AND valid_to IS NULL"
        )
        # Sorted here, because with ORDER BY SQLite reads all edges of the tenant.
        return sorted(self._column(sql, self._tenant, scenario, self._tenant, scenario))

    def versions(self, number: int) -> list[SkillVersion]:
        sql = (
            "SELECT text, visibility, valid_from, valid_to, recorded_at, metadata, ordinal FROM version "
            "WHERE tenant = ? AND number = ? ORDER BY ordinal"
        )
        return [_version(row) for row in self._rows(sql, self._tenant, number)]

    def facts_of(self, subjects: Sequence[str]) -> list[tuple[str, int]]:
        # One query a subject: for several ranges at once, SQLite would read all facts of the tenant.
        one = (
            "SELECT n.name, e.source FROM node n CROSS JOIN edge e WHERE e.tenant = n.tenant AND e.target = n.number "
            "AND e.kind = 'STATES' AND e.valid_to IS NULL AND n.tenant = ? AND n.kind = 'fact' "
            f"AND n.name{self.by_bytes} >= ? AND n.name{self.by_bytes} < ?"
        )
        ends = ((self._tenant, f"{subject}: ", f"{subject}:!") for subject in subjects)
        return sorted(self._rows(" UNION ".join(one for _ in subjects), *(value for end in ends for value in end)))

    def held_at(self, when: float, reader: int) -> dict[int, tuple[str, SkillVersion]]:
        rows = self._rows(
            "SELECT v.number, n.name, v.text, v.visibility, v.valid_from, v.valid_to, v.recorded_at, "
            "v.metadata, v.ordinal FROM version v CROSS JOIN node n WHERE n.tenant = v.tenant AND n.number = v.owner "
            "AND v.tenant = ? AND (v.visibility = 'shared' OR v.owner = ?) AND v.valid_from <= ? "
            "AND (v.valid_to IS NULL OR v.valid_to > ?) ORDER BY v.number, v.ordinal",
            *(self._tenant, reader, when, when),
        )
        return {number: (owner, _version(version)) for number, owner, *version in rows}

    def edges(self, number: int) -> list[Edge]:
        sql = (
            "SELECT e.kind, e.source, s.kind, s.name, e.target, t.kind, t.name, "
            "e.weight, e.valid_from, e.valid_to, e.recorded_at FROM edge e "
            "LEFT JOIN node s ON s.tenant = e.tenant AND s.number = e.source "
            "LEFT JOIN node t ON t.tenant = e.tenant AND t.number = e.target WHERE e.tenant = ? AND e.row IN "
            "(SELECT row FROM edge WHERE tenant = ? AND source = ? "
            "UNION SELECT row FROM edge WHERE tenant = ? AND target = ?) ORDER BY e.row"
        )
        rows = self._rows(sql, self._tenant, self._tenant, number, self._tenant, number)
        return [
            Edge(kind, _named(source, source_kind, source_name), _named(target, target_kind, target_name), *rest)
            for kind, source, source_kind, source_name, target, target_kind, target_name, *rest in rows
        ]

    def edge_rows(self, number: int) -> list[EdgeRow]:
        sql = "SELECT row, kind, source, target, weight, valid_from FROM edge WHERE tenant = ? AND valid_to IS NULL"
        both = f"{sql} AND source = ? UNION {sql} AND target = ?"
        rows = self._rows(both, self._tenant, number, self._tenant, number)
        return [EdgeRow(*row) for _, *row in sorted(rows)]

    def owners(self, numbers: Sequence[int]) -> list[tuple[int, int]]:
        sql = f"SELECT target, source FROM edge WHERE tenant = ? AND target {self.any_of} "
        sql += "AND kind = 'OWNS' AND valid_to IS NULL ORDER BY target, source"
        return self._rows(sql, self._tenant, self._numbers(numbers))

    def co_uses(self, numbers: Sequence[int], reward: float) -> dict[tuple[int, int], int]:
        valid_use = "{0}.tenant = ? AND {0}.target {1} AND {0}.kind = 'EXECUTED' AND {0}.valid_to IS NULL"
        asked = (self._tenant, self._numbers(numbers))
        rows = self._rows(
            "SELECT a.target, b.target, count(*) FROM edge a CROSS JOIN edge b "
            f"WHERE {valid_use.format('a', self.any_of)} AND {valid_use.format('b', self.any_of)} "
            "AND b.source = a.source AND a.weight >= ? AND b.target > a.target GROUP BY a.target, b.target",
            *asked,
            *asked,
            reward,
        )
        return {(one, other): count for one, other, count in sorted(rows)}

    # Helpers

    def _ask(self, *queries: Query) -> list[list[Any]]:
        """Execute queries that don't need each other's answers, and return the rows of each."""
        return [self._rows(sql, *values) for sql, *values in queries]

    def _value(self, sql: str, *values: Any) -> Any:
        return self._rows(sql, *values)[0][0]

    def _column(self, sql: str, *values: Any) -> list[Any]:
        return [value for (value,) in self._rows(sql, *values)]

    def _delete(self, table: str, column: str, numbers: Iterable[int]) -> int:
        """Delete rows and return how many there were."""
        sql = f"DELETE FROM {table} WHERE tenant = ? AND {column} {self.any_of}"
        return self._run(sql, self._tenant, self._numbers(numbers))

    def _new_node(self, change: Change, kind: NodeKind, name: str) -> int:
        number = self.new_numbers(change, 1)[0]
        sql = "INSERT INTO node (tenant, number, kind, name, recorded_at) VALUES (?, ?, ?, ?, ?)"
        self._run(sql, self._tenant, number, kind, name, change.now)
        return number

    @property
    def _live_select(self) -> str:
        return (
            f"SELECT number, owner, shared, {self.vector_column}, uses, rewards, {self.since} "
            "FROM live WHERE tenant = ? AND number"
        )

    def _live_rows(self, batch: Sequence[tuple[Any, ...]]) -> LiveRows:
        numbers, owners, shared, vectors, uses, rewards, valid_from = zip(*batch, strict=True)
        return LiveRows(
            np.array(numbers, np.int64),
            np.array(owners, np.int64),
            np.array(shared, np.bool_),
            np.array(uses, np.int64),
            np.array(rewards, np.float64),
            np.array(valid_from, np.float64),
            self._read_vectors(vectors),
        )

    def _live_values(self, change: Change, row: SkillRow) -> tuple[Any, ...]:
        """Values of `_live_columns`."""
        shared, vector = int(row.visibility == "shared"), self._vector(row.vector)
        return (
            change.number,
            shared,
            digest(told_apart(row.text, row.metadata)),
            vector,
            *self._searched(row.text, row.valid_from),
        )

    @property
    def _live_columns(self) -> dict[str, str]:
        """The columns of `live` that a version of a skill sets, with their placeholders."""
        return {"changed": "?", "shared": "?", "digest": "?", "vector": self.vector_value, **self.searched}

    def _searched(self, text: str, valid_from: float) -> tuple[Any, ...]:
        """Values of the columns `searched`."""
        return ()

    def _start_versions(self, change: Change, rows: Sequence[SkillRow]) -> None:
        self._run_many(
            "INSERT INTO version (tenant, number, owner, text, visibility, valid_from, recorded_at, metadata, "
            "expires_at, ordinal) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, "
            "(SELECT coalesce(max(ordinal) + 1, 0) FROM version WHERE tenant = ? AND number = ?))",
            [
                (
                    *(self._tenant, row.number, row.owner, row.text, row.visibility, row.valid_from, change.now),
                    *(row.metadata, row.expires_at, self._tenant, row.number),
                )
                for row in rows
            ],
        )

    def _end_versions(self, numbers: Sequence[int], when: float) -> None:
        sql = (
            "UPDATE version SET valid_to = CASE WHEN expires_at < ? THEN expires_at ELSE ? END "
            f"WHERE tenant = ? AND number {self.any_of} AND valid_to IS NULL"
        )
        self._run(sql, when, when, self._tenant, self._numbers(numbers))

    def _note_ended(self, change: Change, numbers: Sequence[int]) -> None:
        """Tell other processes that these skills or users are gone."""
        sql = "INSERT INTO ended (tenant, changed, number) VALUES (?, ?, ?)"
        self._run_many(sql, [(self._tenant, change.number, number) for number in numbers])

    def _change_weight(self, change: Change, row: EdgeRow) -> int:
        """End an edge that has another weight and start a new one. Return how many are new."""
        sql = "SELECT weight FROM edge WHERE tenant = ? AND source = ? AND kind = ? AND target = ? AND valid_to IS NULL"
        if self._value(sql, self._tenant, row.source, row.kind, row.target) == row.weight:
            return 0
        self.end_edges(change, [row])
        return self.add_edges(change, [row])

    # The dialect

    @abstractmethod
    def _run(self, sql: str, *values: Any) -> int:
        """Execute a statement and return the number of rows it changed."""

    @abstractmethod
    def _run_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """Execute a statement once for each row of values, and return the number of rows it changed."""

    @abstractmethod
    def _rows(self, sql: str, *values: Any) -> list[Any]:
        """Execute a query and return all rows."""

    @abstractmethod
    def _stream(self, sql: str, *values: Any) -> Iterator[Any]:
        """Execute a query and yield its rows without holding all of them in memory."""

    @abstractmethod
    def _transaction(self) -> AbstractContextManager[None]:
        """Open a write transaction."""

    @abstractmethod
    def _snapshot(self) -> AbstractContextManager[None]:
        """Open a read transaction, in which all queries see the same state."""

    @abstractmethod
    def _numbers(self, numbers: Iterable[int]) -> Any:
        """Convert numbers to the parameter that `any_of` takes."""

    @abstractmethod
    def _vector(self, vector: Float32Array) -> Any:
        """Convert a vector to a parameter."""

    @abstractmethod
    def _read_vectors(self, values: Sequence[Any]) -> Float32Array:
        """Convert values of `vector_column` to the rows of a matrix."""


def digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def _version(row: Sequence[Any]) -> SkillVersion:
    text, visibility, valid_from, valid_to, recorded_at, metadata, ordinal = row
    return SkillVersion(text, visibility, valid_from, valid_to, recorded_at, _object(metadata), ordinal)


def _object(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text) if text else {}
    return found


def _named(number: int, kind: str | None, name: str | None) -> str:
    return f"skill:s{number}" if kind is None else f"{kind}:{name}"
