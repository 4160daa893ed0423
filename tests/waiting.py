"""Waits for what another process or thread does soon."""

from __future__ import annotations

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
