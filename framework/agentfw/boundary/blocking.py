"""Names the component that keeps a run from going on, and ends the run where it does so for too long.

The episodes of a run share one event loop. A plugin that computes or waits without `await` stops all of them, and no
deadline of a call can end that, because deadlines need the loop, too.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType, TracebackType

from ..errors import PluginError
from .guard import Calling
from .plugin_calls import own_frame, place, running_call

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

    def blocked(frame: FrameType, seconds: float) -> None:
        call, at = running_call(loop), own_frame(frame)
        if not isinstance(call, Calling) or at is None or call.guard.kind in UNLIMITED:
            return
        guard, where = call.guard, f"{call.call}, {place(at)}" if call.call else place(at)
        text = f"has kept the run from going on for {seconds:g} s: {where}"
        if seconds < deadline:
            sys.stderr.write(f"{guard.title} {text}\n")
        elif give_up is not None:
            give_up(guard.error(text, f"{guard.mend}, or give it more time: --set deadline=SECONDS"))

    with ExitStack() as stack:
        stack.enter_context(LoopWatch(min(NOTED_SECONDS, deadline / 2), blocked))
        if deadline < float("inf"):
            stack.enter_context(LoopWatch(deadline, blocked))
        yield


class LoopWatch:
    """Calls `blocked`, from a thread of its own, each time the loop hasn't had a turn for `seconds`.

    Nothing in the loop itself can tell, so a thread looks at it from outside.
    """

    def __init__(self, seconds: float, blocked: Callable[[FrameType, float], object]) -> None:
        self._seconds, self._blocked = seconds, blocked
        self._done = threading.Event()

    def __enter__(self) -> LoopWatch:
        self._loop, self._watched = asyncio.get_running_loop(), threading.get_ident()
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
            if not turn.wait(self._seconds) and not self._done.is_set():
                frame = sys._current_frames().get(self._watched)
                if frame is not None:
                    self._blocked(frame, self._seconds)
                turn.wait()
