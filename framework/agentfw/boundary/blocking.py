"""Names the component that keeps a run from going on, and ends the run where it does so for too long.

The episodes of a run share one event loop. A plugin that computes or waits without `await` stops all of them, and no
deadline of a call can end that, because deadlines need the loop, too.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from ...errors import PluginError
from ...host.loop_watch import LoopWatch
from ..plugin_calls import own_frame, place, running_call
from .creation import Calling, Guard

__all__ = ["GiveUp", "watched"]

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
