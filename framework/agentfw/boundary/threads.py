"""Calls blocking functions in threads that never keep the process from ending.

    found = await in_thread(look_up, "tea")

asyncio's own threads are joined at its end and at that of Python, so one call that hangs would keep a finished run
from ending. And a `StopIteration` that one of them raises is never delivered.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from ..errors import in_words
from .plugin_calls import PluginCall, acting_for, current_call

__all__ = ["in_thread", "use_daemon_threads"]

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
_Job = tuple["Future[Any]", PluginCall | None, Callable[[], Any]]


class _DaemonThreads(ThreadPoolExecutor):
    """Grows by a thread where none is idle, so a call that hangs takes no place from the others.

    A ThreadPoolExecutor by name, because event loops accept nothing else.
    """

    def __init__(self) -> None:
        super().__init__(1)
        self._waiting: list[SimpleQueue[_Job]] = []

    def submit(self, fn: Callable[Given, Answer], /, *args: Given.args, **kwargs: Given.kwargs) -> Future[Answer]:
        future: Future[Answer] = Future()
        try:
            jobs = self._waiting.pop()
        except IndexError:
            jobs = SimpleQueue()
            threading.Thread(target=self._work, args=(jobs,), name="agentfw-call", daemon=True).start()
        jobs.put((future, current_call(), partial(fn, *args, **kwargs)))
        return future

    def _work(self, jobs: SimpleQueue[_Job]) -> None:
        while True:
            _answer(*jobs.get())
            self._waiting.append(jobs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Does nothing: the threads also serve the next event loop."""


def _answer(future: Future[Any], call: PluginCall | None, work: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        with acting_for(call):
            found = work()
    except StopIteration as error:  # a future can't carry it
        failed = RuntimeError(f"raised {in_words(error)}")
        failed.__cause__ = error
        future.set_exception(failed)
    except BaseException as error:
        future.set_exception(error)
    else:
        future.set_result(found)


_THREADS = _DaemonThreads()


async def in_thread(function: Callable[Given, Answer], /, *args: Given.args, **kwargs: Given.kwargs) -> Answer:
    """Like `asyncio.to_thread`, in a daemon thread."""
    work = partial(contextvars.copy_context().run, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)


def use_daemon_threads() -> None:
    """Let `asyncio.to_thread` in this event loop use them, too."""
    asyncio.get_running_loop().set_default_executor(_THREADS)
