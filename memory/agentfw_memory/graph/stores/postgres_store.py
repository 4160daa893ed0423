"""The store of skill graphs on a PostgreSQL server: opening it, forgetting, other vectors, moving house.

The one rule: it keeps every promise of the store in a file, and says where it can't: who is forgotten is gone from the
tables and their files at once, but a server's own log and backups are in its keeper's hands.

    store = PostgresStore.open("postgresql://ana@db.example.org/team", tenant="team-a")
"""

from __future__ import annotations

import itertools
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from agentfw_memory.graph.stores.interface import Clock, Float32Array
from agentfw_memory.graph.stores.postgres_rows import PostgresRows, listed, unsent
from agentfw_memory.graph.stores.postgres_server import TABLES, open_server, told, transaction
from agentfw_memory.graph.stores.sql_store import WholeTenant

__all__ = ["PostgresStore"]

FETCHED = 2_000
"""Rows that an export takes from the server at a time."""
_cursors = itertools.count()


class PostgresStore(PostgresRows, WholeTenant):
    """One tenant of one database."""

    vector_value = "?::real[]::vector"
    vector_read = "vector_send(vector)"

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

    @classmethod
    def tenants(cls, url: str) -> list[str]:
        """Whose graphs are in a database."""
        connection = open_server(url)
        try:
            with told():
                rows = connection.execute('SELECT name FROM tenant ORDER BY name COLLATE "C"').fetchall()
            return [name for (name,) in rows]
        finally:
            connection.close()

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

    def erase(self) -> None:
        """Write the tables anew, so that nothing of what was deleted is left in their files.

        The server's log, until it is overwritten, and its archives, replicas and backups can't be reached from here.
        """
        for table in TABLES:
            self._execute(f"VACUUM FULL {table}")

    # Within

    def _do(self, sql: str, *values: Any) -> int:
        return self._execute(sql.replace("?", "%s"), *values)

    def _do_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> None:
        self._many(sql.replace("?", "%s"), rows)

    def _ask(self, sql: str, *values: Any) -> list[Any]:
        return self._rows(sql.replace("?", "%s"), *values)

    def _stream(self, sql: str, *values: Any) -> Iterator[Any]:
        with self._connection.cursor(f"stream_{next(_cursors)}") as cursor:
            cursor.itersize = FETCHED
            yield from cursor.execute(sql.replace("?", "%s").encode(), values)

    def _snapshot(self) -> AbstractContextManager[None]:
        return transaction(self._connection, begin="ISOLATION LEVEL REPEATABLE READ, READ ONLY")

    def _vector(self, vector: Float32Array) -> list[float]:
        return listed(vector)

    def _read_vector(self, value: bytes) -> Float32Array:
        return unsent(value)

    def _ends(self, near: str, far: str, numbers: Sequence[int]) -> list[int]:
        sql = f"SELECT DISTINCT {far} FROM edge WHERE tenant = %s AND {near} = ANY(%s::bigint[])"
        return [number for (number,) in self._rows(sql, self._tenant, list(numbers))]

    def _delete(self, table: str, column: str, numbers: Sequence[int]) -> int:
        sql = f"DELETE FROM {table} WHERE tenant = %s AND {column} = ANY(%s::bigint[])"
        return self._execute(sql, self._tenant, list(numbers))

    def _delete_orphans(self, numbers: set[int]) -> int:
        sql = (
            "DELETE FROM node n WHERE n.tenant = %s AND n.number = ANY(%s::bigint[]) "
            "AND n.kind IN ('tool', 'scenario') AND NOT EXISTS (SELECT 1 FROM edge e "
            "WHERE e.tenant = n.tenant AND (e.source = n.number OR e.target = n.number))"
        )
        return self._execute(sql, self._tenant, sorted(numbers))
