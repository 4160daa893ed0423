"""The store of skill graphs on a PostgreSQL server with pgvector.

It gives the same guarantees as a file, with one exception: a forgotten user is removed from the tables, but the server
decides when it uses the space again, and its log, replicas and backups are out of reach from here. What is read at once
travels as one message, and many rows are added by COPY: a statement for each would cost more time than the row itself.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..graph_settings import PATIENCE
from ..records import Float32Array
from .postgres_search import PostgresSearch, array_as_sent, words_of
from .postgres_server import LOCK_TIMEOUT, Connection, answers_of, open_server, server_errors
from .sql import Column, Store
from .store import TABLES, Answer, Change, Insert, Reading, Select

SENT = {"integer": "int8", "number": "float8", "text": "text", "bytes": "bytea", "vector": "bytea", "words": "bytea"}
"""The types that columns are sent as by COPY. Vectors and words are sent as the bytes that the server reads, so this
process needs no knowledge of their types."""


class PostgresStore(Store):
    """One tenant of a database."""

    prefix = "skillgraph."
    columns: ClassVar[Mapping[str, Column]] = {
        "vector": Column(lambda one: array_as_sent(np.asarray(one).tolist()), "?::real[]::vector", "vector_send({})"),
        "words": Column(words_of, "array_to_tsvector(?::text[])"),
    }

    def __init__(self, where: str | Path, *, patience: float = PATIENCE, power_safe: bool = False) -> None:
        super().__init__(where)
        self._server, self._patience = open_server(str(where)), patience
        self._waiting = f"SET LOCAL lock_timeout = {max(1, round(1000 * patience))}"
        self._open: Connection | None = None  # the connection of the transaction that is open

    def close(self) -> None:
        self._server.release()

    def retried(self, call: Callable[[], Answer], *, repeatable: bool) -> Answer:
        return self._server.retried(call, self._patience, repeatable=repeatable)

    def bytes_on_disk(self) -> int:
        sql = (
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c "
            "WHERE c.relnamespace = 'skillgraph'::regnamespace AND c.relkind = 'r'"
        )
        return int(self._rows(sql, ())[0][0])

    @property
    def search(self) -> PostgresSearch:
        return PostgresSearch(self._ask, self._run_alone, self.vectors, self._tenant)

    def erase(self) -> None:
        """Make the space of deleted rows free. Their bytes are gone when the server writes something else there."""
        for table in TABLES:
            # Cutting off the end of a file would lock the table.
            self._run_alone(f"VACUUM (TRUNCATE false) skillgraph.{table}")

    def read(self, *readings: Reading) -> list[list[tuple[Any, ...]]]:
        statements, answered_by = list[tuple[Any, ...]](), list[int]()
        for place, one in enumerate(readings):
            sql, values = self._reading(one)
            if isinstance(one, Select) and "vector" in one.columns:
                # Through a cursor, vectors come as they are. Otherwise they are written as text, which takes longer
                # than all else that is done with them.
                name = f"found_{place}"
                statements += [(f"DECLARE {name} BINARY CURSOR FOR {sql}", *values), (f"FETCH ALL FROM {name}",)]
                answered_by.append(len(statements) - 1)
                statements.append((f"CLOSE {name}",))
            else:
                answered_by.append(len(statements))
                statements.append((sql, *values))
        answers = self._ask(*statements)
        return [answers[place] for place in answered_by]

    def take_staged(self, change: Change) -> None:
        # It is for vectors of the old size. `prepare` creates it again.
        self._run(f"DROP INDEX IF EXISTS skillgraph.live_vectors_{self._tenant}", ())
        super().take_staged(change)

    def snapshot(self) -> AbstractContextManager[None]:
        return self._in_transaction("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")

    def vectors(self, values: Sequence[bytes]) -> Float32Array:
        # The server sends a header of four bytes, then big-endian floats.
        return np.stack([np.frombuffer(value, ">f4", offset=4) for value in values]).astype(np.float32)

    # The dialect

    def _insert(self, one: Insert) -> int:
        kinds = TABLES[one.table].columns
        sent = [SENT[kinds[name].removeprefix("optional ")] for name in one.columns]
        names = ", ".join(f'"{name}"' for name in one.columns)
        into = f"skillgraph.{one.table} (tenant, {names})"
        if one.existing == "keep" and one.rows:
            arrays = ", ".join(f"?::{kind}[]" for kind in sent)
            sql = f"INSERT INTO {into} SELECT ?, {names} FROM unnest({arrays}) AS t ({names}) ON CONFLICT DO NOTHING"
            return self._run(sql, [self._tenant, *(list(column) for column in zip(*one.rows, strict=True))])
        if one.existing == "replace" or len(one.rows) < 2:
            return super()._insert(one)
        made_by: dict[str, Callable[[Any], bytes]] = {"vector": _vector_as_sent, "words": _lexemes_as_sent}
        convert = [made_by.get(kinds[name]) for name in one.columns]
        with (
            self._lent() as connection,
            connection.cursor() as cursor,
            cursor.copy(f"COPY {into} FROM STDIN (FORMAT BINARY)".encode()) as copy,
        ):
            copy.set_types(["int8", *sent])
            for row in one.rows:
                values = (value if made is None else made(value) for made, value in zip(convert, row, strict=True))
                copy.write_row((self._tenant, *values))
        return len(one.rows)

    def _among(self, column: str, values: list[Any]) -> tuple[str, list[Any]]:
        if values and isinstance(values[0], str):
            return f"{column} = ANY(?::text[])", [values]
        return f"{column} = ANY(?::bigint[])", [array_as_sent(values)]

    def _run(self, sql: str, values: Sequence[Any]) -> int:
        with self._lent() as connection:
            return max(0, connection.execute(_query(sql), values).rowcount)

    def _run_many(self, sql: str, rows: Sequence[tuple[Any, ...]]) -> int:
        if len(rows) == 1:
            return self._run(sql, rows[0])
        with self._lent() as connection, connection.cursor() as cursor:
            cursor.executemany(_query(sql), rows)
            return max(0, cursor.rowcount)

    def _rows(self, sql: str, values: Sequence[Any]) -> list[Any]:
        return self._ask((sql, *values))[0]

    def _ask(self, *queries: tuple[Any, ...]) -> list[list[Any]]:
        with self._lent() as connection:
            return answers_of(connection, self._waiting, [(_query(sql), values) for sql, *values in queries])

    def _run_alone(self, sql: str) -> None:
        with self._server.connection(self._patience) as connection:
            connection.execute(sql.encode())

    def _transaction(self, *, waits: bool = True) -> AbstractContextManager[None]:
        soon = "" if waits else "; SET LOCAL synchronous_commit TO off"
        return self._in_transaction(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}s'{soon}")

    @contextmanager
    def _in_transaction(self, settings: str) -> Iterator[None]:
        with self._server.transaction(self._patience, settings) as self._open:
            try:
                yield
            finally:
                self._open = None

    @contextmanager
    def _lent(self) -> Iterator[Connection]:
        """Lend the connection of the open transaction, or one for what is read outside of any."""
        if self._open is None:
            with self._server.connection(self._patience) as free:
                yield free
        else:
            with server_errors(self._open):
                yield self._open


_TABLE = re.compile(rf"\b(FROM|JOIN)\s+({'|'.join(TABLES)})\b")


@lru_cache(maxsize=1_000)
def _query(sql: str) -> bytes:
    """Return a statement with the placeholders of psycopg, and with the schema of its tables. A search path would be a
    setting of the session, which doesn't exist behind a pooler in transaction mode."""
    return _TABLE.sub(r"\1 skillgraph.\2", sql).replace("?", "%s").encode()


def _vector_as_sent(vector: Iterable[float]) -> bytes:
    """A vector as pgvector reads it: the number of dimensions, two unused bytes, and big-endian floats."""
    values = np.asarray(vector, ">f4")
    return struct.pack(">hh", len(values), 0) + values.tobytes()


def _lexemes_as_sent(text: str) -> bytes:
    """The words of a text without positions, as a `tsvector` reads them."""
    words = words_of(text)
    return struct.pack(">i", len(words)) + b"".join(word.encode() + b"\0\0\0" for word in words)
