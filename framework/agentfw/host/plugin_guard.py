"""Guards calls into plugin code: what plugins print goes to stderr, and slow imports are reported by name.

stdout carries only our own data, whatever a plugin does while it is imported or called.

    with stdout_to_stderr() as moved, SlowImportWatch(2.0) as watch:
        watch.current = "plugin notes of agentfw-notes"
        ...
    moved.used      # True where something was printed
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import TextIO, cast

__all__ = ["MovedStdout", "SlowImportWatch", "stdout_to_stderr"]


class MovedStdout:
    """Stands in for `sys.stdout` and writes to whatever `sys.stderr` is then; a plugin may keep it and use it later."""

    def __init__(self) -> None:
        self.used = False

    def write(self, text: str) -> int:
        self.used = True
        return sys.stderr.write(text)

    def __getattr__(self, name: str) -> object:
        return getattr(sys.stderr, name)


@contextlib.contextmanager
def stdout_to_stderr() -> Iterator[MovedStdout]:
    """Send what is printed to stderr, and put stdout back even where the plugin replaced it."""
    moved = MovedStdout()
    with contextlib.redirect_stdout(cast(TextIO, moved)):
        yield moved


class SlowImportWatch:
    """A thread that writes one line to stderr when `current` stays the same for longer than `after` seconds.

    One thread for all imports, asleep most of the time: a timer for each plugin would cost more than a small plugin
    does.
    """

    def __init__(self, after: float) -> None:
        self.current: str | None = None
        self._after = after
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="agentfw-slow-import-watch", daemon=True)

    def __enter__(self) -> SlowImportWatch:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        parts = 4  # it looks four times in each span, so the line comes at most a quarter of it late
        seen, looks = self.current, 0
        while not self._done.wait(self._after / parts):
            if self.current != seen:
                seen, looks = self.current, 0
                continue
            looks += 1
            if seen is not None and looks == parts:
                sys.stderr.write(f"still importing {seen}\n")
                sys.stderr.flush()
