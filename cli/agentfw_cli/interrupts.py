"""Runs a coroutine that one Ctrl-C or SIGTERM ends within two seconds, whatever its plugins do.

asyncio acts on Ctrl-C when the event loop gets its turn again. A world that computes for an hour, or a memory that
waits in a blocking call, doesn't give it that turn. So what runs at that moment is cut short, and the rest is
cancelled. What holds on to that is left behind (ending.py).

    summary = run_until_interrupted(lambda give_up: run.execute(observer, give_up), take_leave)
"""

from __future__ import annotations

import asyncio
import inspect
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from agentfw.boundary.coroutines import use_daemon_threads
from agentfw.errors import PluginError
from agentfw_cli.ending import SIGNALS, Interrupted, TakeLeave, ended_by_signals, told

if TYPE_CHECKING:
    from types import FrameType

Result = TypeVar("Result")
GiveUp = Callable[[Exception], object]


def run_until_interrupted(work: Callable[[GiveUp], Coroutine[Any, Any, Result]], take_leave: TakeLeave) -> Result:
    """The result of `work`. Where a signal came, Interrupted, and everything that `work` had opened is closed.

    `work` is given a function that ends it with an error, from another thread and wherever it is. `take_leave` is
    called where the process ends at once, because something holds on.
    """
    came: list[int] = []
    failing: list[Exception] = []
    failed: list[Exception] = []

    def give_up(error: Exception) -> None:
        failing.append(error)
        if hasattr(signal, "pthread_kill"):  # a signal is what ends a call that waits in the operating system
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)

    def reason(number: int) -> BaseException:
        return next(iter((*failed, *failing)), None) or Interrupted(number)

    async def main() -> Result:
        use_daemon_threads()
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(
            lambda loop, left: told(left.get("exception")) or loop.default_exception_handler(left)
        )

        def interrupt(number: int, frame: FrameType | None) -> None:
            if failing:
                failed.append(failing.pop())
            else:
                came.append(number)
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
        with ended_by_signals(take_leave, reason):
            return asyncio.run(main())
    except (asyncio.CancelledError, PluginError) as error:
        if came:
            raise Interrupted(came[0]) from None
        if isinstance(error, PluginError):
            raise
        if failed:
            raise failed[-1] from None
        raise PluginError(
            "a plugin has cancelled the run from inside",
            fix="a plugin must cancel no tasks but its own: tell its authors, or leave it out with --no-plugin NAME",
        ) from None


@contextmanager
def _handled_by(interrupt: Any) -> Iterator[None]:
    # Under nohup and in the background of a script SIGINT is ignored, and stays so.
    numbers = [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
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
