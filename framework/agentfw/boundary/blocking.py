"""Names the component that keeps a run from going on, and ends the run where it does so for too long.

The episodes of a run share one event loop. A plugin that computes or waits without `await` stops all of them, and no
deadline of a call can end that, because deadlines need the loop, too.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType, TracebackType

from ..errors import PluginError
from .guard import Calling, Guard
from .plugin_calls import own_frame, place, running_call

__all__ = ["GiveUp", "LoopWatch", "watched"]

GiveUp = Callable[[PluginError], object]
"""Ends the run with an error, from another thread."""

NOTED_SECONDS = 10.0
"""Seconds after which the user is told which component blocks the run."""
UNLIMITED = ("learner", "optimizer")
"""The kinds whose calls may take as long as they need."""


@contextmanager
def watched(deadline: float, give_up: GiveUp | None) -> Iterator[None]:
    """Watch the event loop that runs here."""
    loop = asyncio.get_running_loop()

    def note(frame: FrameType, seconds: float) -> None:
        if found := _culprit(loop, frame):
            guard, text = found
            sys.stderr.write(f"{guard.title} has kept the run from going on for {seconds:g} s: {text}\n")

    def end(frame: FrameType, seconds: float) -> None:
        if give_up is not None and (found := _culprit(loop, frame)):
            guard, text = found
            give_up(
                guard.error(
                    f"has kept the run from going on for {seconds:g} s: {text}",
                    f"{guard.mend}, or give it more time: --set deadline=SECONDS",
                )
            )

    with ExitStack() as stack:
        stack.enter_context(LoopWatch(min(NOTED_SECONDS, deadline / 2), note))
        if deadline < float("inf"):
            stack.enter_context(LoopWatch(deadline, end))
        yield


def _culprit(loop: asyncio.AbstractEventLoop, frame: FrameType) -> tuple[Guard, str] | None:
    """The component whose call has the turn, and where its code is."""
    call, at = running_call(loop), own_frame(frame)
    if not isinstance(call, Calling) or at is None or call.guard.kind in UNLIMITED:
        return None
    return call.guard, f"{call.call}, {place(at)}" if call.call else place(at)


class LoopWatch:
    """Calls `told`, from a thread of its own, each time the loop hasn't had a turn for `seconds`.

    Nothing in the loop itself can tell, so a thread looks at it from outside.
    """

    def __init__(self, seconds: float, told: Callable[[FrameType, float], object]) -> None:
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
