"""Waits for coroutines of components, which may hold on to whoever waits, and finds those that nobody awaits.

A coroutine that catches `CancelledError` and goes on, as a careless retry does, would make every timeout and every
Ctrl-C wait for ever. After a second it is left behind, and whoever waits for it goes on as if it had ended.

    async with asyncio.timeout(60):
        found = await letting_go(memory.recall(query))

    found = await Deadline(60).answer(memory.recall(query))     # the same, and cheaper
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import types
from collections.abc import Awaitable, Coroutine, Generator
from contextlib import suppress
from typing import Any, TypeVar

from ..tool import wait_with
from .plugin_calls import current_call

__all__ = [
    "PATIENCE",
    "CancelledItself",
    "Deadline",
    "DeadlineExceeded",
    "exact",
    "letting_go",
    "misplaced_coroutine",
    "plain",
]

Answer = TypeVar("Answer")
Value = TypeVar("Value")

PATIENCE = 1.0
"""Seconds that a cancelled coroutine has to close what it opened."""


_NOT_BEGUN = object()


class DeadlineExceeded(Exception):
    """There was no answer in time."""


class CancelledItself(Exception):
    """A coroutine has cancelled the task that it runs in, and so everything that waits for it."""


class Deadline:
    """Limits the time of one answer. The time begins when this is made, and again with each `extend`."""

    __slots__ = ("_seconds", "_timeout", "_until")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._timeout: asyncio.Timeout | None = None
        self.extend()

    def extend(self) -> None:
        """Restart the timeout. Called when a piece of a streamed answer arrives."""
        self._until = asyncio.get_running_loop().time() + self._seconds
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(self._until)

    async def answer(self, work: Awaitable[Answer]) -> Answer:
        """The answer of `work`. Raises DeadlineExceeded if it comes too late."""
        coroutine = work if isinstance(work, types.CoroutineType) else _awaited(work)
        task = asyncio.current_task()
        assert task is not None
        before = task.cancelling()
        try:
            # The first step by hand: most calls of a memory end with it, and need no timer.
            awaited = coroutine.send(None)
        except StopIteration as end:
            if task.cancelling() > before:
                await _cancelled_itself(task)
            return end.value  # type: ignore[no-any-return]
        inside = task.cancelling() > before
        try:
            async with asyncio.timeout_at(self._until) as self._timeout:
                return await letting_go(coroutine, awaited)
        except asyncio.CancelledError:
            if inside:
                await _cancelled_itself(task)
            raise
        except TimeoutError as error:
            if self._timeout is not None and self._timeout.expired():
                raise DeadlineExceeded from error
            raise


@types.coroutine
def letting_go(work: Awaitable[Answer], awaited: object = _NOT_BEGUN) -> Generator[Any, Any, Answer]:
    """The answer of `work`, or CancelledError at most `PATIENCE` after the cancellation.

    A coroutine that has begun is given with what it awaits now.
    """
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
                go_on, awaited = coroutine.send, _NOT_BEGUN
            except BaseException as error:  # GeneratorExit, too
                if late:
                    task.uncancel()
                    # One that catches everything would run for ever where Python deletes it, at its end too. What a
                    # daemon thread holds is never deleted, which a variable of this module is.
                    threading.Thread(target=_hold, args=(coroutine,), name="agentfw-left-behind", daemon=True).start()
                    if (call := current_call()) is not None:
                        call.leave(coroutine)
                    raise
                if isinstance(error, asyncio.CancelledError) and timer is None:
                    timer = task.get_loop().call_later(PATIENCE, cancel_again)
                go_on, value, awaited = coroutine.throw, error, _NOT_BEGUN
    finally:
        if timer is not None:
            timer.cancel()


def _hold(coroutine: Coroutine[Any, Any, Any]) -> None:
    threading.Event().wait()


async def _cancelled_itself(task: asyncio.Task[Any]) -> None:
    """Undo a cancellation that the awaited code requested itself, and raise CancelledItself instead."""
    with suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    task.uncancel()
    raise CancelledItself


async def _awaited(work: Awaitable[Answer]) -> Answer:
    return await work


_LOOKED_AT: dict[tuple[type, type], str] = {}


def misplaced_coroutine(kind: type, base: type) -> str:
    """What is wrong with a method of a class, worded to follow its name; empty if all are as in the base class.

    `async def begin` in an environment makes a world that never begins: nobody awaits what it returns.
    """
    if (kind, base) not in _LOOKED_AT:  # each episode has an environment of its own
        _LOOKED_AT[kind, base] = _misplaced(kind, base)
    return _LOOKED_AT[kind, base]


def _misplaced(kind: type, base: type) -> str:
    for name in dir(kind):
        method, expected = _function(kind, name), _function(base, name)
        if expected is None and not hasattr(method, "__agentfw_action__"):
            continue
        if _is_async(method) and not _is_async(expected):
            return f"defines {name}() with `async def`, but it must be a plain function"
        if inspect.isgeneratorfunction(method) and inspect.iscoroutinefunction(expected):
            return f"defines {name}() as a generator, but it must be defined with `async def` and return its answer"
        if inspect.isasyncgenfunction(method):
            return f"defines {name}() as a generator, but it must return its answer"
    return ""


def _function(kind: type, name: str) -> object:
    found = inspect.getattr_static(kind, name, None)
    return getattr(found, "__func__", found) if callable(getattr(found, "__func__", found)) else None


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


_PLAIN = frozenset((type(None), bool, int, float, str, tuple, list, dict))
"""Types that can't be awaited: to ask whether something can takes longer."""


def plain(value: Value) -> Value:
    """The value. Raises if it is one that must be awaited, and so no answer yet."""
    if type(value) in _PLAIN:
        return value
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise TypeError(f"it returned a {type(value).__name__}, which nobody awaits; return the value itself")
    return value


def exact(text: str) -> str:
    """The same text as a plain str: the methods of a subclass may do anything."""
    return str.__str__(text)


wait_with(letting_go)
