"""The tool interface: a name, a schema, and a call that may fail.

A failing tool produces an observation, never a crash. The agent reads what went wrong and continues.

    @tool
    def weather(city: str) -> str:
        \"\"\"Today's weather in a city.\"\"\"
        return forecasts[city]

The schema comes from the annotations and the docstring. A component of kind `tool` is a `Toolbox`, which opens into any
number of tools. An MCP server, for example, has many. A function marked with `@tool` is a toolbox with one tool.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from .boundary.coroutines import letting_go
from .boundary.threads import in_thread
from .errors import InterventionRefused, PluginError, in_words, is_failure, not_implemented
from .request import Action
from .timeline import Time
from .turns.functions import FunctionSpec, describe

__all__ = ["FunctionTool", "Tool", "Toolbox", "tool"]


class Toolbox:
    """Base class of toolboxes, which provide tools. Only `open` must be implemented."""

    async def open(self) -> Sequence[Tool]:
        raise not_implemented(self, "open")

    async def close(self) -> None:
        """Close connections and processes."""


class Tool:
    """Something an agent can call besides its world's actions."""

    action: Action
    takes: Time = 0
    """World time that a call takes. The answer is observed after it."""
    timeout: float = 60.0
    """Timeout of a call, in seconds of real time."""

    async def call(self, arguments: Mapping[str, Any]) -> str:
        """Return the answer as text. The agent is told about any exception."""
        raise not_implemented(self, "call")

    async def answer(self, arguments: Mapping[str, Any]) -> tuple[bool, str]:
        """Whether the call succeeded, and the text for the agent."""
        deadline = asyncio.timeout(self.timeout)
        try:
            async with deadline:
                asked = self.call(arguments)
                if not inspect.isawaitable(asked):
                    raise PluginError(
                        f"the tool {self.action.name} has a call() that returns a {type(asked).__name__}",
                        fix="define it with `async def`",
                    )
                text = await letting_go(asked)
            if not isinstance(text, str):
                return False, f"{self.action.name} failed: it answered with a {type(text).__name__}, not with text"
            return True, text
        except InterventionRefused as refusal:
            return False, str(refusal)
        except PluginError:
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():  # it is the run that is cancelled
                raise
            return False, f"{self.action.name} failed: it was cancelled from inside"
        except BaseException as error:
            if not is_failure(error):
                raise
            if deadline.expired():
                return False, f"{self.action.name} timed out after {self.timeout:g} s"
            return False, f"{self.action.name} failed: {in_words(error)}"


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
            # In a thread, so that a slow function blocks neither the other episodes nor its own timeout.
            result = await in_thread(self._function, **checked)
            if inspect.isawaitable(result):  # of an `async def` within a decorator
                result = await result
        return result if isinstance(result, str) else _as_text(result)


@overload
def tool(function: Callable[..., Any]) -> FunctionTool: ...
@overload
def tool(*, name: str = "", takes: Time = 0, timeout: float = 60.0) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None, *, name: str = "", takes: Time = 0, timeout: float = 60.0
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Create a tool from a typed function."""

    def make(wrapped: Callable[..., Any]) -> FunctionTool:
        return FunctionTool(wrapped, name=name, takes=takes, timeout=timeout)

    return make if function is None else make(function)


def _as_text(value: object) -> str:
    import json

    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value)
