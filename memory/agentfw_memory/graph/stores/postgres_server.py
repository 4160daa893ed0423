"""The tables of skill graphs on a PostgreSQL server with pgvector, and the connection to it.

All tables are in the schema `skillgraph`. A schema of another program or of a newer version is left untouched.

    connection = open_server("postgresql://ana@db.example.org/team")
    with transaction(connection):
        ...

A commit waits for the server's disk, so acknowledged writes survive a crash of either side. Vectors are pgvector's, of
up to 16,000 dimensions. Error messages never show the password.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from agentfw_memory.errors import MissingExtraError, SkillGraphError, StorageError, StoreBusyError, StoreRefusedError

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

__all__ = ["TABLES", "open_server", "server_errors", "transaction"]

VERSION = 1
LOCK_TIMEOUT = 120
"""Seconds to wait for other processes before raising StoreBusyError."""
CREATION_LOCK = 0x534B4730
"""Advisory lock held while the tables are created, so that several processes can open a new server at once."""

SCHEMA = """
CREATE EXTENSION IF NOT EXISTS vector;
CREATE SCHEMA skillgraph;
CREATE TABLE skillgraph.format (version integer NOT NULL);
CREATE TABLE skillgraph.tenant (
    tenant bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    identity text NOT NULL,
    counter bigint NOT NULL DEFAULT 0,
    forgotten bigint NOT NULL DEFAULT 0,
    next_number bigint NOT NULL DEFAULT 1,
    embedder text,
    embedder_version text,
    dimensions integer
);
CREATE TABLE skillgraph.node (
    tenant bigint NOT NULL,
    number bigint NOT NULL,
    kind text NOT NULL,
    name text NOT NULL,
    recorded_at float8 NOT NULL,
    PRIMARY KEY (tenant, number),
    UNIQUE (tenant, kind, name)
);
CREATE TABLE skillgraph.trajectory (
    tenant bigint NOT NULL,
    number bigint NOT NULL,
    "user" bigint NOT NULL,
    query text NOT NULL,
    outcome text NOT NULL,
    reward float8 NOT NULL,
    PRIMARY KEY (tenant, number)
);
CREATE INDEX ON skillgraph.trajectory (tenant, "user");
CREATE TABLE skillgraph.version (
    tenant bigint NOT NULL,
    number bigint NOT NULL,
    ordinal integer NOT NULL,
    owner bigint NOT NULL,
    text text NOT NULL,
    visibility text NOT NULL,
    valid_from float8 NOT NULL,
    valid_to float8,
    recorded_at float8 NOT NULL,
    PRIMARY KEY (tenant, number, ordinal)
);
CREATE INDEX ON skillgraph.version (tenant, owner);
CREATE TABLE skillgraph.live (
    tenant bigint NOT NULL,
    number bigint NOT NULL,
    changed bigint NOT NULL,
    owner bigint NOT NULL,
    shared smallint NOT NULL,
    digest bytea NOT NULL,
    uses bigint NOT NULL DEFAULT 0,
    rewards float8 NOT NULL DEFAULT 0,
    vector vector NOT NULL,
    PRIMARY KEY (tenant, number),
    UNIQUE (tenant, owner, digest)
);
CREATE INDEX ON skillgraph.live (tenant, changed);
CREATE TABLE skillgraph.ended (
    tenant bigint NOT NULL,
    changed bigint NOT NULL,
    number bigint NOT NULL,
    PRIMARY KEY (tenant, changed, number)
);
CREATE TABLE skillgraph.edge (
    row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant bigint NOT NULL,
    kind text NOT NULL,
    source bigint NOT NULL,
    target bigint NOT NULL,
    weight float8 NOT NULL,
    valid_from float8 NOT NULL,
    valid_to float8,
    recorded_at float8 NOT NULL
);
CREATE UNIQUE INDEX ON skillgraph.edge (tenant, source, kind, target) WHERE valid_to IS NULL;
CREATE INDEX ON skillgraph.edge (tenant, source) WHERE valid_to IS NOT NULL;
CREATE INDEX ON skillgraph.edge (tenant, target, kind);
CREATE INDEX ON skillgraph.edge (tenant, row);
CREATE TABLE skillgraph.profile (
    tenant bigint NOT NULL,
    "user" bigint NOT NULL,
    changed bigint NOT NULL,
    text text NOT NULL,
    vector vector NOT NULL,
    PRIMARY KEY (tenant, "user")
);
CREATE TABLE skillgraph.staged (
    tenant bigint NOT NULL,
    number bigint NOT NULL,
    embedder text NOT NULL,
    vector vector NOT NULL,
    PRIMARY KEY (tenant, number)
);
CREATE TABLE skillgraph.state (
    tenant bigint NOT NULL,
    name text NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (tenant, name)
);
"""

# The planner keeps samples of column values, which would outlive a forgotten user. No statement needs these samples.
UNSAMPLED = (
    ("node", "name"),
    ("trajectory", "query"),
    ("trajectory", "outcome"),
    ("version", "text"),
    ("live", "vector"),
    ("profile", "text"),
    ("profile", "vector"),
    ("staged", "vector"),
)

TABLES = ("node", "trajectory", "version", "live", "ended", "edge", "profile", "staged", "state")
"""The tables that can hold data of a user."""


def open_server(url: str) -> Connection:
    """Connect, and create the tables if there are none."""
    try:
        import psycopg
    except ImportError:
        raise MissingExtraError("a graph on PostgreSQL", "postgres", module="psycopg") from None
    shown = _without_password(url)
    try:
        connection = psycopg.connect(url, autocommit=True, connect_timeout=20)
    except psycopg.Error as error:
        reason = str(error).strip().splitlines()[-1]
        raise StoreRefusedError(
            f"{shown} can't be reached: {reason}", fix="check that the server is running, and the address and user name"
        ) from None
    try:
        connection.execute(f"SET lock_timeout = '{LOCK_TIMEOUT}s'")
        _prepare(connection, shown)
        connection.execute("SET search_path TO skillgraph, public")
    except psycopg.Error as error:
        connection.close()
        raise StoreRefusedError(
            f"{shown} can't hold skill graphs: {str(error).strip()}",
            fix="install pgvector (CREATE EXTENSION vector), and use a role that may create a schema",
        ) from None
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: Connection, *, mode: str = "") -> Iterator[None]:
    """Commit at the end of the block, or roll back on an exception. `mode` is an argument of SET TRANSACTION."""
    with server_errors(), connection.transaction():
        if mode:
            connection.execute(f"SET TRANSACTION {mode}".encode())
        yield


@contextmanager
def server_errors() -> Iterator[None]:
    """Raise errors of the server as ours."""
    import psycopg

    try:
        yield
    except psycopg.errors.LockNotAvailable as error:
        raise StoreBusyError(
            f"another process has held the graph for {LOCK_TIMEOUT} seconds",
            fix="end the process that hangs in a transaction, then try again",
        ) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise StorageError(
            f"the server failed: {str(error).strip()}", fix="open the graph again; acknowledged writes are safe"
        ) from error
    except psycopg.Error as error:
        raise SkillGraphError(
            f"the server refused: {str(error).strip()}", fix="change the input; nothing of it was stored"
        ) from error


def _prepare(connection: Connection, shown: str) -> None:
    """Check whose schema it is, and create it if there is none."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (CREATION_LOCK,))
        found = connection.execute("SELECT to_regnamespace('skillgraph'), to_regclass('skillgraph.format')").fetchone()
        assert found is not None
        if found[0] is None:
            connection.execute(SCHEMA)
            for table, column in UNSAMPLED:
                connection.execute(f"ALTER TABLE skillgraph.{table} ALTER {column} SET STATISTICS 0".encode())
            connection.execute("INSERT INTO skillgraph.format VALUES (%s)", (VERSION,))
        elif found[1] is None:
            raise StoreRefusedError(
                f"{shown} has a schema skillgraph that belongs to another program", fix="choose another database"
            )
        row = connection.execute("SELECT version FROM skillgraph.format").fetchone()
        if row is None or row[0] > VERSION:
            version = row[0] if row else "unknown"
            raise StoreRefusedError(
                f"{shown} was written by a newer agentfw (format {version}, this version reads {VERSION})",
                fix="pip install --upgrade agentfw",
            )


def _without_password(url: str) -> str:
    try:
        parts = urlsplit(url)
        return f"postgresql://{parts.hostname or 'localhost'}{f':{parts.port}' if parts.port else ''}{parts.path}"
    except ValueError:
        return "the address"
