"""The databases that a skill graph can be kept in, found by the scheme of an address.

A path, `sqlite://` and `postgresql://` are known here. A further store is a class derived from `Store` (sql.py),
named by its distribution in the entry-point group `agentfw_memory.stores`, with its scheme as the name:

    [project.entry-points."agentfw_memory.stores"]
    mystore = "my_package.store:MyStore"

`agentfw_memory.testing` has what every store has to do, as tests that a further one can run.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import re
from functools import lru_cache
from pathlib import Path

from ...errors import StoreRefusedError
from .sql import Store, create_statements
from .store import TABLES, Insert

__all__ = ["GROUP", "TABLES", "Insert", "Store", "create_statements", "store_class"]

GROUP = "agentfw_memory.stores"  # the group of entry points in which distributions name further stores
_KNOWN = {
    "": "agentfw_memory.graph.stores.sqlite:SqliteStore",
    "sqlite": "agentfw_memory.graph.stores.sqlite:SqliteStore",
    "postgresql": "agentfw_memory.graph.stores.postgres:PostgresStore",
    "postgres": "agentfw_memory.graph.stores.postgres:PostgresStore",
}
_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+)://")


@lru_cache(maxsize=1_000)
def store_class(where: str | Path) -> type[Store]:
    """Return the class of the store at a path or an address."""
    found = _SCHEME.match(where) if isinstance(where, str) else None
    scheme = found[1].lower() if found else ""
    if scheme in _KNOWN:
        module, _, name = _KNOWN[scheme].partition(":")
        known: type[Store] = getattr(importlib.import_module(module), name)
        return known
    points = importlib.metadata.entry_points(group=GROUP)
    for point in points:
        if point.name == scheme:
            installed: type[Store] = point.load()
            return installed
    schemes = sorted({*filter(None, _KNOWN), *(point.name for point in points)})
    fix = f"use a path or one of {', '.join(f'{one}://' for one in schemes)}, or install the package with that store"
    raise StoreRefusedError(f'no installed store has the scheme "{scheme}://"', fix=fix)
