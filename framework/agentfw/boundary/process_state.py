"""Puts back what belongs to the whole process, where a plugin has changed it: the working directory, signal handlers,
a timer, the policy of event loops, the module search path, stdout and stderr, and functions that everything here needs.

with unchanged_process() as changed:
    entry_point.load()
changed     # ["the working directory"]
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import json
import os
import signal
import sys
import threading
import time
from _signal import getitimer, getsignal  # type: ignore[import-not-found]  # those of `signal` spend much more on making enums
from collections.abc import Iterator
from types import ModuleType
from typing import Any

__all__ = ["ProcessState", "unchanged_process"]


_NEEDED = (builtins, json, time)
"""The modules without whose functions nothing could be recorded or told."""


class ProcessState:
    """The process as it is now."""

    def __init__(self) -> None:
        self._folder, self._handlers, self._policy = _working_folder(), _handlers(), _event_loop_policy()
        self._path, self._timed, self._excepthook = list(sys.path), _timed(), sys.excepthook
        self._needed = [(module, dict(vars(module))) for module in _NEEDED]
        self._files = {number: os.dup(number) for number in (1, 2) if _is_open(number)}

    def close(self) -> None:
        for copy in self._files.values():
            os.close(copy)

    def put_back(self) -> list[str]:
        """Put back what has changed since, and say what that was."""
        changed = []
        # First, and with as little of Python as possible: it may be what was replaced.
        for module, before in self._needed:
            changed += [f"{module.__name__}.{name}" for name in _put_back(module, before)]
        if self._folder and _working_folder() != self._folder:
            os.chdir(self._folder)
            changed.append("the working directory")
        for number, handler in self._handlers.items():
            if getsignal(number) != handler:
                signal.signal(number, handler)
                changed.append(f"the handler of {number.name}")
        if sys.excepthook is not self._excepthook:
            sys.excepthook = self._excepthook
            changed.append("sys.excepthook")
        if not self._timed and _timed():
            signal.setitimer(_TIMER, 0)
            changed.append("the timer of SIGALRM")
        for file, copy in self._files.items():
            if not _is_open(file):
                os.dup2(copy, file)
                changed.append("stdout" if file == 1 else "stderr")
        if (policy := _event_loop_policy()) is not self._policy and not _is_default(policy, self._policy):
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
        state.close()


def _working_folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # it was deleted
        return ""


def _event_loop_policy() -> Any:
    """The public function would make one where there is none."""
    return getattr(asyncio.events, "_event_loop_policy", None)


def _is_default(policy: Any, before: Any) -> bool:
    """Whether it is the one that asyncio itself makes where there is none."""
    return before is None and type(policy) is asyncio.DefaultEventLoopPolicy


_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGALRM") if hasattr(signal, name)]


_TIMER = int(getattr(signal, "ITIMER_REAL", -1))


def _timed() -> bool:
    """Whether SIGALRM is on its way, which ends the process where nobody handles it."""
    return _TIMER >= 0 and getitimer(_TIMER)[0] > 0.0


def _is_open(number: int) -> bool:
    try:
        os.get_inheritable(number)  # a fifth of the time of os.fstat
    except OSError:
        return False
    return True


def _put_back(module: ModuleType, before: dict[str, Any]) -> list[str]:
    """Put back what was replaced in a module. What is new in it may stay."""
    now = module.__dict__
    try:
        if now == before:
            return []
    except Exception:  # what was put there may refuse to be compared
        pass
    replaced = [name for name, value in before.items() if now.get(name, _ABSENT) is not value]
    now.update(before)
    before.update(now)
    return replaced


_ABSENT = object()


def _handlers() -> dict[signal.Signals, Any]:
    """The handlers that can be put back: those of Python, and only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    found = {number: getsignal(number) for number in _SIGNALS}
    return {number: handler for number, handler in found.items() if handler is not None}
