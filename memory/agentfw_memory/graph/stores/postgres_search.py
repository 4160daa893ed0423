"""Searches a tenant's skills in PostgreSQL: vectors by pgvector's HNSW, words by its text search, the rest by SQL.

`build` creates the indexes for one tenant, and only for its rows, so that a tenant's search never meets another's.
Without them the same statements read all rows of the tenant: right, but slow.

The words of a text are stemmed by us and stored as they are (`live.words`), so a server needs no dictionary and both
ways of searching know the same words. Vectors are compared in half precision, which halves the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from agentfw_memory.graph.arrays import Float32Array, Floats, Integers
from agentfw_memory.graph.records import EdgeKind
from agentfw_memory.graph.stores.interface import Change, Corpus, Labels, LiveRows, Query
from agentfw_memory.graph.stores.postgres_bulk import array_as_sent
from agentfw_memory.graph.text.words import terms

__all__ = ["PostgresSearch", "words_of"]

NEWEST = 100
"""Number of the newest skills of a scenario of which the most useful are taken. A scenario may have a hundred
thousand."""
SCANNED = 100
"""Entries of the index of vectors that a search looks at, at least. pgvector's `hnsw.ef_search`."""
HALVES = 4_000
"""Maximum number of dimensions of pgvector's index. Longer vectors are compared one by one."""
LONGEST_TERM = 500
"""Maximum number of characters of a stored word; PostgreSQL refuses words of 2 KB."""
INDEXES = {
    "words": "USING gin (words) WITH (fastupdate = off) WHERE tenant = {tenant} AND shared = 1",
    # With all that is asked of a hundred skills of each scenario: their rows are long, because of the vectors.
    "use": "(number) INCLUDE (uses, rewards) WHERE tenant = {tenant} AND shared = 1",
    "when": "(valid_from, number) WHERE tenant = {tenant} AND shared = 1",
    "own": "(owner, valid_from, number) WHERE tenant = {tenant} AND shared = 0",
    "vectors": "USING hnsw ((vector::halfvec({dimensions})) halfvec_ip_ops) WHERE tenant = {tenant} AND shared = 1",
}
"""The indexes of a tenant on its table of skills."""
EDGE_INDEX = "(target, kind, row) INCLUDE (source) WHERE tenant = {tenant} AND valid_to IS NULL"
"""It holds all that is asked for. Otherwise the planner, which thinks that a scenario has few edges, reads them all."""


class Statements(Protocol):
    """What a search needs of its store."""

    def run(self, sql: str, *values: Any) -> int: ...

    def run_alone(self, sql: str) -> None:
        """Execute a statement that can't be in a transaction."""

    def rows(self, sql: str, *values: Any) -> list[Any]: ...

    def ask(self, *queries: Query) -> list[list[Any]]:
        """Return the rows of several queries, which are sent at once."""

    def read_vectors(self, values: Sequence[bytes]) -> Float32Array: ...

    def live_rows(self, numbers: Sequence[int]) -> LiveRows | None: ...


def words_of(text: str) -> list[str]:
    """Return the different terms of a text, as they are stored."""
    return sorted({term[:LONGEST_TERM] for term in terms(text) if term})


class PostgresSearch:
    """Searches one tenant. Numbers of tenants and dimensions are part of statements, as the indexes are chosen by
    them."""

    def __init__(self, on: Statements, tenant: int) -> None:
        self._on, self._tenant = on, tenant
        self._shared = f"tenant = {tenant} AND shared = 1"
        self._private = f"tenant = {tenant} AND shared = 0"

    def count(self) -> int:
        return int(self._on.rows(f"SELECT count(*) FROM live WHERE tenant = {self._tenant}")[0][0])

    # Vectors

    def nearest(self, query: Float32Array, k: int) -> tuple[Integers, Floats]:
        scanned = f"SET LOCAL hnsw.ef_search = {min(max(SCANNED, 2 * k), 1000)}"
        return _measured(self._on.ask((scanned,), self._by_distance(self._shared, f"LIMIT {int(k)}", query))[1])

    def own(self, user: int, query: Float32Array) -> tuple[Integers, Floats]:
        return _measured(self._on.rows(*self._by_distance(f"{self._private} AND owner = ?", "", query, user)))

    def similar_in(self, scenarios: Sequence[int], query: Float32Array, k: int, reader: int | None) -> list[int]:
        seen = "shared = 0" if reader is None else f"(shared = 1 OR owner = {int(reader)})"
        about = f"AND number IN ({self._members()})" if scenarios else ""
        values = [array_as_sent(scenarios)] * 2 if scenarios else []
        nearest = self._by_distance(f"tenant = {self._tenant} AND {seen} {about}", f"LIMIT {int(k)}", query, *values)
        return [number for number, _ in self._on.rows(*nearest)]

    def person(self, user: int) -> tuple[Float32Array | None, bool]:
        sql = (
            f'SELECT vector_send((SELECT vector FROM profile WHERE tenant = {self._tenant} AND "user" = ?)) p, '
            f"vector_send((SELECT l2_normalize(avg(vector)) FROM live WHERE tenant = {self._tenant} AND owner = ?)) m"
        )
        [(profile, mean)] = self._on.rows(sql, user, user)
        vector = mean if profile is None else profile
        return None if vector is None else self._on.read_vectors([vector])[0], profile is not None

    # Words

    def shared_with(self, terms: Sequence[str], most: int) -> dict[str, list[int]]:
        each = f"SELECT number FROM live WHERE {self._shared} AND words @@ t.query LIMIT {int(most)}"
        sql = f"SELECT t.term, array(({each})) FROM unnest(?::text[], ?::tsquery[]) AS t (term, query)"
        return dict(self._on.rows(sql, list(terms), [_quoted([term]) for term in terms]))

    def shared_with_all(self, terms: Sequence[str], most: int, among: int | None = None) -> list[int]:
        there = f"live WHERE {self._shared}"
        if among is not None:
            there = f"(SELECT number, words FROM {there} ORDER BY number LIMIT {int(among)}) first WHERE true"
        sql = f"SELECT number FROM {there} AND words @@ ?::tsquery LIMIT {int(most)}"
        return [number for (number,) in self._on.rows(sql, _quoted(terms))]

    def own_with(self, user: int, terms: Sequence[str]) -> dict[str, list[int]]:
        sql = (
            "SELECT t.term, array_agg(l.number) FROM live l JOIN unnest(?::text[], ?::tsquery[]) AS t (term, query) "
            f"ON l.words @@ t.query WHERE l.tenant = {self._tenant} AND l.shared = 0 AND l.owner = ? GROUP BY t.term"
        )
        return dict(self._on.rows(sql, list(terms), [_quoted([term]) for term in terms], user))

    def own_corpus(self, user: int) -> Corpus:
        sql = f"SELECT count(*), coalesce(sum(length(words)), 0) FROM live WHERE {self._private} AND owner = ?"
        return Corpus(*map(int, self._on.rows(sql, user)[0]))

    # Connections

    def around(self, numbers: Sequence[int], reader: int | None, seconds: float) -> list[int]:
        # Each side has one bound besides the row itself. With both, PostgreSQL begins at the wrong end, and reads all
        # that became true at nearly the same time: a hundred thousand skills after an import.
        one = (
            "(SELECT l.number FROM live l WHERE l.tenant = {tenant} AND {whose} "
            "AND (l.valid_from, l.number) {side} (c.valid_from, c.number) AND l.valid_from {bound} {seconds} "
            "AND abs(l.valid_from - c.valid_from) <= {seconds} "
            "ORDER BY l.valid_from {order}, l.number {order} LIMIT 1)"
        )
        sides = ("<", ">= c.valid_from -", "DESC"), (">", "<= c.valid_from +", "ASC")
        whose = ["l.shared = 1"] + ([] if reader is None else ["l.shared = 0 AND l.owner = r.reader"])
        near = " UNION ALL ".join(
            one.format(tenant=self._tenant, whose=each, side=side, bound=bound, order=order, seconds=float(seconds))
            for each in whose
            for side, bound, order in sides
        )
        sql = (
            f"SELECT n.number FROM live c CROSS JOIN (SELECT ?::bigint AS reader) r CROSS JOIN LATERAL ({near}) n "
            f"WHERE c.tenant = {self._tenant} AND c.number = ANY(?::bigint[])"
        )
        return self._numbers(sql, reader, array_as_sent(numbers))

    def used_with(self, numbers: Sequence[int], latest: int) -> list[tuple[int, int]]:
        valid = f"tenant = {self._tenant} AND kind = 'EXECUTED' AND valid_to IS NULL"
        sql = (
            f"SELECT source, target FROM edge WHERE {valid} AND source IN "
            "(SELECT t.source FROM unnest(?::bigint[]) AS c (number) CROSS JOIN LATERAL "
            f"(SELECT source FROM edge WHERE {valid} AND target = c.number ORDER BY row DESC LIMIT {int(latest)}) t) "
            "ORDER BY row"
        )
        return self._on.rows(sql, array_as_sent(numbers))

    def mates(self, numbers: Sequence[int], reader: int | None, count: int) -> list[int]:
        valid = f"tenant = {self._tenant} AND valid_to IS NULL"
        applies = f"SELECT source FROM edge WHERE {valid} AND kind = 'APPLIES_TO' AND target = s.number"
        triggers = f"SELECT target FROM edge WHERE {valid} AND kind = 'TRIGGERS' AND source = s.number"
        newest = f"({applies} ORDER BY row DESC LIMIT {NEWEST}) UNION ALL "
        newest += f"({triggers} ORDER BY target DESC LIMIT {NEWEST})"
        best = (
            f"SELECT l.number FROM live l WHERE l.tenant = {self._tenant} AND l.shared = 1 "
            f"AND l.number = ANY(ARRAY({newest})) {_USEFUL} LIMIT {int(count)}"
        )
        sql = (
            "WITH s (number) AS MATERIALIZED ("
            f"SELECT target FROM edge WHERE {valid} AND kind = 'APPLIES_TO' AND source = ANY(?::bigint[]) "
            f"UNION SELECT source FROM edge WHERE {valid} AND kind = 'TRIGGERS' AND target = ANY(?::bigint[])) "
            f"SELECT m.number FROM s CROSS JOIN LATERAL ({best}) m"
        )
        values = [array_as_sent(numbers)] * 2
        if reader is None:
            return self._numbers(sql, *values)
        edge = f"SELECT 1 FROM edge e WHERE e.tenant = {self._tenant} AND e.valid_to IS NULL"
        these = "ANY(ARRAY(SELECT number FROM s))"
        # LIMIT keeps the planner from reading all edges of the scenarios before the few skills of the user.
        own = (
            "SELECT number FROM live l CROSS JOIN LATERAL ("
            f"({edge} AND e.kind = 'APPLIES_TO' AND e.source = l.number AND e.target = {these} LIMIT 1) "
            f"UNION ALL ({edge} AND e.kind = 'TRIGGERS' AND e.target = l.number AND e.source = {these} LIMIT 1)) e "
            f"WHERE {self._private} AND owner = ?"
        )
        return self._numbers(f"{sql} UNION {own}", *values, reader)

    def siblings(self, numbers: Sequence[int], reader: int | None, count: int) -> list[int]:
        seen = "(l.shared = 1 OR l.owner = ?)"
        best = f"SELECT l.number FROM live l WHERE l.tenant = {self._tenant} AND l.owner = o.owner AND {seen} {_USEFUL}"
        owners = f"SELECT DISTINCT owner FROM live WHERE tenant = {self._tenant} AND number = ANY(?::bigint[])"
        sql = f"SELECT m.number FROM ({owners}) o CROSS JOIN LATERAL ({best} LIMIT {int(count)}) m"
        return self._numbers(sql, array_as_sent(numbers), -1 if reader is None else reader)

    def latest_uses(self, count: int) -> list[tuple[int, int, int, float]]:
        sql = (
            'SELECT e.source, t."user", e.target, e.weight FROM (SELECT * FROM edge '
            f"WHERE tenant = {self._tenant} AND kind = 'EXECUTED' AND valid_to IS NULL ORDER BY row DESC LIMIT ?) e "
            "JOIN trajectory t ON t.tenant = e.tenant AND t.number = e.source ORDER BY e.row"
        )
        return self._on.rows(sql, count)

    # Rows and communities

    def rows(self, numbers: Sequence[int]) -> LiveRows | None:
        return self._on.live_rows(numbers)

    def sample(self, count: int) -> list[int]:
        # By a hash of the number, so that the next sample of a grown graph is nearly the same.
        sql = f"SELECT number FROM live WHERE {self._shared} ORDER BY (number * 2654435761) & 4294967295 LIMIT ?"
        return self._numbers(sql, count)

    def edges_of(self, skills: Sequence[int]) -> list[tuple[EdgeKind, int, int]]:
        edge = f"SELECT kind, source, target FROM edge WHERE tenant = {self._tenant} AND valid_to IS NULL"
        related = "'COMPLEMENTS', 'CONFLICTS'"
        sql = (
            f"{edge} AND source = ANY(?::bigint[]) AND kind IN ('APPLIES_TO', {related}) "
            f"UNION ALL {edge} AND target = ANY(?::bigint[]) AND kind IN ('OWNS', 'TRIGGERS', {related})"
        )
        return self._on.rows(sql, *[array_as_sent(skills)] * 2)

    def labels(self, skills: Sequence[int], user: int) -> Labels:
        owners = f"SELECT source FROM edge WHERE tenant = {self._tenant} AND kind = 'OWNS' AND valid_to IS NULL"
        sql = (
            f"SELECT node, labels FROM community WHERE tenant = {self._tenant} AND node = "
            f"ANY(?::bigint[] || ARRAY({owners} AND target = ANY(?::bigint[])))"
        )
        found = self._on.rows(sql, array_as_sent([user, *skills]), array_as_sent(skills))
        return {node: tuple(labels) for node, labels in found}

    def save_labels(self, change: Change, nodes: Integers, labels: Integers) -> None:
        self._on.run(f"DELETE FROM community WHERE tenant = {self._tenant}")
        levels = ", ".join(f"l{level}" for level in range(labels.shape[1]))
        lists = ", ".join("?::bigint[]" for _ in range(labels.shape[1]))
        sql = (
            f"INSERT INTO community (tenant, node, labels) SELECT {self._tenant}, n, ARRAY[{levels}] "
            f"FROM unnest(?::bigint[], {lists}) AS t (n, {levels})"
        )
        for start in range(0, len(nodes), 50_000):
            part = slice(start, start + 50_000)
            self._on.run(sql, nodes[part].tolist(), *(column.tolist() for column in labels[part].T))

    # Preparing

    def complete(self, after: int, rows: int, *, known: bool) -> int | None:
        lacking = "AND l.words IS NULL" if known else ""
        sql = (
            "SELECT v.number, v.text, v.valid_from, tsvector_to_array(l.words) FROM live l JOIN version v "
            "ON v.tenant = l.tenant AND v.number = l.number AND v.valid_to IS NULL "
            f"WHERE l.tenant = {self._tenant} AND l.number > ? {lacking} ORDER BY l.number LIMIT {int(rows)}"
        )
        found = self._on.rows(sql, after)
        update = (
            "UPDATE live SET words = array_to_tsvector(?::text[]), valid_from = ? "
            f"WHERE tenant = {self._tenant} AND number = ?"
        )
        for number, text, valid_from, stored in found:
            # Most rows have their words already. Writing them again would double the table.
            words = words_of(text)
            if stored is None or sorted(stored) != words:
                self._on.run(update, words, valid_from, number)
        return found[-1][0] if found else None

    def build(self, dimensions: int) -> None:
        for name, on in INDEXES.items():
            if name != "vectors" or dimensions <= HALVES:
                self._create("live", name, on.format(tenant=self._tenant, dimensions=dimensions))
        self._create("edge", "ends", EDGE_INDEX.format(tenant=self._tenant))
        # Without counts of the rows, the planner may read a whole table for each candidate. After a vacuum, what
        # an index holds needn't be looked up in the table.
        self._on.run_alone("VACUUM (ANALYZE) skillgraph.live, skillgraph.edge, skillgraph.version")

    def describe(self, common: int) -> tuple[Corpus, dict[str, int]]:
        sql = f"SELECT count(*), coalesce(sum(length(words)), 0) FROM live WHERE {self._shared}"
        corpus = Corpus(*map(int, self._on.rows(sql)[0]))
        often = (
            f"SELECT word, ndoc FROM ts_stat('SELECT words FROM skillgraph.live WHERE {self._shared}') WHERE ndoc > ?"
        )
        return corpus, dict(self._on.rows(often, common))

    # Helpers

    def _by_distance(self, where: str, limit: str, query: Float32Array, *values: Any) -> Query:
        size = len(query)
        kind = f"halfvec({size})" if size <= HALVES else f"vector({size})"
        sql = (
            f"SELECT number, -distance FROM (SELECT number, vector::{kind} <#> ?::real[]::{kind} AS distance "
            f"FROM live WHERE {where} ORDER BY distance {limit}) nearest"
        )
        return (sql, array_as_sent(query.tolist()), *values)

    def _members(self) -> str:
        """A statement of the skills of scenarios, which are given twice."""
        valid = f"tenant = {self._tenant} AND valid_to IS NULL"
        return (
            f"SELECT source FROM edge WHERE {valid} AND kind = 'APPLIES_TO' AND target = ANY(?::bigint[]) "
            f"UNION SELECT target FROM edge WHERE {valid} AND kind = 'TRIGGERS' AND source = ANY(?::bigint[])"
        )

    def _numbers(self, sql: str, *values: Any) -> list[int]:
        return [number for (number,) in self._on.rows(sql, *values)]

    def _create(self, table: str, name: str, on: str) -> None:
        index = f"{table}_{name}_{self._tenant}"
        sql = "SELECT i.indisvalid FROM pg_index i WHERE i.indexrelid = to_regclass(?)"
        for (valid,) in self._on.rows(sql, f"skillgraph.{index}"):
            if valid:
                return
            self._on.run_alone(f"DROP INDEX IF EXISTS skillgraph.{index}")  # of a process that was killed meanwhile
        self._on.run_alone(f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {index} ON skillgraph.{table} {on}")


_USEFUL = "ORDER BY l.rewards / greatest(l.uses, 1) DESC, l.number DESC"


def _measured(found: Sequence[tuple[int, float]]) -> tuple[Integers, Floats]:
    return np.array([number for number, _ in found], np.int64), np.array([one for _, one in found], np.float64)


def _quoted(words: Iterable[str]) -> str:
    """A query for texts that have all of these words."""
    escaped = (word[:LONGEST_TERM].replace("\\", "\\\\").replace("'", "''") for word in words)
    return " & ".join(f"'{word}'" for word in escaped)
