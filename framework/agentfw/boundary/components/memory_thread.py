"""Memories beside the event loop, for a run that serves others while a memory waits.

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
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ...episode import Episode, Task
from ...memory import Embedded, Memory, Query, Recollection, Remembered, Saying
from ...tool import Tool

__all__ = ["MemoryThread"]

Answer = TypeVar("Answer")

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
        return _Beside(memory, self)

    def close(self) -> None:
        """End the thread, whose memories are closed by then. One that waits for ever ends with the process."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        if self._thread.is_alive():
            return
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    def start(self, call: Callable[[], Awaitable[Answer]]) -> concurrent.futures.Future[Answer]:
        async def called() -> Answer:
            return await call()

        return asyncio.run_coroutine_threadsafe(called(), self._loop)

    async def ask(self, call: Callable[[], Awaitable[Answer]]) -> Answer:
        return await asyncio.wrap_future(self.start(call))


class _Beside(Memory):
    def __init__(self, memory: Memory, thread: MemoryThread) -> None:
        self.memory, self.shared, self._thread = memory, memory.shared, thread

    async def recall(self, query: Query) -> Sequence[Recollection]:
        return await self._thread.ask(lambda: self.memory.recall(query))

    async def learn(self, episode: Episode, reward: float) -> None:
        await self._thread.ask(lambda: self.memory.learn(episode, reward))

    async def hear(self, saying: Saying) -> None:
        await self._thread.ask(lambda: self.memory.hear(saying))

    async def remembered(self, user: str) -> Sequence[Remembered]:
        return await self._thread.ask(lambda: self.memory.remembered(user))

    async def correct(self, user: str, item: str, text: str) -> Remembered:
        return await self._thread.ask(lambda: self.memory.correct(user, item, text))

    async def forget_one(self, user: str, item: str) -> None:
        await self._thread.ask(lambda: self.memory.forget_one(user, item))

    async def forget(self, user: str) -> Mapping[str, int]:
        return await self._thread.ask(lambda: self.memory.forget(user))

    async def embed(self, texts: Sequence[str]) -> Embedded:
        return await self._thread.ask(lambda: self.memory.embed(texts))

    async def offered(self, task: Task) -> Sequence[Tool]:
        found = await self._thread.ask(lambda: self.memory.offered(task))
        return [_BesideTool(tool, self._thread) for tool in found]

    async def close(self) -> None:
        await self._thread.ask(self.memory.close)

    def open(self, folder: Path) -> None:
        self._thread.start(_later(lambda: self.memory.open(folder))).result()

    # What comes after these is called after them, so nobody has to wait for them.

    def begin(self, task: Task) -> None:
        self._thread.start(_later(lambda: self.memory.begin(task))).add_done_callback(_tell)

    def introduce(self, user: str, profile: Mapping[str, str]) -> None:
        self._thread.start(_later(lambda: self.memory.introduce(user, profile))).add_done_callback(_tell)


class _BesideTool(Tool):
    def __init__(self, tool: Tool, thread: MemoryThread) -> None:
        self.tool, self._thread = tool, thread
        self.action, self.takes, self.timeout = tool.action, tool.takes, tool.timeout

    async def answer(self, arguments: Mapping[str, Any]) -> tuple[bool, str]:
        return await self._thread.ask(lambda: self.tool.answer(arguments))


def _later(call: Callable[[], Answer]) -> Callable[[], Awaitable[Answer]]:
    async def called() -> Answer:
        return call()

    return called


def _tell(done: concurrent.futures.Future[None]) -> None:
    if (error := done.exception()) is not None:
        logger.warning("a memory failed where an episode begins: %s", error, exc_info=error)
