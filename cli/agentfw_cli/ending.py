"""Ends the process soon after a signal, and at its end, where code of a plugin holds on to it.

What hangs is named and left behind. Nothing that was acknowledged is lost by this, because it is on disk.

    with ended_by_signals(take_leave):
        ...
    leave_soon(0)
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentfw.errors import Interruption

TakeLeave = Callable[[BaseException, list[str]], object]
"""Tells why the process ends, and what hangs."""

_UNHANDLED = b"a timer of a plugin has sent SIGALRM, which nobody handles; the run goes on\n"
SIGNALS = (signal.SIGINT, signal.SIGTERM)
ENDING_SECONDS = 1.5
"""How long everything may take to end by itself after a signal."""
LEAVING_SECONDS = 0.3
"""How long the end of Python may then take: threads of plugins that it waits for, and what they registered for it."""
CLOSING_SECONDS = 10.0
"""The same after a command that was not interrupted."""


class Interrupted(Interruption):
    """A signal came."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.label = "terminated" if number == signal.SIGTERM else "interrupted"
        self.exit_code = 128 + number


@contextmanager
def ended_by_signals(take_leave: TakeLeave, reason: Callable[[int], BaseException] = Interrupted) -> Iterator[None]:
    """End the process where this block doesn't end in time after SIGINT or SIGTERM, or at the second one at once.

    Python handles signals in the main thread, and only when that has the turn. The number of a signal is written to a
    pipe at once, and another thread reads it. `reason` is why the process then ends.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(select, "poll"):
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    thread = threading.Thread(
        target=_end_after_signal, args=(reader, take_leave, reason), name="agentfw-signals", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)
        os.close(writer)


def _end_after_signal(reader: int, take_leave: TakeLeave, reason: Callable[[int], BaseException]) -> None:
    first = _next_signal(reader, None)
    if first and _next_signal(reader, ENDING_SECONDS) != 0:
        error = reason(first)
        teller = threading.Thread(target=take_leave, args=(error, _hanging()), daemon=True)
        teller.start()
        teller.join(LEAVING_SECONDS)  # whoever hangs may hold a lock of stderr
        _end_process(getattr(error, "exit_code", 1))
    os.close(reader)


def _next_signal(reader: int, seconds: float | None) -> int | None:
    """The next of our signals; 0 where the block has ended, and None where neither happened in time."""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    while poll.poll(None if seconds is None else seconds * 1000):
        number = os.read(reader, 1)
        if not number or number[0] in SIGNALS:
            return number[0] if number else 0
    return None


def tell_of_leftovers() -> None:
    """Make a line on stderr of what plugins leave behind, and of what Python would end the process with or a traceback.

    That is a timer without a handler, and an exception in a `__del__`, a thread or a task, where nobody can catch it.
    """
    if hasattr(signal, "SIGALRM") and signal.getsignal(signal.SIGALRM) == signal.SIG_DFL:
        signal.signal(signal.SIGALRM, lambda number, frame: os.write(2, _UNHANDLED) and None)
    sys.unraisablehook = lambda left: told(left.exc_value) or sys.__unraisablehook__(left)
    threading.excepthook = lambda left: told(left.exc_value) or threading.__excepthook__(left)


def told(error: BaseException | None) -> bool:
    """Whether an exception that nobody can catch is of a plugin, which a line has told of then."""
    from agentfw.boundary.plugin_calls import blame
    from agentfw.errors import in_words

    if error is None or sys.unraisablehook is sys.__unraisablehook__:  # --debug shows the traceback
        return False
    distribution, place = blame(error)
    if distribution:
        sys.stderr.write(f"{distribution} raised where nobody can catch it ({place}): {in_words(error)}\n")
    return bool(distribution)


def leave_soon(code: int) -> None:
    """End the process where Python doesn't end in time: it waits for threads that plugins have started."""
    seconds = LEAVING_SECONDS if code in [128 + number for number in SIGNALS] else CLOSING_SECONDS

    def leave() -> None:
        threading.main_thread().join()
        time.sleep(seconds)
        for line in _threads():
            sys.stderr.write(f"left behind: {line}\n")
        _end_process(code)

    threading.Thread(target=leave, name="agentfw-leaving", daemon=True).start()


def _threads() -> list[str]:
    """What Python waits for at its end, in words."""
    from agentfw.boundary.plugin_calls import place

    frames = sys._current_frames()
    found = [thread for thread in threading.enumerate() if not thread.daemon and thread.ident in frames]
    return [f"the thread {thread.name}, {place(frames[thread.ident or 0])}" for thread in found]


def _end_process(code: int) -> None:
    """End the process now. Nothing that was acknowledged is lost: it is on disk."""
    if sys.stderr.isatty():
        sys.stderr.write("\x1b[?25h")  # a live picture may have hidden the cursor
    sys.stderr.flush()
    os._exit(code)


def _hanging() -> list[str]:
    from agentfw.boundary.plugin_calls import hanging  # it needs asyncio, and most commands don't

    return hanging()
