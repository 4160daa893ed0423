"""Waits for foreign coroutines that may hold on to whoever waits for them.

A coroutine that catches `CancelledError` and goes on, as a careless retry does, would make every timeout and every
Ctrl-C wait for ever. After a second it is left behind, and whoever waits for it goes on as if it had ended.

    async with asyncio.timeout(60):
        found = await letting_go(memory.recall(query))
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Coroutine, Generator
from typing import Any, TypeVar

from .plugin_calls import current_call

__all__ = ["PATIENCE", "letting_go"]

Answer = TypeVar("Answer")

PATIENCE = 1.0
"""Seconds that a cancelled coroutine has to close what it opened."""


@types.coroutine
def letting_go(work: Awaitable[Answer]) -> Generator[Any, Any, Answer]:
    """The answer of `work`, or CancelledError at most `PATIENCE` after the cancellation."""
    coroutine = work if isinstance(work, types.CoroutineType) else _awaited(work)
    task, timer = asyncio.current_task(), None
    assert task is not None
    late: list[bool] = []
    before = task.cancelling()

    def cancel_again() -> None:
        late.append(True)
        task.cancel()

    go_on: Any = coroutine.send
    value: Any = None
    try:
        while True:
            try:
                awaited = go_on(value)
            except StopIteration as end:
                return end.value  # type: ignore[no-any-return]
            if timer is not None and task.cancelling() <= before:
                # It was cancelled from inside, as every timeout and every new connection does, and took it back.
                timer.cancel()
                timer = None
            try:
                value = yield awaited
                go_on = coroutine.send
            except BaseException as error:  # GeneratorExit, too
                if late:
                    task.uncancel()
                    _leave(coroutine)
                    raise
                if isinstance(error, asyncio.CancelledError) and timer is None:
                    timer = task.get_loop().call_later(PATIENCE, cancel_again)
                go_on, value = coroutine.throw, error
    finally:
        if timer is not None:
            timer.cancel()


async def _awaited(work: Awaitable[Answer]) -> Answer:
    return await work


def _leave(coroutine: Coroutine[Any, Any, Any]) -> None:
    import ctypes

    # Never garbage-collected, not even at exit: a coroutine that catches everything would then run for ever.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(coroutine))
    call = current_call()
    if call is not None:
        call.leave(coroutine)
