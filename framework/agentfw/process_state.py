"""Puts back what belongs to the whole process, where a plugin has changed it: the working directory, signal handlers,
the policy of event loops, the module search path.

with unchanged_process() as changed:
    entry_point.load()
changed     # ["the working directory"]
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
from _signal import getsignal  # type: ignore[import-not-found]  # that of `signal` spends a hundred times as much on making enums
from collections.abc import Iterator
from typing import Any

__all__ = ["ProcessState", "unchanged_process"]


class ProcessState:
    """The working directory and the signal handlers as they are now."""

    def __init__(self) -> None:
        self._folder, self._handlers, self._policy = _working_folder(), _handlers(), _event_loop_policy()
        self._path = list(sys.path)

    def put_back(self) -> list[str]:
        """Put back what has changed since, and say what that was."""
        changed = []
        if self._folder and _working_folder() != self._folder:
            os.chdir(self._folder)
            changed.append("the working directory")
        for number, handler in self._handlers.items():
            if getsignal(number) != handler:
                signal.signal(number, handler)
                changed.append(f"the handler of {number.name}")
        if _event_loop_policy() is not self._policy:
            asyncio.set_event_loop_policy(self._policy)
            changed.append("the policy of event loops")
        if sys.path != self._path and (gone := [place for place in self._path if place not in sys.path]):
            sys.path += gone  # what was added may stay
            changed.append("the module search path")
        return changed


@contextlib.contextmanager
def unchanged_process() -> Iterator[list[str]]:
    """Put everything back after the block. The list says afterwards what had been changed."""
    changed: list[str] = []
    state = ProcessState()
    try:
        yield changed
    finally:
        changed += state.put_back()


def _working_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was deleted
        return ""


def _event_loop_policy() -> Any:
    """The public function would make one where there is none."""
    return getattr(asyncio.events, "_event_loop_policy", None)


def _handlers() -> dict[signal.Signals, Any]:
    """The handlers that can be put back: those of Python, and only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    found = {number: getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    return {number: handler for number, handler in found.items() if handler is not None}
