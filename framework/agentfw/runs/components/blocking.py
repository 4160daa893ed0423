"""Names the component that keeps a run from going on, and ends the run where it does so for too long.

The episodes of a run share one event loop. A plugin that computes or waits without `await` stops all of them, and no
deadline of a call can end that, because deadlines need the loop, too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

from ...errors import PluginError
from ...host.loop_watch import LoopWatch, place
from .creation import Guard

__all__ = ["GiveUp", "watched"]

GiveUp = Callable[[PluginError], object]
"""Ends the run with an error, from another thread."""

NOTED_SECONDS = 10.0
"""After so long somebody who waits is told for whom."""


@contextmanager
def watched(owners: dict[str, Guard], deadline: float, give_up: GiveUp | None) -> Iterator[None]:
    """Watch the event loop. `owners` has the module of each component that shouldn't block it."""

    def note(frame: FrameType, seconds: float) -> None:
        if found := _owner(owners, frame):
            guard, at = found
            sys.stderr.write(f"{guard.title} has kept the run from going on for {seconds:g} s: {place(at)}\n")

    def end(frame: FrameType, seconds: float) -> None:
        if give_up is not None and (found := _owner(owners, frame)):
            guard, at = found
            give_up(
                guard.error(
                    f"has kept the run from going on for {seconds:g} s: {place(at)}",
                    f"tell the authors of {guard.distribution}, or give it more time: --set deadline=SECONDS",
                )
            )

    with ExitStack() as stack:
        stack.enter_context(LoopWatch(min(NOTED_SECONDS, deadline / 2), note))
        if deadline < float("inf"):
            stack.enter_context(LoopWatch(deadline, end))
        yield


def _owner(owners: dict[str, Guard], frame: FrameType | None) -> tuple[Guard, FrameType] | None:
    """The component whose code runs, and where; the innermost of several."""
    while frame is not None:
        guard = owners.get(frame.f_globals.get("__name__", ""))
        if guard is not None:
            return guard, frame
        frame = frame.f_back
    return None
