"""Calls blocking functions in threads that never keep the process from ending.

    found = await in_thread(look_up, "tea")

asyncio's own threads are joined at its end and at that of Python, so one call that hangs would keep a finished run
from ending.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from typing import ParamSpec, TypeVar

from ..errors import in_words
from .plugin_calls import acting_for, current_call

Given = ParamSpec("Given")
Found = TypeVar("Found")


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
