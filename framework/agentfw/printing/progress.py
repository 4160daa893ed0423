"""A sign of life from whatever takes long: a line that is replaced on a terminal, and one every ten seconds elsewhere.

    with out.progress("reading the runs") as tell:
        for number, run in enumerate(runs, start=1):
            tell(f"reading the runs: {number} of {len(runs)}")

A thread of its own prints it, so it also comes while a single step takes minutes.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

__all__ = ["Progress"]

_FIRST_ON_TERMINAL, _EVERY_ON_TERMINAL = 2.0, 0.2
_EVERY_ELSEWHERE = 10.0
"""Seconds. A terminal replaces a line by the next; a log keeps all of them."""


class Progress:
    """Prints what its block is doing, and for how long, to stderr."""

    def __init__(self, doing: str | Callable[[], str], *, quiet: bool = False) -> None:
        self.doing, self.quiet = doing, quiet
        self._on_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._every = _EVERY_ON_TERMINAL if self._on_terminal else _EVERY_ELSEWHERE
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep_telling, name="agentfw-progress", daemon=True)
        self._shown = False

    def __call__(self, doing: str) -> None:
        """Replace the text."""
        self.doing = doing

    def told(self) -> None:
        """Postpone the next line, because something else was just printed."""
        self._due = time.monotonic() + self._every

    def __enter__(self) -> Progress:
        self._began = time.monotonic()
        self._due = self._began + (_FIRST_ON_TERMINAL if self._on_terminal else self._every)
        if not self.quiet:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if not self.quiet:
            self._thread.join()
        if self._shown and self._on_terminal:
            self._print("\r\x1b[K", end="")

    def _keep_telling(self) -> None:
        while not self._over.wait(max(0.0, self._due - time.monotonic())):
            if time.monotonic() >= self._due:
                self.told()
                self._shown = True
                doing = self.doing if isinstance(self.doing, str) else self.doing()
                line = f"{doing}   {time.monotonic() - self._began:.0f} s"
                self._print(f"\r\x1b[K{line}" if self._on_terminal else line, end="" if self._on_terminal else "\n")

    def _print(self, text: str, end: str) -> None:
        with suppress(OSError, ValueError):  # where stderr is full or closed, nobody can be told
            print(text, end=end, file=sys.stderr, flush=True)
