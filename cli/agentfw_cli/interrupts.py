"""Runs a coroutine that Ctrl-C and SIGTERM end in good order, also while it keeps the event loop busy.

asyncio acts on the first Ctrl-C when the event loop gets its turn again. A world that computes for an hour, or a memory
that waits in a blocking call, doesn't give it that turn. So what runs at that moment is cut short, and the rest is
cancelled. The second signal ends the process at once.

    summary = run_until_interrupted(lambda give_up: run.execute(observer, give_up))
"""

from __future__ import annotations

import asyncio
import inspect
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from types import FrameType

__all__ = ["Interrupted", "run_until_interrupted"]

Result = TypeVar("Result")
GiveUp = Callable[[Exception], object]


class Interrupted(BaseException):
    """A signal came. No Exception, so that nothing takes it for the failure of a plugin."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.label = "terminated" if number == signal.SIGTERM else "interrupted"
        self.exit_code = 128 + number


def run_until_interrupted(work: Callable[[GiveUp], Coroutine[Any, Any, Result]]) -> Result:
    """The result of `work`. Where a signal came, Interrupted, and everything that `work` had opened is closed.

    `work` is given a function that ends it with an error, from another thread and wherever it is.
    """
    came: list[int] = []
    failing: list[Exception] = []
    failed: list[Exception] = []

    def give_up(error: Exception) -> None:
        failing.append(error)
        if hasattr(signal, "pthread_kill"):  # a signal is what ends a call that waits in the operating system
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    async def main() -> Result:
        loop = asyncio.get_running_loop()

        def interrupt(number: int, frame: FrameType | None) -> None:
            if failing:
                failed.append(failing.pop())
            else:
                came.append(number)
            if len(came) > 1:
                _leave(number)
            # An exception inside of asyncio could lose a wake-up, and whoever waits for it would wait for ever.
            busy = None if _in_asyncio(frame) else asyncio.current_task(loop)
            # All of them, not only `task`: those that are ready would have their turn before its cancellation.
            for each in asyncio.all_tasks(loop) - {busy}:
                each.cancel()
            loop.call_soon_threadsafe(lambda: None)  # wakes a loop that waits for something to happen
            if busy is not None:
                raise Interrupted(number) if came else failed[-1]

        with _handled_by(interrupt):
            return await work(give_up)

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        if came:
            raise Interrupted(came[0]) from None
        if failed:
            raise failed[-1] from None
        raise


@contextmanager
def _handled_by(interrupt: Any) -> Iterator[None]:
    # Under nohup and in the background of a script SIGINT is ignored, and stays so.
    numbers = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_asyncio(frame: FrameType | None) -> bool:
    """Whether the innermost coroutine, if any, has called a function of asyncio that hasn't returned yet."""
    while frame is not None and not frame.f_code.co_flags & inspect.CO_COROUTINE:
        if frame.f_globals.get("__name__", "").startswith("asyncio."):
            return True
        frame = frame.f_back
    return False


def _leave(number: int) -> None:
    """End the process now. Nothing that was acknowledged is lost: it is on disk."""
    if sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h")  # a live picture may have hidden the cursor
    sys.stderr.write("\nended at once\n")
    sys.stderr.flush()
    os._exit(128 + number)
