"""A guard names its component in whatever goes wrong with it, limits its time, and counts its calls.

Who is to blame is decided by the call in progress and not by the traceback, which may end in helpers and libraries. So
all calls of plugins in progress are known, and with them what keeps a run from going on, or from ending (`hanging`).

A coroutine is waited for until its deadline. Blocking functions run in threads that never keep the process from ending:
asyncio's own are joined at its end and at that of Python, so one call that hangs would keep a finished run from ending.

The episodes of a run share one event loop. A plugin that computes or waits without `await` stops all of them, and no
deadline of a call can end that, because deadlines need the loop, too. So `watched` looks at the loop from a thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from types import CoroutineType, FrameType, TracebackType, coroutine
from typing import Any, ParamSpec, TypeVar

from ..errors import AgentfwError, PluginError, TimelineError, in_words, is_failure

Item = TypeVar("Item")
Found = TypeVar("Found")
Given = ParamSpec("Given")
GiveUp = Callable[[PluginError], object]
"""Ends the run with an error, from another thread."""
IN_PROGRESS: dict[PluginCall, None] = {}
"""In the order in which they began. A dictionary can be copied while another thread adds to it."""
_PLAIN = frozenset((type(None), bool, int, float, str, tuple, list, dict))
"""Types that can't be awaited: to ask whether something can takes longer."""
_OURS = frozenset(("agentfw", "agentfw_cli"))
_NOTED_SECONDS = 10.0  # seconds after which the user is told which component blocks the run
_UNLIMITED = ("learner", "optimizer")  # the kinds whose calls may take as long as they need


class PluginCall:
    """A call of a component or a hook, in progress within its `with` block."""

    __slots__ = ("call", "episode", "mend", "task", "thread", "title")

    def __init__(self, title: str, call: str, mend: str = "") -> None:
        """`mend` says what to do about a call that takes too long. Without it, a call may take as long as it needs."""
        self.title, self.call, self.episode, self.mend = title, call, "", mend

    def __enter__(self) -> None:
        self.thread = threading.get_ident()
        try:
            self.task = asyncio.current_task()
        except RuntimeError:  # no event loop runs here
            self.task = None
        IN_PROGRESS[self] = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        IN_PROGRESS.pop(self, None)

    @property
    def where(self) -> str:
        """The call, and the episode that it belongs to."""
        return ", ".join(filter(None, (self.call, f"episode {self.episode}" if self.episode else "")))

    @property
    def has_the_turn(self) -> bool:
        """Whether the event loop is running this call right now. Meant to be read from another thread."""
        return self.task is not None and asyncio.current_task(self.task.get_loop()) is self.task

    @property
    def place(self) -> str:
        """Where in the plugin's code it is. Empty if it is in code of others."""
        frame = sys._current_frames().get(self.thread) if self.has_the_turn or self.task is None else None
        while frame is not None and not _is_own(frame):
            frame = None if frame.f_globals.get("__name__") == "asyncio.events" else frame.f_back
        # Where a coroutine waits, it is the innermost of its frames that is a plugin's.
        awaited: Any = self.task.get_coro() if frame is None and self.task is not None else None
        while awaited is not None:
            waiting = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
            if waiting is not None and _is_own(waiting):
                frame = waiting
            if waiting is not None and waiting.f_code.co_name == "_rest":  # which makes its steps by hand
                awaited = waiting.f_locals["begun"]
            else:
                awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
        return f"{Path(frame.f_code.co_filename).name}, line {frame.f_lineno}" if frame is not None else ""


class CallCounts:
    """Counts the calls of components. This one counts nothing, for calls outside of a run."""

    def row(self, kind: str, name: str, title: str) -> Any:
        """What counts the calls of one component."""
        return self

    def begin(self, call: str, episode: str = "") -> int:
        return 0

    def end(self, number: int, *, seconds: float | None = None, failed: bool = False) -> None:
        pass

    def count(self, seconds: float, *, failed: bool) -> None:
        pass

    def spend(self, cost: float | None) -> None:
        pass


class Guard:
    """Stands between a run and the code of one component."""

    def __init__(
        self,
        kind: str,
        name: str,
        title: str,
        *,
        mend: str,
        deadline: float = float("inf"),
        is_ours: bool = False,
        counts: CallCounts | None = None,
    ) -> None:
        """`title` names the component in errors, `mend` says what to do about a mistake in its code."""
        self.kind, self.name, self.title, self.mend = kind, name, title, mend
        self.deadline, self.is_ours = deadline, is_ours
        self.counts = CallCounts() if counts is None else counts
        self.row = self.counts.row(kind, name, title)

    def error(self, text: str, fix: str = "") -> PluginError:
        """An error of the component. `text` continues a sentence that begins with its name."""
        return PluginError(f"{self.title} {text}", fix=fix or f"{self.mend}; use --debug to see where it failed")

    def require(self, holds: object, text: str, fix: str = "") -> None:
        """Raise the error unless something holds that every component of the kind must ensure."""
        if not holds:
            raise self.error(text, fix)

    def calling(self, call: str, episode: str = "", passes: type[BaseException] | tuple[()] = ()) -> Calling:
        """Turn an unexpected exception into a PluginError that names the component, unless it is one that passes."""
        return Calling(self, call, episode, False, passes)


class Calling(PluginCall):
    """A call of a component, in progress. A class and no generator, because each turn of an agent enters it often."""

    __slots__ = ("_began", "_counted", "_number", "_passes", "guard")

    def __init__(
        self, guard: Guard, call: str, episode: str, counted: bool, passes: type[BaseException] | tuple[()] = ()
    ) -> None:
        """`counted` adds the call and its seconds to the record also if it succeeds."""
        self.title, self.call, self.episode = guard.title, call, episode
        self.mend = "" if guard.kind in _UNLIMITED else guard.mend
        self.guard, self._counted, self._passes = guard, counted, passes

    def __enter__(self) -> None:
        super().__enter__()
        self._began = time.monotonic() if self._counted else 0.0
        self._number = self.guard.row.begin(self.call or "an episode", self.episode)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        seconds = time.monotonic() - self._began if self._counted else None
        if error is None or isinstance(error, self._passes):
            self.guard.row.end(self._number, seconds=seconds)
            return
        self.guard.row.end(self._number, seconds=seconds, failed=is_failure(error))
        if isinstance(error, AgentfwError):
            # What is raised while an episode is played is mostly the framework's. Ours name themselves.
            theirs = (self.call not in ("", "play()") and not self.guard.is_ours) or isinstance(error, TimelineError)
            if theirs and not error.has_culprit and self.guard.title not in error.message:
                # Not in which episode: a run counts its failures by their message.
                error.message = f"{self.guard.title} failed in {self.call or 'an episode'}: {error.message}"
                error.args = (error.message,)
            error.has_culprit = True
        elif isinstance(error, asyncio.CancelledError):
            if self.task is None or not self.task.cancelling():  # else it is the run that is cancelled
                raise self.guard.error(f"failed in {self.where}: it was cancelled from inside") from error
        elif is_failure(error):
            raise self.guard.error(f"failed in {self.where}: {in_words(error)}") from error


def listed(found: Iterable[Item], kind: type[Item], guard: Guard, *, limit: int | None = None) -> list[Item]:
    """What a component gave, as a list of our own."""
    items = []
    for item in islice(found, limit):
        if not isinstance(item, kind):  # looked at one by one, because there may be no end of them
            raise guard.error(f"gave a {type(item).__name__}, not a {kind.__name__}")
        items.append(item)
    return items


class Deadline:
    """Limits the time that is waited for one answer. It begins again with each piece that arrives."""

    __slots__ = ("_seconds", "_timeout", "over")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.over = False  # then nobody waits any more, but a thread of the component may still send pieces
        self._timeout: asyncio.Timeout | None = None

    @property
    def expired(self) -> bool:
        return self._timeout is not None and self._timeout.expired()

    def extend(self) -> None:
        """A piece has arrived."""
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time() + self._seconds)

    async def wait(self, begun: Coroutine[Any, Any, Found], awaited: object) -> Found:
        """The answer of a coroutine that has begun and awaits something. Raises TimeoutError after the deadline."""
        try:
            async with asyncio.timeout(self._seconds) as self._timeout:
                return await _rest(begun, awaited)
        finally:
            self.over = True


@coroutine
def _rest(begun: Coroutine[Any, Any, Found], awaited: object) -> Generator[Any, Any, Found]:
    """The answer of a coroutine that has begun, and awaits something now."""
    while True:
        try:
            value = yield awaited
        except BaseException as error:
            go_on: Callable[[], object] = partial(begun.throw, error)
        else:
            go_on = partial(begun.send, value)
        try:
            awaited = go_on()
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


def as_coroutine(work: Awaitable[Found]) -> Coroutine[Any, Any, Found]:
    """Something that can be awaited, as a coroutine."""

    async def awaited() -> Found:
        return await work

    return work if isinstance(work, CoroutineType) else awaited()


def not_awaitable(value: Found) -> Found:
    """The value. Raises if it is one that must be awaited, and so no answer yet."""
    if type(value) in _PLAIN:
        return value
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise TypeError(f"it returned a {type(value).__name__}, which nobody awaits; return the value itself")
    return value


def hanging() -> list[str]:
    """What a run that doesn't end is waiting for, one line for each call."""
    innermost = list({call.task or call.thread: call for call in list(IN_PROGRESS)}.values())
    waiting = [call for call in innermost if call.has_the_turn] or innermost
    # An environment's call lasts as long as the episode: it waits for the others.
    return [
        f"{call.title}, busy with {', '.join(filter(None, (call.where or 'its episode', call.place)))}"
        for call in waiting
        if call.call or len(waiting) == 1
    ]


@contextmanager
def watched(deadline: float, give_up: GiveUp | None) -> Iterator[None]:
    """Report a call that blocks this event loop for ten seconds, and end the run if it does so until the deadline."""
    loop, done = asyncio.get_running_loop(), threading.Event()
    noted = min(_NOTED_SECONDS, deadline / 2)

    def blocked(seconds: float) -> None:
        found = next((call for call in reversed(list(IN_PROGRESS)) if call.has_the_turn), None)
        if found is None or not found.mend or not found.place:
            return
        where = ", ".join(filter(None, (found.call, found.place)))
        text = f"{found.title} has kept the run from going on for {seconds:g} s: {where}"
        if seconds < deadline:
            sys.stderr.write(f"{text}\n")
        elif give_up is not None:
            give_up(PluginError(text, fix=f"{found.mend}, or give it more time: --set deadline=SECONDS"))

    def watch() -> None:
        while not done.wait(noted / 4):
            turn = threading.Event()
            try:
                loop.call_soon_threadsafe(turn.set)
            except RuntimeError:  # the loop is closed
                return
            for seconds, more in ((noted, noted), (deadline, deadline - noted)):
                if not turn.wait(min(more, threading.TIMEOUT_MAX)) and not done.is_set():
                    blocked(seconds)
            turn.wait()

    threading.Thread(target=watch, name="agentfw-loop-watch", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _is_own(frame: FrameType) -> bool:
    """Whether a frame is neither of the framework nor of Python's library."""
    top = frame.f_globals.get("__name__", "").partition(".")[0]
    return top not in _OURS and top not in sys.stdlib_module_names


class _DaemonThreads(ThreadPoolExecutor):
    """Grows where no thread is idle. A ThreadPoolExecutor by name, because event loops accept nothing else."""

    def __init__(self) -> None:
        super().__init__(1)
        self._idle: list[SimpleQueue[Callable[[], None]]] = []

    def submit(self, fn: Callable[Given, Found], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Found]:
        future: Future[Found] = Future()

        def job() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except StopIteration as error:  # a future can't carry it
                    future.set_exception(RuntimeError(f"raised {in_words(error)}"))
                except BaseException as error:
                    future.set_exception(error)

        def serve(jobs: SimpleQueue[Callable[[], None]]) -> None:
            while True:
                jobs.get()()
                self._idle.append(jobs)

        try:
            jobs = self._idle.pop()
        except IndexError:
            jobs = SimpleQueue()
            threading.Thread(target=serve, args=(jobs,), name="agentfw-call", daemon=True).start()
        jobs.put(job)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Does nothing: the threads also serve the next event loop."""


_THREADS = _DaemonThreads()


async def in_thread(function: Callable[Given, Found], /, *args: Given.args, **kwargs: Given.kwargs) -> Found:
    """Like `asyncio.to_thread`, in a daemon thread."""
    work = partial(contextvars.copy_context().run, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)


def use_daemon_threads() -> None:
    """Let `asyncio.to_thread` in this event loop use them, too."""
    asyncio.get_running_loop().set_default_executor(_THREADS)
