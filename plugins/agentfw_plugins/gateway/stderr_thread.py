"""Writes stderr from a thread, so that a gateway never waits for whoever reads it.

A pipe that nobody reads is full after 64 KB, and then whoever writes to it waits for ever. So what is written to
`sys.stderr` is kept until the thread has written it. Beyond a number of lines, others are dropped, and counted.

    with stderr_in_a_thread():
        ...
"""

from __future__ import annotations

import io
import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any, TextIO, cast

from agentfw.boundary.secrets import Pieces

logger = logging.getLogger(__name__)

MOST_WAITING = 10_000
"""Maximum number of lines that wait to be written."""
_LEAVES = 1.0
"""Seconds at the end for what is still waiting."""


class _WaitsForNobody:
    """Stands in for stderr."""

    def __init__(self, stream: TextIO) -> None:
        self._stream, self._descriptor = stream, stream.fileno()
        # Reentrant, as SimpleQueue is: the garbage collector may log something in the middle of a write.
        self._lock, self._begun = threading.RLock(), ""
        self._waiting = SimpleQueue[str | None]()
        self._dropped = 0
        # A daemon that writes to the descriptor: Python's own stream would be locked when the process ends.
        self.thread = threading.Thread(target=self._write_all, name="agentfw-stderr", daemon=True)
        self.thread.start()

    def write(self, text: str) -> int:
        with self._lock:
            self._begun += text
            if "\n" in text:
                self.flush()
        return len(text)

    def flush(self) -> None:
        with self._lock:
            line, self._begun = self._begun, ""
            if line and self._waiting.qsize() < MOST_WAITING:
                self._waiting.put(line)
            elif line:
                self._dropped += 1

    def end(self) -> bool:
        """Whether all that waited is written now."""
        self.flush()
        self._waiting.put(None)
        self.thread.join(_LEAVES)
        return not self.thread.is_alive()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _write_all(self) -> None:
        pieces = Pieces()
        while (line := self._waiting.get()) is not None:
            self._write(pieces.feed(line))
            if self._dropped and self._waiting.empty():  # there is room to say so
                with self._lock:
                    dropped, self._dropped = self._dropped, 0
                logger.warning("stderr was not read, so %d lines were dropped", dropped)
        self._write(pieces.end())

    def _write(self, text: str) -> None:
        content = text.encode(errors="backslashreplace")
        with suppress(OSError):  # where stderr is full or closed, nobody can be told
            while content:
                content = content[os.write(self._descriptor, content) :]


@contextmanager
def stderr_in_a_thread() -> Iterator[None]:
    """Write what goes to `sys.stderr` from a thread. Does nothing if it has no descriptor."""
    before = sys.stderr
    try:
        before.flush()
        stream = _WaitsForNobody(before)
    except (io.UnsupportedOperation, AttributeError):  # one in memory, or none at all
        yield
        return
    sys.stderr = cast(TextIO, stream)
    try:
        yield
    finally:
        # A pipe that is still full would keep the process from ending.
        if stream.end():
            sys.stderr = before
