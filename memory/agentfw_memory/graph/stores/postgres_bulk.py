"""Writes many rows to PostgreSQL at once: by COPY in the binary format, or by one statement over arrays.

A statement for each row costs the server and this process more time than the row itself.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from agentfw_memory.graph.arrays import Float32Array

if TYPE_CHECKING:
    import psycopg

__all__ = ["EDGES", "LIVE", "VERSION", "array_as_sent", "columns_of", "copy_rows", "lexemes_as_sent", "vector_as_sent"]

LIVE = {
    "tenant": "int8",
    "number": "int8",
    "changed": "int8",
    "owner": "int8",
    "shared": "int2",
    "digest": "bytea",
    "vector": "bytea",
    "words": "bytea",
    "valid_from": "float8",
}
"""Columns of `live` and the types that they are sent as. Vectors and words are sent as the bytes that the server reads,
so this process needs no knowledge of their types."""
VERSION = {
    "tenant": "int8",
    "number": "int8",
    "ordinal": "int4",
    "owner": "int8",
    "text": "text",
    "visibility": "text",
    "valid_from": "float8",
    "recorded_at": "float8",
    "metadata": "text",
    "expires_at": "float8",
}
EDGES = (
    "INSERT INTO edge (tenant, kind, source, target, weight, valid_from, recorded_at) "
    "SELECT ?, kind, source, target, weight, valid_from, ? "
    "FROM unnest(?::text[], ?::bigint[], ?::bigint[], ?::float8[], ?::float8[]) "
    "AS t (kind, source, target, weight, valid_from) ON CONFLICT DO NOTHING"
)


def copy_rows(
    connection: psycopg.Connection[tuple[Any, ...]],
    table: str,
    columns: dict[str, str],
    rows: Iterable[Sequence[Any]],
) -> None:
    """Add rows to a table of the schema `skillgraph`."""
    sql = f"COPY skillgraph.{table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
    with connection.cursor() as cursor, cursor.copy(sql.encode()) as copy:
        copy.set_types(list(columns.values()))
        for row in rows:
            copy.write_row(row)


def columns_of(rows: Sequence[Sequence[Any]]) -> list[list[Any]]:
    """The columns of rows, each as a list, which becomes an array."""
    return [list(column) for column in zip(*rows, strict=True)]


def array_as_sent(numbers: Iterable[float]) -> str:
    """Numbers as an array. psycopg takes longer for a list than the server takes to find the rows."""
    return f"{{{','.join(map(repr, numbers))}}}"


def vector_as_sent(vector: Float32Array) -> bytes:
    """A vector as pgvector reads it: the number of dimensions, two unused bytes, and big-endian floats."""
    return struct.pack(">hh", len(vector), 0) + np.asarray(vector, ">f4").tobytes()


def lexemes_as_sent(words: Sequence[str]) -> bytes:
    """Words without positions, as a `tsvector` reads them."""
    return struct.pack(">i", len(words)) + b"".join(word.encode() + b"\0\0\0" for word in words)
