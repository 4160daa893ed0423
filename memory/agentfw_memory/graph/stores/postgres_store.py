"""The store of skill graphs on a PostgreSQL server.

    store = PostgresStore.open("postgresql://ana@db.example.org/team", tenant="team-a")

It gives the same guarantees as a file, with one exception: a forgotten user is removed from the tables and their files
at once, but the server's log, replicas and backups are out of reach from here.

The statements are in sql_rows.py and sql_store.py, the tables and the connection in postgres_server.py.
"""

from __future__ import annotations

import itertools
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from agentfw_memory.graph.arrays import Float32Array
from agentfw_memory.graph.graph_settings import PATIENCE
from agentfw_memory.graph.stores.interface import (
    Answer,
    Change,
    Clock,
    EdgeRow,
    EmbedderRecord,
    LiveRows,
    Query,
    Search,
    SkillRow,
    told_apart,
)
from agentfw_memory.graph.stores.postgres_bulk import (
    EDGES,
    LIVE,
    VERSION,
    array_as_sent,
    columns_of,
    copy_rows,
    lexemes_as_sent,
    vector_as_sent,
)
from agentfw_memory.graph.stores.postgres_erasing import erase
from agentfw_memory.graph.stores.postgres_search import PostgresSearch, words_of
from agentfw_memory.graph.stores.postgres_server import (
    LOCK_TIMEOUT,
    TABLES,
    Server,
    answers_of,
    open_server,
    server_errors,
)
from agentfw_memory.graph.stores.sql_rows import digest
from agentfw_memory.graph.stores.sql_store import SqlStore

if TYPE_CHECKING:
    from agentfw_memory.graph.stores.postgres_server import Connection

__all__ = ["PostgresStore"]

FETCH_SIZE = 2_000
"""Rows fetched at a time during an export."""
_cursors = itertools.count()


class _UnansweredError(Exception):
    """A call of `together` needs these answers."""

    def __init__(self, queries: tuple[Query, ...]) -> None:
        self.queries = queries


_TABLE = re.compile(rf"\b(FROM|JOIN|INTO|UPDATE)\s+(tenant|{'|'.join(TABLES)})\b")


class PostgresStore(SqlStore):
    """One tenant of a database."""

    any_of = "= ANY(?::bigint[])"
    by_bytes = ' COLLATE "C"'
    vector_value = "?::real[]::vector"
    vector_column = "vector_send(vector)"
    since = f"coalesce(live.valid_from, {SqlStore.since})"  # earlier versions stored it there only
    searched: ClassVar[Mapping[str, str]] = {"words": "array_to_tsvector(?::text[])", "valid_from": "?"}

    def __init__(self, server: Server, tenant: str, number: int, clock: Clock, patience: float) -> None:
        super().__init__(tenant, number, clock)
        self._server, self._patience = server, patience
        self._waiting = f"SET LOCAL lock_timeout = {max(1, round(1000 * patience))}"
        self._open: Connection | None = None
        """The connection of the transaction that is open."""
        self._held: Connection | None = None
        """The connection that is read over, without a transaction."""
        self._answers: Iterator[list[list[Any]]] | None = None
        """What a call of `together` asked before, in the same order."""

    @classmethod
    def open(cls, url: str, *, tenant: str, clock: Clock = time.time, patience: float = PATIENCE) -> PostgresStore:
        """Connect, and create the tenant if it is new."""
        server = open_server(url)
        try:
            number = server.retried(lambda: _tenant_number(server, tenant, patience), patience)
        except BaseException:
            server.release()
            raise
        return cls(server, tenant, number, clock, patience)

    @classmethod
    def tenants(cls, url: str) -> list[str]:
        """Return the names of the tenants in a database."""

        def names() -> list[str]:
            with server.connection(PATIENCE) as connection:
                rows = connection.execute('SELECT name FROM skillgraph.tenant ORDER BY name COLLATE "C"').fetchall()
            return [name for (name,) in rows]

        server = open_server(url)
        try:
            return server.retried(names, PATIENCE)
        finally:
            server.release()

    @contextmanager
    def reading(self) -> Iterator[None]:
        with self._server.connection(self._patience) as self._held:
            try:
                yield
            finally:
                self._held = None

    def together(self, *calls: Callable[[], Any]) -> list[Any]:
        # A call goes on until it asks for something new. When all of them have, the server is asked, and they begin
        # again with the answers. So each waits for the server as often as the one that asks most often.
        answers: list[list[list[list[Any]]]] = [[] for _ in calls]
        found: dict[int, Any] = {}
        while len(found) < len(calls):
            asked: list[tuple[int, tuple[Query, ...]]] = []
            for place in range(len(calls)):
                if place not in found:
                    self._answers = iter(answers[place])
                    try:
                        found[place] = calls[place]()
                    except _UnansweredError as error:
                        asked.append((place, error.queries))
                    finally:
                        self._answers = None
            every = [query for _, queries in asked for query in queries]
            rows = iter(self._ask(*every) if every else ())
            for place, queries in asked:
                answers[place].append([next(rows) for _ in queries])
        return [found[place] for place in range(len(calls))]

    def retried(self, call: Callable[[], Answer], *, repeatable: bool) -> Answer:
        return self._server.retried(call, self._patience, repeatable=repeatable)

    def add_skills(self, change: Change, rows: Sequence[SkillRow]) -> None:
        tenant = self._tenant
        live = (
            (
                *(tenant, row.number, change.number, row.owner, int(row.visibility == "shared")),
                *(digest(told_apart(row.text, row.metadata)), vector_as_sent(row.vector)),
                *(lexemes_as_sent(words_of(row.text)), row.valid_from),
            )
            for row in rows
        )
        versions = (
            (
                *(tenant, row.number, 0, row.owner, row.text, row.visibility, row.valid_from, change.now),
                *(row.metadata, row.expires_at),
            )
            for row in rows
        )
        with self._connection() as connection:
            copy_rows(connection, "live", LIVE, live)
            copy_rows(connection, "version", VERSION, versions)

    def add_edges(self, change: Change, rows: Sequence[EdgeRow]) -> int:
        values = [
            (row.kind, row.source, row.target, row.weight, change.now if row.valid_from is None else row.valid_from)
            for row in rows
        ]
        new = self._run(EDGES, self._tenant, change.now, *columns_of(values)) if rows else 0
        return new if new == len(rows) else new + sum(self._change_weight(change, row) for row in rows)

    def twins(self, pairs: Sequence[tuple[int, str]]) -> dict[tuple[int, str], int]:
        if not pairs:
            return {}
        by_digest = {(owner, digest(text)): (owner, text) for owner, text in pairs}
        sql = (
            "SELECT l.owner, l.digest, l.number FROM unnest(?::bigint[], ?::bytea[]) AS t (owner, digest) "
            "JOIN live l ON l.tenant = ? AND l.owner = t.owner AND l.digest = t.digest"
        )
        found = self._rows(sql, *columns_of(list(by_digest)), self._tenant)
        return {by_digest[owner, bytes(mark)]: number for owner, mark, number in found}

    def bytes_on_disk(self) -> int:
        sql = (
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c "
            "WHERE c.relnamespace = 'skillgraph'::regnamespace AND c.relkind = 'r'"
        )
        return int(self._value(sql))

    @property
    def index_path(self) -> Path | None:
        """None: each process builds its index from the rows."""
        return None

    @property
    def search(self) -> Search:
        return PostgresSearch(self, self._tenant)

    def _note_forgotten(self, change: Change, gone: list[int], receipt: dict[str, int]) -> None:
        super()._note_forgotten(change, gone, receipt)
        self._delete("community", "node", gone)

    def take_staged(self, change: Change, embedder: EmbedderRecord) -> None:
        # It is for vectors of the old size. `prepare` creates it again.
        self._run(f"DROP INDEX IF EXISTS skillgraph.live_vectors_{self._tenant}")
        super().take_staged(change, embedder)

    def close(self) -> None:
        self._server.release()

    def erase(self) -> None:
        erase(self._server, self._tenant, self._patience)

    # What a search needs

    def run(self, sql: str, *values: Any) -> int:
        return self._run(sql, *values)

    def run_alone(self, sql: str) -> None:
        with self._server.connection(self._patience) as connection:
            connection.execute(sql.encode())

    def rows(self, sql: str, *values: Any) -> list[Any]:
        return self._rows(sql, *values)

    def ask(self, *queries: Query) -> list[list[Any]]:
        return self._ask(*queries)

    def read_vectors(self, values: Sequence[bytes]) -> Float32Array:
        return self._read_vectors(values)

    def live_rows(self, numbers: Sequence[int]) -> LiveRows | None:
        # Through a cursor, vectors come as they are. Otherwise they are written as text, which takes longer than all
        # else that is done with them.
        rows = f"DECLARE found BINARY CURSOR FOR {self._live_select} {self.any_of}"
        asked = rows, self._tenant, self._numbers(numbers)
        found = sorted(self._ask(asked, ("FETCH ALL FROM found",), ("CLOSE found",))[1])
        return self._live_rows(found) if found else None

    # The dialect

    def _searched(self, text: str, valid_from: float) -> tuple[Any, ...]:
        return words_of(text), valid_from

    def _run(self, sql: str, *values: Any) -> int:
        with self._connection() as connection:
            return connection.execute(_query(sql), values).rowcount

    def _run_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> int:
        with self._connection() as connection, connection.cursor() as cursor:
            cursor.executemany(_query(sql), rows)
            return max(0, cursor.rowcount)

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        return self._ask((sql, *values))[0]

    def _ask(self, *queries: Query) -> list[list[Any]]:
        if self._answers is not None:
            if (known := next(self._answers, None)) is None:
                raise _UnansweredError(queries)
            return known
        with self._lent() as connection:
            return answers_of(connection, self._waiting, [(_query(sql), values) for sql, *values in queries])

    def _stream(self, sql: str, *values: Any) -> Iterator[Any]:
        with self._connection() as connection, connection.cursor(f"stream_{next(_cursors)}") as cursor:
            cursor.itersize = FETCH_SIZE
            yield from cursor.execute(_query(sql), values)

    def _transaction(self) -> AbstractContextManager[None]:
        return self._in_transaction(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}s'")

    def _snapshot(self) -> AbstractContextManager[None]:
        return self._in_transaction("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")

    @contextmanager
    def _in_transaction(self, settings: str) -> Iterator[None]:
        with self._server.transaction(self._patience, settings) as self._open:
            try:
                yield
            finally:
                self._open = None

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        """The connection of the open transaction, or one for a single statement."""
        if self._open is not None:
            with server_errors(self._open):
                yield self._open
            return
        with self._server.transaction(self._patience, self._waiting) as one:
            yield one

    @contextmanager
    def _lent(self) -> Iterator[Connection]:
        """A connection to read over."""
        if (mine := self._open or self._held) is not None:
            with server_errors(mine):
                yield mine
            return
        with self._server.connection(self._patience) as one:
            yield one

    def _numbers(self, numbers: Iterable[int]) -> str:
        return array_as_sent(numbers)

    def _vector(self, vector: Float32Array) -> str:
        return array_as_sent(np.asarray(vector, np.float32).tolist())

    def _read_vectors(self, values: Sequence[bytes]) -> Float32Array:
        # The server sends a header of four bytes, then big-endian floats.
        return np.stack([np.frombuffer(value, ">f4", offset=4) for value in values]).astype(np.float32)


def _tenant_number(server: Server, tenant: str, patience: float) -> int:
    find = b"SELECT tenant FROM skillgraph.tenant WHERE name = %s"
    with server.connection(patience) as connection:
        row = connection.execute(find, (tenant,)).fetchone()
        if row is None:
            connection.execute(
                "INSERT INTO skillgraph.tenant (name, identity) VALUES (%s, %s) ON CONFLICT DO NOTHING",
                (tenant, uuid.uuid4().hex),
            )
            row = connection.execute(find, (tenant,)).fetchone()
    assert row is not None
    return int(row[0])


@lru_cache(maxsize=1_000)
def _query(sql: str) -> bytes:
    """Return a statement with the placeholders of psycopg, and its tables with their schema.

    A search path would be a setting of the session, which doesn't exist behind a pooler in transaction mode.
    """
    return _TABLE.sub(r"\1 skillgraph.\2", sql).replace("?", "%s").encode()
