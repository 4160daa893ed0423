"""The tables of skill graphs on a PostgreSQL server with pgvector, and the connections to it.

All tables are in the schema `skillgraph`. All graphs of a process on one database share at most `CONNECTIONS`
connections, each taken for one transaction and without state between two, so that a pooler may stand in between. What
was under way on a broken one raises DisconnectedError. Error messages never show the password.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from ...errors import DisconnectedError, SkillGraphError, StorageError, StoreBusyError, StoreRefusedError, needing
from .sql import create_statements
from .store import Answer

with needing("a graph on PostgreSQL", "postgres"):
    import psycopg
    from psycopg.errors import LockNotAvailable, ReadOnlySqlTransaction
    from psycopg_pool import ConnectionPool, PoolTimeout

Connection = psycopg.Connection[tuple[Any, ...]]

VERSION = 5
CONNECTIONS = 10  # maximum number of connections of a process to one database. Further threads wait for a free one
LOCK_TIMEOUT = 120  # seconds that a write waits for other processes before raising StoreBusyError
CREATION_LOCK = 0x534B4730
"""Advisory lock held while the tables are created, so that several processes can open a new server at once."""
ATTEMPT = 0.5
"""Seconds that one attempt to get a connection takes. Attempts are repeated until the caller's patience ends."""

TYPES = {"integer": "bigint", "number": "float8", "text": 'text COLLATE "C"', "vector": "vector", "bytes": "bytea"}
TYPES["words"] = "tsvector"  # the types of columns. Text is compared by bytes, not in the order of a language.
DISCONNECTIONS = psycopg.OperationalError, psycopg.InterfaceError, ReadOnlySqlTransaction
"""What a broken connection raises. After a failover, one may lead to a server that only reads."""

PAUSE = 0.1  # seconds before a call is repeated whose connection broke

_servers: dict[tuple[int, str], Server] = {}
_opening = threading.Lock()


def open_server(url: str) -> Server:
    """Return this process's connections to a database, and create the tables if there are none."""
    key = os.getpid(), url  # connections of a parent process are of no use after a fork
    with _opening:
        server = _servers.get(key)
        if server is None:
            _create_tables(url)
            server = _servers[key] = Server(url)
        server.graphs += 1
        return server


class Server:
    """The connections of this process to one database."""

    def __init__(self, url: str) -> None:
        self._url, self.graphs = url, 0
        self._pool = ConnectionPool(
            url,
            # Without names, because a prepared statement belongs to a session, and a pooler may change it.
            kwargs={"autocommit": True, "prepare_threshold": None, "connect_timeout": 10},
            min_size=0,
            max_size=CONNECTIONS,
            max_idle=60.0,
            reconnect_timeout=ATTEMPT,
            open=True,
        )

    @contextmanager
    def connection(self, patience: float) -> Iterator[Connection]:
        """Lend a connection, and raise errors of the server as ours. Wait up to `patience` seconds for a free one."""
        until = time.monotonic() + patience
        while True:
            try:
                connection = self._pool.getconn(timeout=ATTEMPT)
                break
            except PoolTimeout as error:
                if time.monotonic() > until:
                    raise StorageError(
                        f"{without_password(self._url)} gave no connection within {patience:.0f} seconds",
                        fix="check that the server is running; acknowledged writes are safe",
                    ) from error
        try:
            with server_errors(connection):
                yield connection
        finally:
            self._pool.putconn(connection)

    @contextmanager
    def transaction(self, patience: float, settings: str) -> Iterator[Connection]:
        """Commit at the end of the block, or roll back on an exception. `settings` hold for this transaction only."""
        with self.connection(patience) as connection:
            committing = False
            try:
                with connection.transaction():
                    connection.execute(settings.encode())
                    yield connection
                    committing = True
            except DISCONNECTIONS as error:
                raise _failed(connection, error, unsure=committing) from error

    def retried(self, call: Callable[[], Answer], patience: float, *, repeatable: bool = True) -> Answer:
        """Return what a call returns, and repeat it for a while if its connection breaks. See `Store.retried`."""
        until = time.monotonic() + patience
        while True:
            try:
                return call()
            except DisconnectedError as error:
                if (error.unsure and not repeatable) or time.monotonic() > until:
                    raise
            time.sleep(PAUSE)
            # After a restart of the server, the idle connections are broken too.
            with contextlib.suppress(PoolTimeout):
                self._pool.check()

    def release(self) -> None:
        with _opening:
            self.graphs -= 1
            if not self.graphs:
                _servers.pop((os.getpid(), self._url), None)
                self._pool.close()


def answers_of(
    connection: Connection, settings: str, queries: Sequence[tuple[bytes, Sequence[Any]]]
) -> list[list[tuple[Any, ...]]]:
    """Return the rows of each query. They travel as one message, and so do their answers. The values become literals,
    because the server takes several statements in a message only without parameters. Of a pipeline, psycopg sends and
    fetches each statement by itself, which takes more time than it saves. Outside a transaction, the message is one by
    itself, for which `settings` hold."""
    alone = connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    cursor = psycopg.ClientCursor(connection)
    statements = [cursor.mogrify(sql, values) for sql, values in queries]
    cursor.execute(";\n".join([settings, *statements] if alone else statements).encode())
    found = []
    more: bool | None = bool(cursor.nextset()) if alone else True
    while more:
        found.append(cursor.fetchall() if cursor.description else [])
        more = cursor.nextset()
    return found


@contextmanager
def server_errors(connection: Connection) -> Iterator[None]:
    """Raise errors of the server as ours."""
    try:
        yield
    except LockNotAvailable as error:
        problem = "another process has held the graph for too long"
        raise StoreBusyError(problem, fix="end the process that hangs in a transaction, then try again") from error
    except DISCONNECTIONS as error:
        raise _failed(connection, error) from error
    except psycopg.Error as error:
        problem = f"the server refused: {str(error).strip()}"
        raise SkillGraphError(problem, fix="change the input; nothing of it was stored") from error


def _failed(connection: Connection, error: Exception, *, unsure: bool = False) -> StorageError:
    if isinstance(error, ReadOnlySqlTransaction):
        connection.close()
    what = f"the server failed: {str(error).strip()}"
    if not connection.closed:
        return StorageError(what, fix="repeat the call; acknowledged writes are safe")
    return DisconnectedError(what, unsure=unsure)


def _create_tables(url: str) -> None:
    """Check whose schema a database has, and create ours if there is none."""
    shown = without_password(url)
    try:
        connection = psycopg.connect(url, autocommit=True, connect_timeout=20, prepare_threshold=None)
        with contextlib.closing(connection), connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}s'")
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (CREATION_LOCK,))
            there = "SELECT to_regnamespace('skillgraph'), to_regclass('skillgraph.format')"
            ((schema, table),) = connection.execute(there).fetchall()
            if schema is None:
                connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
                connection.execute("CREATE SCHEMA skillgraph")
                connection.execute("CREATE TABLE skillgraph.format (version integer NOT NULL)")
                numbered = "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
                for sql in create_statements(TYPES, numbered=numbered, prefix="skillgraph."):
                    connection.execute(sql.encode())
                connection.execute("INSERT INTO skillgraph.format VALUES (%s)", (VERSION,))
            elif table is None:
                problem = f"{shown} has a schema skillgraph that belongs to another program"
                raise StoreRefusedError(problem, fix="choose another database")
            ((version,),) = connection.execute("SELECT version FROM skillgraph.format").fetchall()
            if version != VERSION:
                what = f"format {version}, this version reads {VERSION}"
                raise StoreRefusedError(
                    f"{shown} was written by another version of agentfw ({what})",
                    fix="pip install --upgrade agentfw, or import an export of that version into a new database",
                )
    except psycopg.OperationalError as error:  # also one that crashes meanwhile
        reason = str(error).strip().splitlines()[-1]
        fix = "check that the server is running, and the address and user name"
        raise StorageError(f"{shown} can't be reached: {reason}", fix=fix) from None
    except psycopg.Error as error:
        fix = "install pgvector (CREATE EXTENSION vector), and use a role that may create a schema"
        raise StoreRefusedError(f"{shown} can't hold skill graphs: {str(error).strip()}", fix=fix) from None


def without_password(url: str) -> str:
    try:
        parts = urlsplit(url)
        return f"postgresql://{parts.hostname or 'localhost'}{f':{parts.port}' if parts.port else ''}{parts.path}"
    except ValueError:
        return "the address"
