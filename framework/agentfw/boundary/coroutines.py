"""Waits for coroutines of components until a deadline, also for those that hold on when they are cancelled.

A coroutine that catches `CancelledError` and goes on, as a careless retry does, would make every timeout and every
Ctrl-C wait for ever. After a second it is left behind, and whoever waits for it goes on as if it had ended.

    async with asyncio.timeout(60):
        found = await letting_go(memory.recall(query))
    found = await in_thread(look_up, "tea")

Blocking functions are called in threads that never keep the process from ending. asyncio's own are joined at its end
and at that of Python, so one call that hangs would keep a finished run from ending.
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
from ..tool import wait_with
from .plugin_calls import acting_for, current_call

Found = TypeVar("Found")

PATIENCE = 1.0
"""Seconds that a cancelled coroutine has to close what it opened."""
_NOT_BEGUN = object()
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
            return await letting_go(begun, awaited)


@coroutine
def letting_go(work: Awaitable[Found], awaited: object = _NOT_BEGUN) -> Generator[Any, Any, Found]:
    """The answer of `work`, or CancelledError at most `PATIENCE` after the cancellation.

    A coroutine that has begun is given with what it awaits now.
    """
    running, task, timer = as_coroutine(work), asyncio.current_task(), None
    assert task is not None
    late: list[bool] = []
    before = task.cancelling()

    def cancel_again() -> None:
        late.append(True)
        task.cancel()

    go_on: Any = running.send
    value: Any = None
    try:
        while True:
            try:
                if awaited is _NOT_BEGUN:
                    awaited = go_on(value)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if timer is not None and task.cancelling() <= before:
                # It was cancelled from inside, as every timeout and every new connection does, and took it back.
                timer.cancel()
                timer = None
            try:
                value = yield awaited
                go_on, awaited = running.send, _NOT_BEGUN
            except BaseException as error:  # GeneratorExit, too
                if late:
                    task.uncancel()
                    # One that catches everything would run for ever where Python deletes it, at its end too. What a
                    # daemon thread holds is never deleted, which a variable of this module is.
                    threading.Thread(target=lambda: (threading.Event().wait(), running), daemon=True).start()
                    if (call := current_call()) is not None:
                        call.leave(running)
                    raise
                if isinstance(error, asyncio.CancelledError) and timer is None:
                    timer = task.get_loop().call_later(PATIENCE, cancel_again)
                go_on, value, awaited = running.throw, error, _NOT_BEGUN
    finally:
        if timer is not None:
            timer.cancel()


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
    """Grows by a thread where none is idle, so a call that hangs takes no place from the others.

    A ThreadPoolExecutor by name, because event loops accept nothing else.
    """

    def __init__(self) -> None:
        super().__init__(1)
        self._idle: list[SimpleQueue[Callable[[], None]]] = []

    def submit(self, fn: Callable[Given, Found], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Found]:
        future: Future[Found] = Future()
        call = current_call()

        def job() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    with acting_for(call):
                        future.set_result(fn(*args, **kwargs))
                except StopIteration as error:  # a future can't carry it
                    future.set_exception(RuntimeError(f"raised {in_words(error)}"))
                except BaseException as error:
                    future.set_exception(error)

        try:
            jobs = self._idle.pop()
        except IndexError:
            jobs = SimpleQueue()
            threading.Thread(target=self._serve, args=(jobs,), name="agentfw-call", daemon=True).start()
        jobs.put(job)
        return future

    def _serve(self, jobs: SimpleQueue[Callable[[], None]]) -> None:
        while True:
            jobs.get()()
            self._idle.append(jobs)

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


wait_with(letting_go)
