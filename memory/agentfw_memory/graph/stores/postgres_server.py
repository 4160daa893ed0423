"""The tables of skill graphs on a PostgreSQL server with pgvector, and the connection to it.

The one rule: everything is in a schema of our own, `skillgraph`; what is another program's, or newer than we are, is
left exactly as it is.

    connection = open_server("postgresql://ana@db.example.org/team")
    with transaction(connection):
        ...

A commit waits for the server's disk, so what was acknowledged survives a crash of either side. The vectors are
pgvector's, of any dimension up to its 16,000. No password is ever shown.
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

__all__ = ["TABLES", "open_server", "told", "transaction"]

VERSION = 1
PATIENCE = 120
"""Seconds that one may wait for others before it is an error."""
MAKING = 0x534B4730
"""Who makes the tables holds this lock, so that several processes may come to a new server at once."""

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

# The planner keeps samples of columns, and what is forgotten would stay in them; no statement here needs any of these.
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
"""Where a person's rows may be."""


def open_server(url: str) -> Connection:
    """Connect, and make the tables where there are none."""
    try:
        import psycopg
    except ImportError:
        raise MissingExtraError("a graph on PostgreSQL", "postgres", module="psycopg") from None
    shown = _shown(url)
    try:
        connection = psycopg.connect(url, autocommit=True, connect_timeout=20)
    except psycopg.Error as error:
        said = str(error).strip().splitlines()[-1]
        raise StoreRefusedError(
            f"{shown} can't be reached: {said}", fix="is the server running there, and are address and user right?"
        ) from None
    try:
        connection.execute(f"SET lock_timeout = '{PATIENCE}s'")
        _prepare(connection, shown)
        connection.execute("SET search_path TO skillgraph, public")
    except psycopg.Error as error:
        connection.close()
        raise StoreRefusedError(
            f"{shown} can't hold skill graphs: {str(error).strip()}",
            fix="it needs pgvector (CREATE EXTENSION vector) and a user who may create a schema",
        ) from None
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def transaction(connection: Connection, *, begin: str = "") -> Iterator[None]:
    """All of it or nothing. `begin` is how the transaction is to be, in the words of SET TRANSACTION."""
    with told(), connection.transaction():
        if begin:
            connection.execute(f"SET TRANSACTION {begin}".encode())
        yield


@contextmanager
def told() -> Iterator[None]:
    """What the server refuses, in our words."""
    import psycopg

    try:
        yield
    except psycopg.errors.LockNotAvailable as error:
        raise StoreBusyError(
            f"somebody else has held the graph for {PATIENCE} seconds",
            fix="look for a process that hangs in a transaction, end it and try again",
        ) from error
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise StorageError(
            f"the server refused: {str(error).strip()}", fix="what was acknowledged is intact; open the graph again"
        ) from error
    except psycopg.Error as error:
        raise SkillGraphError(f"the server refused: {str(error).strip()}", fix="nothing of it was kept") from error


def _prepare(connection: Connection, shown: str) -> None:
    """Check whose schema it is, and make it where there is none."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MAKING,))
        found = connection.execute("SELECT to_regnamespace('skillgraph'), to_regclass('skillgraph.format')").fetchone()
        assert found is not None
        if found[0] is None:
            connection.execute(SCHEMA)
            for table, column in UNSAMPLED:
                connection.execute(f"ALTER TABLE skillgraph.{table} ALTER {column} SET STATISTICS 0".encode())
            connection.execute("INSERT INTO skillgraph.format VALUES (%s)", (VERSION,))
        elif found[1] is None:
            raise StoreRefusedError(
                f"{shown} has a schema skillgraph of another program", fix="choose another database"
            )
        row = connection.execute("SELECT version FROM skillgraph.format").fetchone()
        if row is None or row[0] > VERSION:
            version = row[0] if row else "unknown"
            raise StoreRefusedError(
                f"{shown} was written by a newer agentfw (format {version}, this one reads {VERSION})",
                fix="pip install --upgrade agentfw",
            )


def _shown(url: str) -> str:
    """An address without its password."""
    try:
        parts = urlsplit(url)
        return f"postgresql://{parts.hostname or 'localhost'}{f':{parts.port}' if parts.port else ''}{parts.path}"
    except ValueError:
        return "the address"
