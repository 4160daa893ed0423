"""Waits for coroutines of components until a deadline, and calls blocking functions in threads.

These threads never keep the process from ending. asyncio's own are joined at its end and at that of Python, so one call
that hangs would keep a finished run from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from types import CoroutineType, coroutine
from typing import Any, ParamSpec, TypeVar

from ..errors import in_words

Found = TypeVar("Found")

_PLAIN = frozenset((type(None), bool, int, float, str, tuple, list, dict))
"""Types that can't be awaited: to ask whether something can takes longer."""


class Deadline:
    """Limits the time that is waited for one answer. It begins again with each piece that arrives."""

    __slots__ = ("_seconds", "_timeout")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
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
        async with asyncio.timeout(self._seconds) as self._timeout:
            return await _rest(begun, awaited)


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


Given = ParamSpec("Given")


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
