"""The object of a remote process, and the form in which its answers and errors travel.

An error keeps its class, its fix and its traceback. It is sent as plain values, because exceptions with keyword
arguments don't survive the usual ways of sending them.
"""

from __future__ import annotations

import asyncio
import importlib
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from .. import errors
from ..errors import AgentfwError, PluginError, is_failure
from .interface import Plain

__all__ = ["Served", "answer_of"]


class Served:
    """Makes the object and calls its methods. Never raises: an error is an answer."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._object: Any = None
        self._made = asyncio.Event()
        self._beginning: Plain = {}

    async def make(self, factory: str, arguments: Sequence[Plain]) -> Plain:
        async def made() -> None:
            module, _, attribute = factory.partition(":")
            self._object = getattr(importlib.import_module(module), attribute)(*arguments)

        self._beginning = await self._answered(made, "could not be started")
        self._made.set()
        return self._beginning

    async def call(self, method: str, arguments: Sequence[Plain]) -> Plain:
        await self._made.wait()  # Ray may begin calls in another order
        if "error" in self._beginning:
            return self._beginning
        return await self._answered(lambda: getattr(self._object, method)(*arguments), f"failed in {method}")

    async def close(self) -> None:
        close = getattr(self._object, "close", None)
        if close is not None:
            await close()

    async def _answered(self, work: Callable[[], Awaitable[Plain]], failing: str) -> Plain:
        try:
            return {"value": await work()}
        except AgentfwError as error:
            return {"error": type(error).__name__, "message": error.message, "fix": error.fix, "change": error.change}
        except BaseException as error:
            if not is_failure(error):
                raise
            text = f"{self.name} {failing}: {type(error).__name__}: {error}"
            fix = "fix the plugin; its traceback is shown with --debug"
            return {"error": "PluginError", "message": text, "fix": fix, "traceback": traceback.format_exc()}


def answer_of(answered: Plain) -> Plain:
    """The value of an answer. Raises its error, if it is one."""
    if "value" in answered:
        return answered["value"]
    kind = getattr(errors, answered["error"], AgentfwError)
    error: AgentfwError = kind.__new__(kind)
    AgentfwError.__init__(error, answered["message"], fix=answered["fix"], change=answered.get("change", ""))
    if isinstance(error, PluginError) and "traceback" in answered:
        error.add_note(answered["traceback"])
    raise error
