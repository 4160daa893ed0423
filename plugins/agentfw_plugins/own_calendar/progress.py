"""A sign of life on stderr from anything that takes more than two seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from agentfw.out import Out

__all__ = ["Progress"]

_SILENT = 2.0
_EVERY_ON_TERMINAL, _EVERY_ELSEWHERE = 0.2, 10.0
"""Seconds between two lines. A terminal replaces one by the next; a log keeps all of them."""


class Progress:
    """Counts steps. Nothing is printed during the first two seconds."""

    def __init__(self, what: str, total: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.what, self.total, self.done, self._clock = what, total, 0, clock
        self._next = clock() + _SILENT
        self._shown = False

    def step(self) -> None:
        self.done += 1
        if self._clock() >= self._next:
            at_terminal = sys.stderr.isatty()
            self._next = self._clock() + (_EVERY_ON_TERMINAL if at_terminal else _EVERY_ELSEWHERE)
            self._shown = True
            text = f"{self.what}: {self.done:,} of {self.total:,}"
            (Out().progress if at_terminal else Out().note)(text)

    def end(self) -> None:
        if self._shown:
            Out().progress("")
