"""The tool interface: a name, a schema, and a call that may fail.

A tool that fails gives an observation, never a crash: the agent reads what went wrong and goes on.

    @tool
    def weather(city: str) -> str:
        \"\"\"Today's weather in a city.\"\"\"
        return forecasts[city]

The schema comes from the annotations and the docstring. A component of kind `tool` is a `Toolbox`: it opens into any
number of tools (an MCP server has many); a function that `@tool` marks is a box of one.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from .errors import InterventionRefused
from .functions import FunctionSpec, describe
from .request import Action
from .timeline import Time

__all__ = ["FunctionTool", "Tool", "Toolbox", "tool"]


class Toolbox:
    """Where tools come from. `open` is the one method that it must have."""

    async def open(self) -> Sequence[Tool]:
        raise NotImplementedError

    async def close(self) -> None:
        """Let go of connections and processes."""


class Tool:
    """Something an agent can call besides its world's actions."""

    action: Action
    takes: Time = 0
    """How much of the world's time a call takes; the answer is observed after it."""
    timeout: float = 60.0
    """Seconds of real time after which a call is given up."""

    async def call(self, arguments: Mapping[str, Any]) -> str:
        """The answer as text. Any exception is shown to the agent as the reason of a failure."""
        raise NotImplementedError

    async def answer(self, arguments: Mapping[str, Any]) -> tuple[bool, str]:
        """Whether the call went well, and what the agent gets to read."""
        try:
            return True, await asyncio.wait_for(self.call(arguments), self.timeout)
        except TimeoutError:
            return False, f"{self.action.name} gave no answer within {self.timeout:g} s"
        except InterventionRefused as refusal:
            return False, str(refusal)
        except Exception as error:
            return False, f"{self.action.name} failed: {type(error).__name__}: {error}"


class FunctionTool(Tool, Toolbox):
    """A typed Python function, plain or async, as a tool."""

    def __init__(self, function: Callable[..., Any], *, name: str = "", takes: Time = 0, timeout: float = 60.0) -> None:
        self._function, self.takes, self.timeout = function, takes, timeout
        self._spec: FunctionSpec = describe(function, name=name)
        self.action = Action(self._spec.name, self._spec.description, self._spec.parameters)

    async def open(self) -> Sequence[Tool]:
        return [self]

    async def call(self, arguments: Mapping[str, Any]) -> str:
        checked = self._spec.check(arguments)
        if inspect.iscoroutinefunction(self._function):
            result: Any = await self._function(**checked)
        else:
            # A thread, so that a slow function stops neither the other episodes nor its own timeout.
            result = await asyncio.to_thread(self._function, **checked)
        return result if isinstance(result, str) else _as_text(result)


@overload
def tool(function: Callable[..., Any]) -> FunctionTool: ...
@overload
def tool(*, name: str = "", takes: Time = 0, timeout: float = 60.0) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None, *, name: str = "", takes: Time = 0, timeout: float = 60.0
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Make a tool of a typed function."""

    def make(wrapped: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(wrapped, name=name, takes=takes, timeout=timeout)

    return make if function is None else make(function)


def _as_text(value: object) -> str:
    import json

    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value)
