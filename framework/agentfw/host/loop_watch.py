"""Notices code that keeps an event loop busy, and says where it is.

A call that computes or waits without `await` stops everything that shares the loop: other episodes, timeouts, Ctrl-C.
Nothing in the loop itself can tell, so a thread looks at it from outside.

    with LoopWatch(10.0, lambda frame, seconds: print(where(frame))):
        await recall()
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType

__all__ = ["LoopWatch"]

Told = Callable[[FrameType, float], object]


class LoopWatch:
    """Calls `told`, from a thread of its own, each time the loop hasn't had a turn for `seconds`."""

    def __init__(self, seconds: float, told: Told) -> None:
        self._seconds, self._told = seconds, told
        self._done = threading.Event()

    def __enter__(self) -> LoopWatch:
        self._loop, self._watched = asyncio.get_running_loop(), threading.current_thread()
        threading.Thread(target=self._watch, name="agentfw-loop-watch", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._done.set()

    def _watch(self) -> None:
        while not self._done.wait(self._seconds / 4):
            turn = threading.Event()
            try:
                self._loop.call_soon_threadsafe(turn.set)
            except RuntimeError:  # the loop is closed
                return
            if not self._answered(turn):
                frame = sys._current_frames().get(self._watched.ident or 0)
                if frame is not None:
                    self._told(frame, self._seconds)
                turn.wait()

    def _answered(self, turn: threading.Event) -> bool:
        """Whether the loop got its turn in time. Time that its thread didn't get from a busy machine doesn't count."""
        until, used = time.monotonic() + self._seconds, _cpu_time(self._watched)
        while not turn.wait(max(0.01, until - time.monotonic())):
            if self._done.is_set():
                return True
            if not _starves(self._watched) or _cpu_time(self._watched) - used >= self._seconds / 2:
                return False
            until = time.monotonic() + 0.1
        return True


def _starves(thread: threading.Thread) -> bool:
    """Whether a thread could go on and only waits for a processor. False where the system doesn't say."""
    try:
        text = Path(f"/proc/self/task/{thread.native_id}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] == "R"


def _cpu_time(thread: threading.Thread) -> float:
    """The processor time that a thread has used, or 0.0 where the system doesn't say."""
    if not hasattr(time, "pthread_getcpuclockid") or thread.ident is None or not thread.is_alive():
        return 0.0
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))
