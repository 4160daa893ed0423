"""The tool interface: a name, a schema, and a call that may fail.

A failing tool produces an observation, never a crash. The agent reads what went wrong and continues.

    @tool
    def weather(city: str) -> str:
        \"\"\"Today's weather in a city.\"\"\"
        return forecasts[city]

A component of kind `tool` is a `Toolbox`, which opens into any number of tools. An MCP server, for example, has many. A
function marked with `@tool` is a toolbox with one tool.

The schema of a function comes from its annotations and its docstring. A line `name: text` in the docstring describes
that parameter. So does `Annotated[int, "text"]`. Arguments from a model are never trusted: those that don't fit the
signature are refused with a message that the model can act on. Actions of environments are described in the same way.

    >>> def book(room: str, people: int = 2) -> str:
    ...     '''Book a room.
    ...
    ...     room: its name
    ...     '''
    >>> spec = describe(book)
    >>> spec.parameters["required"], spec.check({"room": "Nile", "people": "3"})
    (['room'], {'room': 'Nile', 'people': 3})
"""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, overload

from .errors import InterventionRefused, PluginError, in_words, is_failure, not_implemented
from .request import Action
from .timeline import Time

__all__ = ["FunctionSpec", "FunctionTool", "Tool", "Toolbox", "describe", "tool"]

_MOST = 8  # maximum number of problems listed in a refusal
_LONGEST = 100  # maximum number of characters quoted from a model


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
    examples: Sequence[Mapping[str, Any]] = ()
    """Arguments of calls that succeed and do no harm. The contract suite makes these calls, and no others that fit."""

    async def call(self, arguments: Mapping[str, Any]) -> str:
        """Return the answer as text. The agent is told about any exception."""
        raise not_implemented(self, "call")

    async def answer(self, arguments: Mapping[str, Any]) -> tuple[bool, str]:
        """Whether the call succeeded, and the text for the agent."""
        name, deadline = self.action.name, asyncio.timeout(self.timeout)
        try:
            async with deadline:
                asked = self.call(arguments)
                if not inspect.isawaitable(asked):
                    wrong = f"the tool {name} has a call() that returns a {type(asked).__name__}"
                    raise PluginError(wrong, fix="define it with `async def`")
                text = await asked
            if not isinstance(text, str):
                return False, f"{name} failed: it answered with a {type(text).__name__}, not with text"
            return True, text
        except InterventionRefused as refusal:
            return False, str(refusal)
        except PluginError:
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():  # it is the run that is cancelled
                raise
            return False, f"{name} failed: it was cancelled from inside"
        except BaseException as error:
            if not is_failure(error):
                raise
            if deadline.expired():
                return False, f"{name} timed out after {self.timeout:g} s"
            return False, f"{name} failed: {in_words(error)}"


class FunctionTool(Tool, Toolbox):
    """A typed Python function, plain or async, as a tool."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str = "",
        takes: Time = 0,
        timeout: float = 60.0,
        examples: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._function, self.takes, self.timeout, self.examples = function, takes, timeout, examples
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
            result = await asyncio.to_thread(self._called, checked)
            if inspect.isawaitable(result):  # of an `async def` within a decorator
                result = await result
        if isinstance(result, str):
            return result
        try:
            return json.dumps(result, ensure_ascii=False)
        except (TypeError, ValueError):
            return str(result)

    def _called(self, checked: Mapping[str, Any]) -> Any:
        try:
            return self._function(**checked)
        except StopIteration as error:  # a future can't carry it
            raise RuntimeError(f"raised {in_words(error)}") from error


@overload
def tool(function: Callable[..., Any]) -> FunctionTool: ...
@overload
def tool(
    *, name: str = "", takes: Time = 0, timeout: float = 60.0, examples: Sequence[Mapping[str, Any]] = ()
) -> Callable[[Callable[..., Any]], FunctionTool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    *,
    name: str = "",
    takes: Time = 0,
    timeout: float = 60.0,
    examples: Sequence[Mapping[str, Any]] = (),
) -> FunctionTool | Callable[[Callable[..., Any]], FunctionTool]:
    """Create a tool from a typed function."""
    make = partial(FunctionTool, name=name, takes=takes, timeout=timeout, examples=examples)
    return make if function is None else make(function)


class FunctionSpec:
    """A function's name, description, JSON schema, and argument check."""

    __slots__ = ("_model", "description", "name", "parameters")

    def __init__(self, name: str, description: str, model: Any) -> None:
        self.name, self.description, self._model = name, description, model
        self.parameters: dict[str, Any] = model.model_json_schema()
        # Without the titles that pydantic generates from names, and null where it only means that a value is left out.
        self.parameters.pop("title", None)
        for part in self.parameters.setdefault("properties", {}).values():
            part.pop("title", None)
            kinds = [kind for kind in part.get("anyOf", ()) if kind != {"type": "null"}]
            if len(kinds) == 1 and part.get("default", ...) is None:
                del part["anyOf"], part["default"]
                part |= kinds[0]

    def check(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Convert the arguments to the annotated types. Raises `InterventionRefused` with every problem found."""
        from pydantic import ValidationError

        try:
            values = self._model.model_validate(dict(arguments))
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            # A key that a model made up can be of any length, so it is shortened.
            places = [".".join(map(str, problem["loc"]))[:_LONGEST] or "arguments" for problem in found[:_MOST]]
            problems = [f"{place}: {problem['msg']}" for place, problem in zip(places, found, strict=False)]
            if len(found) > _MOST:
                problems.append(f"and {len(found) - _MOST} more")
            raise InterventionRefused(f"{self.name} can't be called like this: {'; '.join(problems)}") from None
        except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise InterventionRefused(f"{self.name} can't be called like this: {str(error)[:_LONGEST]}") from None
        return {member.alias: getattr(values, name) for name, member in self._model.model_fields.items()}


def describe(function: Callable[..., Any], *, name: str = "", skip_first: bool = False) -> FunctionSpec:
    """Describe a typed function as an action, by its signature and docstring. `skip_first` skips `self`."""
    from pydantic import ConfigDict, Field, create_model

    hints = typing.get_type_hints(function, include_extras=True)
    prose: list[str] = []
    notes: dict[str, str] = {}
    for line in (inspect.getdoc(function) or "").splitlines():
        found = re.fullmatch(r"\s*(\w+): (\S.*)", line)
        if found and prose and found[1] in hints:  # "Note: ..." belongs to the description
            notes[found[1]] = found[2].strip()
        elif line.strip().rstrip(":").lower() not in ("args", "arguments", "parameters"):
            prose.append(line)
    members: dict[str, Any] = {}
    for index, parameter in enumerate(inspect.signature(function).parameters.values()):
        if skip_first and index == 0:
            continue
        wrong = f"{function.__qualname__} can't be offered to a model: its parameter {parameter.name!r}"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise TypeError(f"{wrong} isn't passed by name; list every parameter, with a type")
        if parameter.name not in hints:
            raise TypeError(f"{wrong} has no type")
        default = ... if parameter.default is parameter.empty else parameter.default
        hint = hints[parameter.name]
        words = next((note for note in getattr(hint, "__metadata__", ()) if isinstance(note, str)), "")
        words = words or notes.get(parameter.name, "")
        # Prefixed names: parameters called json, copy or _x would clash with pydantic's own.
        members[f"argument_{index}"] = (hint, Field(default, alias=parameter.name, description=words or None))
    shown = name or function.__name__
    # allow_inf_nan: JSON has no NaN or infinity, and few functions expect them.
    model = create_model(shown, __config__=ConfigDict(extra="forbid", allow_inf_nan=False), **members)
    return FunctionSpec(shown, "\n".join(prose).strip(), model)
