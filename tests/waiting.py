"""Waits for what another process or thread does soon."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
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
