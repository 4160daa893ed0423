"""Runs a coroutine that Ctrl-C or SIGTERM ends in good order, and tells of what plugins leave behind in the process.

The first signal cancels the run, which closes what it has opened. What doesn't end by then, because a plugin keeps the
event loop busy or holds on to being cancelled, is named and left behind: after two seconds, or at the second signal.
Nothing that was acknowledged is lost by this, because it is on disk.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NoReturn, TypeVar

from agentfw.boundary.guard import hanging, use_daemon_threads
from agentfw.boundary.metadata import blame
from agentfw.boundary.output import data_stream
from agentfw.errors import Interruption, PluginError, in_words

Result = TypeVar("Result")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_PATIENCE = 2.0  # seconds that everything may take to end by itself after a signal
_LEAVING = 10.0
"""Seconds that Python may take to end. It waits for threads of plugins and runs what they registered with `atexit`."""
_codes: list[int] = []  # the exit code, once the command is over


class Interrupted(Interruption):
    """Ctrl-C or SIGTERM ended the run."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.label = "terminated" if number == signal.SIGTERM else "interrupted"
        self.exit_code = 128 + number


def run_until_interrupted(work: Coroutine[Any, Any, Result], take_leave: Callable[[Interrupted], object]) -> Result:
    """The result of `work`. At a signal, Interrupted is raised when everything that `work` had opened is closed; where
    something holds on, `take_leave` is called, and the process ends at once."""
    came: list[Interrupted] = []

    def leave() -> None:
        take_leave(came[0])
        for line in hanging():
            sys.stderr.write(f"left behind: {line}\n")
        end_process(came[0].exit_code)

    timer = threading.Timer(_PATIENCE, leave)
    timer.daemon = True

    async def main() -> Result:
        use_daemon_threads()
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        loop.set_exception_handler(
            lambda loop, about: _told(about.get("exception")) or loop.default_exception_handler(about)
        )

        def interrupt(number: int, frame: object) -> None:
            came.append(Interrupted(number))
            if len(came) > 1:
                leave()
            timer.start()
            loop.call_soon_threadsafe(task.cancel)

        is_main = threading.current_thread() is threading.main_thread()
        # Under nohup and in the background of a script SIGINT is ignored, and stays so.
        numbers = [number for number in _SIGNALS if is_main and signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, interrupt) for number in numbers}
        try:
            return await work
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    try:
        return asyncio.run(main())
    except (asyncio.CancelledError, PluginError) as error:
        if came:
            raise came[0] from None
        if isinstance(error, PluginError):
            raise
        raise PluginError(
            "a plugin has cancelled the run from inside",
            fix="a plugin must cancel no tasks but its own: tell its authors, or leave it out with --no-plugin NAME",
        ) from None
    finally:
        timer.cancel()


def tell_of_leftovers() -> None:
    """Report on one line what a plugin raises in a thread or a `__del__`, where nobody can catch it."""

    def leave_printing_threads() -> None:
        # Python stops a thread that isn't ours wherever it is. If it is printing just then, nobody else can, and Python
        # aborts. So the process is ended before that.
        if _codes and any(one.daemon and not one.name.startswith("agentfw") for one in threading.enumerate()):
            end_process(_codes[-1])

    atexit.register(leave_printing_threads)  # the first that registers is called last, when all others were
    sys.unraisablehook = lambda left: _told(left.exc_value) or sys.__unraisablehook__(left)
    threading.excepthook = lambda left: _told(left.exc_value) or threading.__excepthook__(left)


def _told(error: BaseException | None) -> bool:
    """Whether an exception comes from a plugin. A line says so then."""
    if error is None or sys.unraisablehook is sys.__unraisablehook__:  # --debug shows the traceback
        return False
    distribution, place = blame(error)
    if distribution:
        sys.stderr.write(f"{distribution} raised where nobody can catch it ({place}): {in_words(error)}\n")
    return bool(distribution)


def leave_soon(code: int) -> None:
    """End the process if Python doesn't end in time, and say which threads it waits for."""
    _codes.append(code)

    def leave() -> None:
        threading.main_thread().join()
        time.sleep(_LEAVING if code < 128 else 0.3)
        frames, main = sys._current_frames(), threading.main_thread()
        others = [thread for thread in threading.enumerate() if thread is not main and thread.ident in frames]
        waiting = [thread for thread in others if not thread.daemon]
        for thread in waiting:
            frame = frames[thread.ident or 0]
            place = f"{frame.f_code.co_filename}, line {frame.f_lineno}"
            sys.stderr.write(f"left behind: the thread {thread.name}, {place}\n")
        if not waiting and code < 128:
            sys.stderr.write("left behind: what a plugin or library registered for the end of Python still runs\n")
        end_process(code)

    threading.Thread(target=leave, name="agentfw-leaving", daemon=True).start()


def end_process(code: int) -> NoReturn:
    """End the process now. Nothing that was acknowledged is lost: it is on disk."""
    if sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h")  # a live picture may have hidden the cursor
    for stream in (data_stream(), sys.stderr):
        with suppress(OSError, ValueError):  # nobody reads it any longer
            stream.flush()
    os._exit(code)
