"""The layer that calls memories in a thread of their own, for a run that serves others while a memory waits.

A memory may wait for a lock of its database or for an embedder without `await`. In a run whose episodes are played in
turn nobody else is kept waiting by that. In a gateway everybody is. So there the memories have an event loop of their
own, in a thread of its own: they are called in order, and nothing of them is shared between two loops.

    thread = MemoryThread()
    memory = thread.beside(memory)
    await memory.recall(query)
    await memory.close()
    thread.close()
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable
from inspect import isawaitable
from typing import Any

from ..memory import Memory
from .calls import Call
from .crossing import Layer, layered
from .forms import TOOLS

__all__ = ["MemoryThread"]

logger = logging.getLogger(__name__)

_PATIENCE = 10.0  # seconds


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
        return self._with_tools(call, found)

    def now(self, call: Call, given: tuple[Any, ...]) -> Any:
        started = self._thread.start(getattr(self._inside, call.name), *given)
        if not call.posted:
            return self._with_tools(call, started.result())
        started.add_done_callback(_tell)
        return None

    def _with_tools(self, call: Call, found: Any) -> Any:
        if call.answer is not TOOLS:
            return found
        return [layered(_Beside, "tool")(tool, self._thread) for tool in found]


def _tell(done: concurrent.futures.Future[None]) -> None:
    if (error := done.exception()) is not None:
        logger.warning("a memory failed where an episode begins: %s", error, exc_info=error)
