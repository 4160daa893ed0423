"""The databases that a skill graph can be kept in: a SQLite file or a PostgreSQL server.

To add a store, write a module here whose class implements `Store` (interface.py), choose it in `open_store` and
`list_tenants` below, and add it to STORES in tests/memory/test_skill_graph_store.py. An SQL database derives from
`SqlStore` and only supplies its connection and its dialect, as sqlite_store.py and postgres_store.py do.

| module | what it holds |
| --- | --- |
| interface.py | `Store`, the protocol, and the rows it takes and returns |
| sql_rows.py | statements that read and write skills, edges and nodes |
| sql_store.py | forgetting a user, re-embedding, export and import |
| sqlite_store.py, sqlite_file.py | SQLite: the dialect; tables, locking and file checks |
| postgres_store.py, postgres_server.py | PostgreSQL: the dialect; tables and the connection |
"""

from __future__ import annotations

import time
from pathlib import Path

from agentfw_memory.graph.graph_settings import GraphSettings
from agentfw_memory.graph.stores.interface import Clock, Store
from agentfw_memory.graph.stores.postgres_store import PostgresStore
from agentfw_memory.graph.stores.sqlite_store import SqliteStore
from agentfw_memory.graph.validation import check_name

__all__ = ["list_tenants", "open_store"]


def open_store(
    where: str | Path, *, tenant: str, settings: GraphSettings | None = None, clock: Clock = time.time
) -> Store:
    """Open or create a tenant's store, in a file or at a `postgresql://` URL."""
    check_name("tenant", tenant)
    chosen = settings or GraphSettings()
    if _is_postgres(where):
        return PostgresStore.open(str(where), tenant=tenant, clock=clock, patience=chosen.patience)
    return SqliteStore.open(where, tenant=tenant, power_safe=chosen.power_safe, clock=clock)


def list_tenants(where: str | Path) -> list[str]:
    """Return the names of the tenants in a file or database."""
    return PostgresStore.tenants(str(where)) if _is_postgres(where) else SqliteStore.tenants(where)


def _is_postgres(where: str | Path) -> bool:
    return isinstance(where, str) and where.startswith("postgresql://")
