"""Finds coroutines where values belong, and the other way round.

`async def begin` in an environment makes a world that never begins: calling it does nothing, and nobody awaits what it
returns. So a class is looked at before its component takes part, and what a call returns before it is used.
"""

from __future__ import annotations

import inspect
from typing import TypeVar

__all__ = ["exact", "misplaced_coroutine", "plain"]

Value = TypeVar("Value")


_LOOKED_AT: dict[tuple[type, type], str] = {}


def misplaced_coroutine(kind: type, base: type) -> str:
    """What is wrong with a method of a class, worded to follow its name; empty if all are as in the base class."""
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


def plain(value: Value) -> Value:
    """The value. Raises if it is one that must be awaited, and so no answer yet."""
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise TypeError(f"it returned a {type(value).__name__}, which nobody awaits; return the value itself")
    return value


def exact(text: str) -> str:
    """The same text as a plain str: the methods of a subclass may do anything."""
    return str.__str__(text)


def _function(kind: type, name: str) -> object:
    found = inspect.getattr_static(kind, name, None)
    return getattr(found, "__func__", found) if callable(getattr(found, "__func__", found)) else None


def _is_async(function: object) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)
