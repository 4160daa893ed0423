"""Other processes: what they do soon, whether they live, and where they listen."""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def until(holds: Callable[[], Any], told: Callable[[], object] = lambda: "it never did") -> Any:
    """Wait until something holds. Returns it. `told` says how things are if it never does."""
    end = time.monotonic() + 600
    while not (found := holds()):
        assert time.monotonic() < end, told()
        time.sleep(0.02)
    return found


def listens(port: int) -> bool:
    """Whether somebody listens at a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def free_port() -> int:
    """A port of this machine at which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def alive(pid: int) -> bool:
    """Whether a process goes on. One that nobody has waited for yet is as good as gone."""
    try:
        os.kill(pid, 0)
        stat = Path(f"/proc/{pid}/stat").read_text() if sys.platform.startswith("linux") else ""
    except (ProcessLookupError, FileNotFoundError):  # it may also end between the two
        return False
    return stat.rpartition(")")[2].split()[:1] != ["Z"]
