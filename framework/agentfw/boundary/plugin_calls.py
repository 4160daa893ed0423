"""Knows which calls of plugins are in progress, so that what hangs or fails is attributed to the right one.

    with PluginCall('memory "notes" of agentfw-notes 1.0', "recall()"):
        ...
    for line in hanging():      # in another thread
        print(line)

A traceback can't tell this: a policy that calls a helper of the framework, or a component of another plugin, ends in
code that isn't its own.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

OURS = frozenset(("agentfw", "agentfw_cli"))

# Dictionaries keep the order in which calls began, and one of them can be copied while another thread adds to it.
IN_PROGRESS: dict[PluginCall, None] = {}
_threads: dict[int, PluginCall] = {}
"""The threads that work for a call, by their number."""
_notes: dict[str, None] = {}


class PluginCall:
    """A call of a component, in progress within its `with` block."""

    __slots__ = ("call", "episode", "mend", "task", "thread", "title")

    def __init__(self, title: str, call: str, mend: str = "") -> None:
        """`mend` says what to do about a call that takes too long. Without it, a call may take as long as it needs."""
        self.title, self.call, self.episode, self.mend = title, call, "", mend

    def __enter__(self) -> None:
        self.thread, self.task = threading.get_ident(), current_task()
        IN_PROGRESS[self] = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        IN_PROGRESS.pop(self, None)

    def leave(self, coroutine: object) -> None:
        """Note that its coroutine hasn't ended although it was cancelled, and is left behind."""
        _notes[f"{self.title} didn't end when {self.where} was cancelled{_at(_waiting_frame(coroutine))}"] = None

    @property
    def where(self) -> str:
        """The call, and the episode that it belongs to."""
        return ", ".join(filter(None, (self.call, f"episode {self.episode}" if self.episode else "")))


@contextmanager
def acting_for(call: PluginCall | None) -> Iterator[None]:
    """What this thread does now, it does for a call that waits for it elsewhere."""
    if call is None:
        yield
        return
    number = threading.get_ident()
    _threads[number] = call
    try:
        yield
    finally:
        del _threads[number]


def current_call() -> PluginCall | None:
    """The innermost call in progress here, in this task or else in this thread."""
    return _innermost().get(current_task() or threading.get_ident())


def running_call(loop: asyncio.AbstractEventLoop) -> PluginCall | None:
    """The innermost call of the task that has the turn in an event loop; for other threads than that of the loop."""
    return _innermost().get(asyncio.current_task(loop))


def blame(error: BaseException) -> tuple[str, str]:
    """The distribution of the plugin whose code an unexpected error comes from, and the place. Empty if there is none.

    This is for what is raised outside of the calls that a guard knows.
    """
    from .metadata import entry_points

    found = [entry for group in ("agentfw", "agentfw.commands") for entry in entry_points(group)]
    homes = {entry.module.partition(".")[0]: entry.distribution for entry in found if entry.distribution != "agentfw"}
    trace, who = error.__traceback__, ("", "")
    while trace is not None:
        name = trace.tb_frame.f_globals.get("__name__", "").partition(".")[0]
        if name in homes:
            who = homes[name], f"{trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return who


def hanging() -> list[str]:
    """The innermost calls in progress, each with the place in its plugin's code."""
    calls = list(IN_PROGRESS)
    running = {call for call in calls if call.task is not None and running_call(call.task.get_loop()) is call}
    # Code that has the turn and doesn't give it back keeps all the others waiting.
    waiting = running or set(_innermost().values())
    # An environment's call lasts as long as the episode: it waits for the others.
    return [
        f"{call.title} is busy with {call.where or 'its episode'}{_at(_frame_of(call))}"
        for call in calls
        if call in waiting and (call.call or len(waiting) == 1)
    ]


def notes() -> list[str]:
    """What calls have done that they shouldn't, in words, once. And those whose threads are still busy."""
    frames, found = sys._current_frames(), list(_notes)
    _notes.clear()
    return found + [
        f"{call.title} is still busy with {call.where}{_at(own_frame(frames.get(number)))}; it is left behind"
        for number, call in list(_threads.items())
        if call not in IN_PROGRESS
    ]


def own_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that is neither of the framework nor of Python's library, if there is one.

    What is outside of the event loop is the program that has started it.
    """
    while frame is not None and not _is_own(frame):
        frame = None if frame.f_globals.get("__name__") == "asyncio.events" else frame.f_back
    return frame


def place(frame: FrameType) -> str:
    """Where a frame is, for the author of the code."""
    return f"{frame.f_code.co_name}, {Path(frame.f_code.co_filename).name}, line {frame.f_lineno}"


def _innermost() -> dict[object, PluginCall]:
    """The innermost call in progress of each task, and of each thread outside of tasks, by its number."""
    return {call.task or call.thread: call for call in list(IN_PROGRESS)}


def current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:  # no event loop runs here
        return None


def _at(frame: FrameType | None) -> str:
    return f": {place(frame)}" if frame is not None else ""


def _frame_of(call: PluginCall) -> FrameType | None:
    """Where a call is: in its thread, in another one that works for it, or where its coroutine waits."""
    frames = sys._current_frames()
    numbers = [number for number, acting in list(_threads.items()) if acting is call]
    if call.task is None or asyncio.current_task(call.task.get_loop()) is call.task:
        numbers.append(call.thread)
    if numbers:
        return own_frame(frames.get(numbers[0])) or frames.get(numbers[0])
    return None if call.task is None else _waiting_frame(call.task.get_coro())


def _waiting_frame(awaited: Any) -> FrameType | None:
    """Where a coroutine waits: the innermost of its frames that is a plugin's."""
    found = None
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None and _is_own(frame):
            found = frame
        if frame is not None and frame.f_code.co_name == "letting_go":  # which makes its steps by hand
            awaited = frame.f_locals["running"]
        else:
            awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return found


def _is_own(frame: FrameType) -> bool:
    top = frame.f_globals.get("__name__", "").partition(".")[0]
    return top not in OURS and top not in sys.stdlib_module_names
