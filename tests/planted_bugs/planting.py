"""How a bug is planted: in a good component, with the promise of its contract that has to notice it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Bug(NamedTuple):
    promise: str
    """The check that has to fail, by its name."""
    make: Callable[[], Any]


def bug(promise: str, good: type, /, **changes: Any) -> Bug:
    """A class with a bug. `changes` are attributes and methods that it has instead of those of a good one."""
    return Bug(promise, type(f"Bad{good.__name__}", (good,), changes) if changes else good)
