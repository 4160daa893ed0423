"""Overwrites what deleted rows leave in the files of a PostgreSQL server, without locking anybody out.

PostgreSQL marks deleted rows as free and leaves their bytes until something else is written there. So after a deletion

1. VACUUM makes the space free. It can't while a transaction is open that began before the deletion.
2. Rows of random bytes are inserted until the tables grow, which fills all free space, and are rolled back.
3. Indexes that hold names or words are made anew beside the old ones.

None of this waits for readers or writers of the tables, or makes them wait. The free space of other tenants is filled
too, so it takes longer in a database with much of it. The write-ahead log, replicas and backups are out of reach.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentfw_memory.errors import SkillGraphError
from agentfw_memory.graph.stores.postgres_server import Server
from agentfw_memory.graph.stores.tables import TABLES

if TYPE_CHECKING:
    from agentfw_memory.graph.stores.postgres_server import Connection

TEXT = (
    "(SELECT left(string_agg(md5(random()::text || g), ''), {size}) FROM generate_series(0, {size} / 32) g WHERE n > 0)"
)
VECTOR = "(SELECT array_agg(random() * g)::real[]::vector FROM generate_series(1, {size} / 4 + 1) g WHERE n > 0)"
FILLED = {
    "version": (
        "number, ordinal, owner, text, visibility, valid_from, recorded_at, metadata",
        f"n, 0, 0, {TEXT}, '', 0, 0, NULL",  # NULL takes no room, so a row fits into smaller gaps
    ),
    "node": ("number, kind, name, recorded_at", "n, '', n::text, 0"),
    "trajectory": ('number, "user", query, outcome, reward', f"n, 0, {TEXT}, '', 0"),
    "profile": ('"user", changed, text, vector', f"n, 0, {TEXT}, '[0]'"),
    "live": ("number, changed, owner, shared, digest, valid_from, vector, words", f"n, 0, n, 0, '', 0, {VECTOR}, NULL"),
    "staged": ("number, embedder, vector", f"n, '', {VECTOR}"),
    "state": ("name, value", f"n::text, convert_to({TEXT}, 'UTF8')"),
}
"""The tables that hold what people said, with the columns and values of a row of random bytes. It is nobody's: its
tenant is -1."""
SIZES = (7000, 3500, 3000, 2500, 2200, 2040, 1900, 1500, 1000, 500, 200, 100, 50, 1)
"""Bytes of the rows, falling, so that small gaps are filled too. From 2,040 they are cut into pieces of 2,000 (TOAST),
the last of which has what is left."""
NAMES = "node_kind_name"
LIMIT = 600.0
"""Seconds after which a single statement is given up."""
PAUSE = 0.05

logger = logging.getLogger(__name__)


def erase(server: Server, tenant: int, patience: float) -> None:
    """Overwrite what was deleted in this database."""
    settled = _wait_for_older(server, patience)
    if not settled:
        logger.warning(
            "deleted rows stay in the files for now, because a transaction is open that began before the deletion; "
            "end it and call forget again"
        )
    for table in TABLES:
        # Cutting off the end of a file would lock the table.
        _alone(server, f"VACUUM (TRUNCATE false, INDEX_CLEANUP on) skillgraph.{table}", patience)
    for table in FILLED:
        _fill(server, table, patience)
    for index in (NAMES, f"live_words_{tenant}") if settled else ():
        _remake(server, index, patience)


def _wait_for_older(server: Server, patience: float) -> bool:
    """Wait for transactions that may still read what was deleted. Return False if some are left."""
    sql = (
        "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database() AND "
        "greatest(age(backend_xid), age(backend_xmin)) >= age(%s::text::xid)"
    )
    until = time.monotonic() + patience
    with server.connection(patience) as connection:
        (now,) = connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text").fetchone() or (0,)
    while True:
        with server.connection(patience) as connection:
            (older,) = connection.execute(sql, (now,)).fetchone() or (0,)
        if not older or time.monotonic() > until:
            return not older
        time.sleep(PAUSE)


def _fill(server: Server, table: str, patience: float) -> None:
    """Fill the free space of a table with random bytes, and take them back."""
    columns, values = FILLED[table]
    size_of = (
        "SELECT pg_relation_size(oid) + CASE reltoastrelid WHEN 0 THEN 0 ELSE pg_relation_size(reltoastrelid) END "
        f"FROM pg_class WHERE oid = 'skillgraph.{table}'::regclass"
    )
    first = random.randrange(2**60)
    with server.connection(patience) as connection, connection.transaction(force_rollback=True):

        def size() -> int:
            return int((connection.execute(size_of.encode()).fetchone() or (0,))[0])

        for bytes_ in SIZES if "{size}" in values else SIZES[-1:]:
            count, before = 16, size()
            while size() == before:
                last = first + count
                sql = f"INSERT INTO skillgraph.{table} (tenant, {columns}) SELECT -1, {values.format(size=bytes_)} "
                connection.execute(f"{sql} FROM generate_series({first}::bigint, {last}) n".encode())
                first, count = last + 1, min(2 * count, 4096)


def _remake(server: Server, index: str, patience: float) -> None:
    """Make an index anew beside the old one. It keeps the words of deleted rows, which a vacuum doesn't change."""
    find = "SELECT to_regclass(%s) IS NOT NULL"
    with server.connection(patience) as connection:
        (there,) = connection.execute(find, (f"skillgraph.{index}",)).fetchone() or (False,)
    if not there:
        return
    _alone(server, f"DROP INDEX IF EXISTS skillgraph.{index}_ccnew", patience)  # of a call that was interrupted
    try:
        _alone(server, f"REINDEX INDEX CONCURRENTLY skillgraph.{index}", patience)
    except SkillGraphError as error:
        logger.warning("deleted names and words stay in the index %s for now; call forget again: %s", index, error)


def _alone(server: Server, sql: str, patience: float) -> None:
    """Execute a statement that can't be in a transaction."""
    with server.connection(patience) as connection, _limited(connection):
        connection.execute(sql.encode())


@contextmanager
def _limited(connection: Connection) -> Iterator[None]:
    """Cancel what takes too long. A timeout of the server's would be a setting of the session."""
    timer = threading.Timer(LIMIT, connection.cancel)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
