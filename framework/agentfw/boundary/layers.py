"""The layers besides the guard: one tells trackers how long calls take, one calls memories in a thread of their own.

    policy = traced("policy", policy, "openai", print)      # only where a tracker asks for it: no other run pays for it

    thread = MemoryThread()
    memory = thread.beside(memory)
    await memory.recall(query)
    await memory.close()
    thread.close()

A memory may wait for a lock of its database or for an embedder without `await`. In a run whose episodes are played in
turn nobody else is kept waiting by that. In a gateway everybody is. So there the memories have an event loop of their
own, in a thread of its own: they are called in order, and nothing of them is shared between two loops.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable
from inspect import isawaitable
from types import TracebackType
from typing import Any

from ..episode import Task
from ..memory import Memory
from ..tracker import Operation
from .calls import Call
from .crossing import Layer, layered

logger = logging.getLogger(__name__)

_PATIENCE = 10.0  # seconds

Trace = Callable[[Operation], object]


class Clock:
    """Takes the time of what happens in its `with` block, and the error that ends it."""

    began = ended = 0.0
    error = ""

    def __enter__(self) -> Clock:
        self.began = time.time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended = time.time()
        self.error = "" if kind is None else kind.__name__

    @property
    def times(self) -> dict[str, Any]:
        """The fields of an operation."""
        return {"began": self.began, "ended": self.ended, "error": self.error}


class Traced(Layer):
    """The component, called on behalf of one episode."""

    def __init__(self, component: Any, name: str, trace: Trace, task: Task | None = None) -> None:
        self.inside, self.name, self.trace, self.task = component, name, trace, task
        self.take_attributes(component)

    async def later(self, call: Call, given: tuple[Any, ...]) -> Any:
        if call.operation is None:
            return self.with_tools(call, given, await super().later(call, given))
        clock, found = Clock(), None
        try:
            with clock:
                found = await super().later(call, given)
            return found
        finally:
            self.trace(call.operation(self.name, self.task, given, found, clock.times))

    def now(self, call: Call, given: tuple[Any, ...]) -> Any:
        return self.with_tools(call, given, super().now(call, given))

    def around_tool(self, tool: Any, call: Call, given: tuple[Any, ...]) -> Any:
        return traced("tool", tool, tool.action.name, self.trace, given[0])


def traced(kind: str, component: Any, name: str, trace: Trace, task: Task | None = None) -> Any:
    """The component, of whose calls `trace` is told. A tool belongs to the episode of a task."""
    return layered(Traced, kind)(component, name, trace, task)


class MemoryThread:
    """The thread of a run's memories."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="agentfw memories", daemon=True)
        self._thread.start()

    def beside(self, memory: Memory) -> Memory:
        """The memory, called in this thread."""
        made: Memory = layered(_Beside, "memory")(memory, self)
        return made

    def close(self) -> None:
        """End the thread, whose memories are closed by then. One that waits for ever ends with the process."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            return
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def start(self, call: Callable[..., Any], *given: Any) -> concurrent.futures.Future[Any]:
        """Call a function in the thread, plain or async."""

        async def called() -> Any:
            found = call(*given)
            return await found if isawaitable(found) else found

        return asyncio.run_coroutine_threadsafe(called(), self._loop)


class _Beside(Layer):
    def __init__(self, component: Any, thread: MemoryThread) -> None:
        self.inside, self._thread = component, thread
        self.take_attributes(component)

    async def later(self, call: Call, given: tuple[Any, ...]) -> Any:
        found = await asyncio.wrap_future(self._thread.start(getattr(self._inside, call.name), *given))
        return self.with_tools(call, given, found)

    def now(self, call: Call, given: tuple[Any, ...]) -> Any:
        started = self._thread.start(getattr(self._inside, call.name), *given)
        if not call.posted:
            return self.with_tools(call, given, started.result())
        started.add_done_callback(_log_failure)
        return None

    def around_tool(self, tool: Any, call: Call, given: tuple[Any, ...]) -> Any:
        return layered(_Beside, "tool")(tool, self._thread)


def _log_failure(done: concurrent.futures.Future[None]) -> None:
    if (error := done.exception()) is not None:
        logger.warning("a memory failed where an episode begins: %s", error, exc_info=error)
