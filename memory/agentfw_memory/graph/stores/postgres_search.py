"""Searches a tenant's skills in PostgreSQL: vectors by pgvector's HNSW, words by its text search, the rest by SQL.

`build` creates the indexes for one tenant, and only for its rows, so that a tenant's search never meets another's.
Without them the same statements read all rows of the tenant: right, but slow.

The words of a text are stemmed by us and stored as they are (`live.words`), so a server needs no dictionary and both
ways of searching know the same words. Vectors are compared in half precision, which halves the index.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..records import Float32Array, Use
from ..words import terms
from .store import Corpus, Nearest, Proposals, Summary

if TYPE_CHECKING:
    from ..index.word_index import DatabaseQuestion

Query = tuple[Any, ...]  # a statement that reads, and its values
Ask = Callable[..., list[list[Any]]]  # returns the rows of several queries, which are sent at once

WITH_SELDOM_WORD, WITH_COMMON_WORDS = 1_000, 100
"""Maximum number of shared skills that are found with a seldom word (as many as make a word common), and with several
common ones."""
SCANNED = 100  # entries of the index of vectors that a search looks at, at least. pgvector's `hnsw.ef_search`
HALVES = 4_000  # maximum number of dimensions of pgvector's index. Longer vectors are compared one by one
LONGEST_TERM = 500  # maximum number of characters of a stored word; PostgreSQL refuses words of 2 KB
UNSTORABLE = r"(\\\\)|\\u(0000|[dD][89a-fA-F][0-9a-fA-F][0-9a-fA-F])"
"""NULs and halves of characters in JSON, which a `jsonb` refuses, and escaped backslashes, to keep these."""
METADATA = (
    r"(CASE WHEN strpos(metadata, '\u') = 0 THEN nullif(metadata, '') "
    rf"ELSE regexp_replace(metadata, '{UNSTORABLE}', '\1', 'g') END)::jsonb"
)
INDEXES = {
    ("live", "words"): "USING gin (words) WITH (fastupdate = off) WHERE tenant = {tenant} AND shared = 1",
    # With all that is asked of a hundred skills of each scenario: their rows are long, because of the vectors.
    ("live", "use"): "(number) INCLUDE (uses, rewards) WHERE tenant = {tenant} AND shared = 1",
    ("live", "when"): "(valid_from, number) WHERE tenant = {tenant} AND shared = 1",
    ("live", "own"): "(owner, valid_from, number) WHERE tenant = {tenant} AND shared = 0",
    ("live", "vectors"): (
        "USING hnsw ((vector::halfvec({dimensions})) halfvec_ip_ops) WHERE tenant = {tenant} AND shared = 1"
    ),
    # It holds all that is asked for. Otherwise the planner, which thinks that a scenario has few edges, reads them all.
    ("edge", "ends"): "(target, kind, row) INCLUDE (source) WHERE tenant = {tenant} AND valid_to IS NULL",
    ("version", "metadata"): f"USING gin (({METADATA}) jsonb_path_ops) WHERE tenant = {{tenant}} AND valid_to IS NULL",
}
"""The indexes of a tenant by their tables and names."""
FITTING = 20_000  # number of skills that fit a filter up to which they are compared one by one
ITERATIVE = (0, 8)  # the version of pgvector from which an index goes on until enough of what it finds fits


def words_of(text: str) -> list[str]:
    return sorted({term[:LONGEST_TERM] for term in terms(text) if term})


def array_as_sent(numbers: Iterable[float]) -> str:
    """Numbers as an array. psycopg takes longer for a list than the server takes to find the rows."""
    return f"{{{','.join(map(repr, numbers))}}}"


class PostgresSearch:
    """Searches one tenant. Numbers of tenants and dimensions are part of statements, by which indexes are chosen."""

    def __init__(
        self, ask: Ask, run_alone: Callable[[str], None], vectors: Callable[[list[bytes]], Float32Array], tenant: int
    ) -> None:
        """`run_alone` executes a statement that can't be in a transaction."""
        self._ask, self._run_alone, self._vectors, self._tenant = ask, run_alone, vectors, tenant
        self._shared, self._private = (f"tenant = {tenant} AND shared = {shared}" for shared in (1, 0))

    def propose(
        self, question: DatabaseQuestion, vector: Float32Array | None, most: int, where: Mapping[str, Any]
    ) -> Proposals:
        """Search for up to so many shared skills by a vector, and for skills by the words of a question."""
        (fits, *given), few = self._fitting(where) if where else (("",), False)
        reader = question.reader
        asked: dict[str, Query] = {}
        if few:
            seen = f"tenant = {self._tenant} AND (shared = 1 OR owner = {int(reader or 0)})"
            asked["fitting"] = f"SELECT count(*) FROM live WHERE {seen} {fits}", *given
        if reader is not None:
            asked["person"] = self._person(reader)
        if vector is not None:
            scanned = f"SET LOCAL hnsw.ef_search = {min(max(SCANNED, 2 * most), 1000)}"
            asked["scanned"] = (scanned,)
            if fits and not few:
                asked["iterative"] = ("SET LOCAL hnsw.iterative_scan = strict_order",)
            limit = f"LIMIT {int(most)}"
            asked["shared"] = self._by_distance(f"{self._shared} {fits}", limit, vector, *given, exact=few)
            if reader is not None:
                own = f"{self._private} AND owner = ? {fits}"
                asked["own"] = self._by_distance(own, "", vector, reader, *given)
        queries = "unnest(?::text[], ?::tsquery[]) AS t (term, query)"
        if question.seldom:
            each = f"SELECT number FROM live WHERE {self._shared} {{}} AND words @@ t.query LIMIT {WITH_SELDOM_WORD}"
            every = f"(SELECT count(*) FROM ({each.format('')}) n)"  # a word is as rare as it is without the filter
            terms = question.seldom, [_quoted([term]) for term in question.seldom]
            asked["holders"] = f"SELECT t.term, array(({each.format(fits)})), {every} FROM {queries}", *given, *terms
        if question.together:
            there = f"live WHERE {self._shared} {fits}"
            if question.among is not None and not where:
                first = f"SELECT number, words FROM {there} ORDER BY number LIMIT {int(question.among)}"
                there = f"({first}) first WHERE true"
            sql = f"SELECT number FROM {there} AND words @@ ?::tsquery LIMIT {WITH_COMMON_WORDS}"
            asked["together"] = sql, *given, _quoted(question.together)
        if reader is not None and question.asked:
            theirs = f"l.tenant = {self._tenant} AND l.shared = 0 AND l.owner = ?"
            having = f"live l JOIN {queries} ON l.words @@ t.query WHERE {theirs}"
            terms = list(question.asked), [_quoted([term]) for term in question.asked]
            fitting = f"coalesce(array_agg(number) FILTER (WHERE true {fits}), '{{}}')"
            sql = f"SELECT t.term, {fitting}, count(*) FROM {having} GROUP BY t.term"
            asked["own holders"] = sql, *given, *terms, reader
            asked["own corpus"] = f"{_COUNTED} WHERE {self._private} AND owner = ?", reader
        answers = self._ask(*asked.values()) if asked else []
        found = dict(zip(asked, answers, strict=True))
        person, described = self._read_person(found["person"]) if "person" in found else (None, False)
        return Proposals(
            person,
            described,
            _measured(found.get("shared", ())),
            _measured(found.get("own", ())),
            {term: (numbers, count) for term, numbers, count in found.get("holders", ())},
            [number for (number,) in found.get("together", ())],
            {term: (numbers, count) for term, numbers, count in found.get("own holders", ())},
            Corpus(*map(int, found["own corpus"][0])) if "own corpus" in found else Corpus(),
            found["fitting"][0][0] if few else None,
        )

    def connected(
        self, numbers: Sequence[int], reader: int | None, *, seconds: float, siblings: int
    ) -> tuple[list[int], list[int]]:
        """Return the visible skills just before and after each of these, at most so many seconds away, and so many of
        the most useful skills of each one's owner."""
        asked = [self._around(numbers, reader, seconds)]
        if siblings:
            seen = f"l.tenant = {self._tenant} AND l.owner = o.owner AND (l.shared = 1 OR l.owner = ?)"
            useful = "ORDER BY l.rewards / greatest(l.uses, 1) DESC, l.number DESC"
            best = f"SELECT l.number FROM live l WHERE {seen} {useful} LIMIT {int(siblings)}"
            owners = f"SELECT DISTINCT owner FROM live WHERE tenant = {self._tenant} AND number = ANY(?::bigint[])"
            sql = f"SELECT m.number FROM ({owners}) o CROSS JOIN LATERAL ({best}) m"
            asked.append((sql, array_as_sent(numbers), -1 if reader is None else reader))
        near, *rest = self._ask(*asked)
        return [one for (one,) in near], [one for rows in rest for (one,) in rows]

    def similar_in(
        self,
        scenarios: Sequence[int],
        query: Float32Array | None,
        k: int,
        reader: int | None,
        *,
        tools: Sequence[int] = (),
        where: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Return the skills of these scenarios and tools with the most similar vectors, or the first ones: visible
        ones, or anyone's private ones, that fit a filter. Without scenarios and tools, all skills are looked at."""
        seen = "shared = 0" if reader is None else f"(shared = 1 OR owner = {int(reader)})"
        valid = f"tenant = {self._tenant} AND valid_to IS NULL"
        ends = {
            "SELECT source FROM edge WHERE {} AND kind = 'APPLIES_TO' AND target": scenarios,
            "SELECT target FROM edge WHERE {} AND kind = 'TRIGGERS' AND source": scenarios,
            "SELECT source FROM edge WHERE {} AND kind = 'REQUIRES' AND target": tools,
        }
        named = {f"{sql.format(valid)} = ANY(?::bigint[])": array_as_sent(some) for sql, some in ends.items() if some}
        about = f"AND number IN ({' UNION '.join(named)})" if named else ""
        (fits, *given), _ = self._fitting(where) if where else (("",), False)
        condition, limit = f"tenant = {self._tenant} AND {seen} {about} {fits}", f"LIMIT {int(k)}"
        values = [*named.values(), *given]
        asked: Query = f"SELECT number FROM live WHERE {condition} ORDER BY number {limit}", *values
        if query is not None:
            asked = self._by_distance(condition, limit, query, *values)
        return [number for number, *_ in self._rows(*asked)]

    def person(self, user: int) -> tuple[Float32Array | None, bool]:
        """Return the vector of a user's profile, or the mean of their skills, or None, and whether it is a profile."""
        return self._read_person(self._rows(*self._person(user)))

    def summary(self, *, common: int, sample: int, uses: int) -> Summary:
        """Describe the whole graph. A word is common if more than so many shared skills have it."""
        every = f"SELECT words FROM skillgraph.live WHERE {self._shared}"
        often = f"SELECT word, ndoc FROM ts_stat('{every}') WHERE ndoc > ?"
        # By a hash of the number, so that the next sample of a grown graph is nearly the same.
        drawn = f"SELECT number FROM live WHERE {self._shared} ORDER BY (number * 2654435761) & 4294967295 LIMIT ?"
        latest = (
            'SELECT e.source, t."user", e.target, e.weight, e.user_term, e.community_term FROM (SELECT * FROM edge '
            f"WHERE tenant = {self._tenant} AND kind = 'EXECUTED' AND valid_to IS NULL ORDER BY row DESC LIMIT ?) e "
            "JOIN trajectory t ON t.tenant = e.tenant AND t.number = e.source ORDER BY e.row"
        )
        return Summary(
            Corpus(*map(int, self._rows(f"{_COUNTED} WHERE {self._shared}")[0])),
            dict(self._rows(often, common)),
            [number for (number,) in self._rows(drawn, sample)],
            [Use(*use) for use in self._rows(latest, uses)] if uses else [],
        )

    def build(self, dimensions: int) -> None:
        """Create the indexes that aren't there. Takes minutes for a million skills, during which others go on."""
        for (table, name), on in INDEXES.items():
            index = f"{table}_{name}_{self._tenant}"
            there = "SELECT i.indisvalid FROM pg_index i WHERE i.indexrelid = to_regclass(?)"
            valid = [valid for (valid,) in self._rows(there, f"skillgraph.{index}")]
            if valid == [True] or (name == "vectors" and dimensions > HALVES):
                continue
            if valid:  # a process was killed meanwhile
                self._run_alone(f"DROP INDEX IF EXISTS skillgraph.{index}")
            made = on.format(tenant=self._tenant, dimensions=dimensions)
            self._run_alone(f"CREATE INDEX CONCURRENTLY IF NOT EXISTS {index} ON skillgraph.{table} {made}")
        # Without counts of the rows, the planner may read a whole table for each candidate. After a vacuum, what
        # an index holds needn't be looked up in the table.
        self._run_alone("VACUUM (ANALYZE) skillgraph.live, skillgraph.edge, skillgraph.version")

    # Statements

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        return self._ask((sql, *values))[0]

    def _fitting(self, where: Mapping[str, Any]) -> tuple[Query, bool]:
        """Return the condition that a skill fits a filter, with its values, and whether so few fit that all of them are
        compared."""
        condition, *values = _filter(where)
        sql = f"SELECT number FROM version WHERE tenant = {self._tenant} AND valid_to IS NULL AND {condition}"
        some = (f"{sql} LIMIT {FITTING + 1}", *values)
        found, ((version,),) = self._ask(some, ("SELECT extversion FROM pg_extension WHERE extname = 'vector'",))
        if len(found) <= FITTING:
            return ("AND number = ANY(?::bigint[])", array_as_sent(number for (number,) in found)), True
        return (f"AND number IN ({sql})", *values), tuple(map(int, version.split(".")[:2])) < ITERATIVE

    def _around(self, numbers: Sequence[int], reader: int | None, seconds: float) -> Query:
        """Ask for the visible skills just before and after each of these in time, at most so far away."""
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
        return sql, reader, array_as_sent(numbers)

    def _person(self, user: int) -> Query:
        sql = (
            f'SELECT vector_send((SELECT vector FROM profile WHERE tenant = {self._tenant} AND "user" = ?)) p, '
            f"vector_send((SELECT l2_normalize(avg(vector)) FROM live WHERE tenant = {self._tenant} AND owner = ?)) m"
        )
        return sql, user, user

    def _read_person(self, rows: Sequence[tuple[bytes | None, bytes | None]]) -> tuple[Float32Array | None, bool]:
        [(profile, mean)] = rows
        vector = mean if profile is None else profile
        return None if vector is None else self._vectors([vector])[0], profile is not None

    def _by_distance(self, where: str, limit: str, query: Float32Array, *values: Any, exact: bool = False) -> Query:
        """Ask for skills by their similarity, the most similar first: `exact` without an index of the vectors."""
        size = len(query)
        kind = f"halfvec({size})" if size <= HALVES else f"vector({size})"
        distance = f"vector::{kind} <#> ?::real[]::{kind} AS distance"
        one = f"SELECT number, {distance} FROM live WHERE {where} ORDER BY distance {limit}"
        if exact:
            some = f"WITH fitting AS MATERIALIZED (SELECT number, vector FROM live WHERE {where})"
            ordered = f"SELECT number, {distance} FROM fitting ORDER BY distance {limit}"
            sql = f"{some} SELECT number, -distance FROM ({ordered}) nearest"
            return (sql, *values, array_as_sent(query.tolist()))
        return (f"SELECT number, -distance FROM ({one}) nearest", array_as_sent(query.tolist()), *values)


_COUNTED = "SELECT count(*), coalesce(sum(length(words)), 0) FROM live"


def _measured(found: Sequence[tuple[int, float]]) -> Nearest:
    return np.array([number for number, _ in found], np.int64), np.array([one for _, one in found], np.float64)


def _quoted(words: Iterable[str]) -> str:
    """A query for texts that have all of these words."""
    escaped = (word[:LONGEST_TERM].replace("\\", "\\\\").replace("'", "''") for word in words)
    return " & ".join(f"'{word}'" for word in escaped)


def _filter(where: Mapping[str, Any]) -> Query:
    """Return a filter by metadata as a condition, with its values. See validation.py for what it means."""
    sql, values = list[str](), list[Any]()
    for name, wanted in where.items():
        parts = name.split(".")
        paths = [[*parts[:depth], ".".join(parts[depth:])] for depth in range(len(parts))]
        field = f"(SELECT coalesce({', '.join(f'{METADATA} #> ?::text[]' for _ in paths)}) AS f) field"
        operators = isinstance(wanted, Mapping) and wanted and all(str(one).startswith("$") for one in wanted)
        for operator, value in wanted.items() if operators else [("$eq", wanted)]:
            condition, *given = _compared(operator, value)
            sql.append(f"(SELECT {condition} FROM {field})")
            values += [*given, *paths]
        if not operators and len(parts) == 1 and (known := _as_json({name: wanted})) is not None:
            sql.append(f"{METADATA} @> ?::jsonb")  # which an index finds
            values.append(known)
    return " AND ".join(sql), *values


def _compared(operator: str, value: Any) -> Query:
    """Return the condition that a field `f`, or NULL if it isn't there, compares like this."""
    if operator == "$exists":
        return ("f IS NOT NULL" if value else "f IS NULL",)
    if operator in ("$eq", "$ne", "$in", "$nin"):
        some = [value] if operator in ("$eq", "$ne") else value
        known = [one for one in map(_as_json, some) if one is not None]
        return f"{'' if operator in ('$eq', '$in') else 'NOT '}coalesce(f = ANY(?::jsonb[]), false)", known
    sign = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}[operator]
    if isinstance(value, str):
        text = "CASE jsonb_typeof(f) WHEN 'string' THEN (f #>> '{}') COLLATE \"C\" END"
        return f"coalesce({text} {sign} ?::text, false)", value
    if isinstance(value, (int, float)) and not math.isnan(value):
        number = "WHEN 'number' THEN (f #>> '{}')::float8 WHEN 'boolean' THEN (f #>> '{}')::boolean::int"
        return f"coalesce(CASE jsonb_typeof(f) {number} END {sign} ?::float8, false)", float(value)
    return ("f IS NOT NULL" if isinstance(value, (list, tuple)) else "false",)  # what is found is compared again


def _as_json(value: Any) -> str | None:
    """Return a value as JSON, or None if it isn't one, so that nothing is equal to it."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (TypeError, ValueError):
        return None
    return re.sub(UNSTORABLE, r"\1", text.encode(errors="ignore").decode())
