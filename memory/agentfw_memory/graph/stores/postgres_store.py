"""The store of skill graphs on a PostgreSQL server.

    store = PostgresStore.open("postgresql://ana@db.example.org/team", tenant="team-a")

It gives the same guarantees as a file, with one exception: a forgotten user is removed from the tables and their files
at once, but the server's log, replicas and backups are out of reach from here.

The statements are in sql_rows.py and sql_store.py, the tables and the connection in postgres_server.py.
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agentfw_memory.graph.arrays import Float32Array
from agentfw_memory.graph.stores.interface import Clock
from agentfw_memory.graph.stores.postgres_server import TABLES, open_server, server_errors, transaction
from agentfw_memory.graph.stores.sql_store import SqlStore

if TYPE_CHECKING:
    from agentfw_memory.graph.stores.postgres_server import Connection

__all__ = ["PostgresStore"]

FETCH_SIZE = 2_000
"""Rows fetched at a time during an export."""
_cursors = itertools.count()


class PostgresStore(SqlStore):
    """One tenant of a database."""

    any_of = "= ANY(?::bigint[])"
    vector_value = "?::real[]::vector"
    vector_column = "vector_send(vector)"

    def __init__(self, connection: Connection, tenant: str, number: int, clock: Clock) -> None:
        super().__init__(tenant, number, clock)
        self._connection = connection

    @classmethod
    def open(cls, url: str, *, tenant: str, clock: Clock = time.time) -> PostgresStore:
        """Connect, and create the tenant if it is new."""
        connection = open_server(url)
        try:
            with server_errors():
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

    @classmethod
    def tenants(cls, url: str) -> list[str]:
        """Return the names of the tenants in a database."""
        connection = open_server(url)
        try:
            with server_errors():
                rows = connection.execute('SELECT name FROM tenant ORDER BY name COLLATE "C"').fetchall()
            return [name for (name,) in rows]
        finally:
            connection.close()

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

    def close(self) -> None:
        self._connection.close()

    def erase(self) -> None:
        """Rewrite the tables, so that their files hold nothing of what was deleted."""
        for table in TABLES:
            self._run(f"VACUUM FULL {table}")

    # The dialect

    def _run(self, sql: str, *values: Any) -> int:
        with server_errors():
            return self._connection.execute(_query(sql), values).rowcount

    def _run_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        with server_errors(), self._connection.cursor() as cursor:
            cursor.executemany(_query(sql), rows)

    def _rows(self, sql: str, *values: Any) -> list[Any]:
        with server_errors():
            return self._connection.execute(_query(sql), values).fetchall()

    def _stream(self, sql: str, *values: Any) -> Iterator[Any]:
        with self._connection.cursor(f"stream_{next(_cursors)}") as cursor:
            cursor.itersize = FETCH_SIZE
            yield from cursor.execute(_query(sql), values)

    def _transaction(self) -> AbstractContextManager[None]:
        return transaction(self._connection)

    def _snapshot(self) -> AbstractContextManager[None]:
        return transaction(self._connection, mode="ISOLATION LEVEL REPEATABLE READ, READ ONLY")

    def _numbers(self, numbers: Iterable[int]) -> list[int]:
        return list(numbers)

    def _vector(self, vector: Float32Array) -> list[float]:
        numbers: list[float] = np.asarray(vector, np.float32).tolist()
        return numbers

    def _read_vectors(self, values: Sequence[bytes]) -> Float32Array:
        # The server sends a header of four bytes, then big-endian floats.
        return np.stack([np.frombuffer(value, ">f4", offset=4) for value in values]).astype(np.float32)


@lru_cache(maxsize=1_000)
def _query(sql: str) -> bytes:
    """Return a statement with the placeholders of psycopg."""
    return sql.replace("?", "%s").encode()
