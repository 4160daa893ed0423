"""Makes a component of one function or class, so that a file with a few lines is enough.

    def score(episode):                  # a reward by its parameters (see reward_functions)
        return float(len(episode.turns) < 5)

    def decide(request):                 # a parameter `request` makes it a policy
        return "pour()"

    def weather(city: str) -> str:       # any other function is a tool
        "Today's weather in a city."
        return "sunny"

    component_of("reward", module)       # a RewardModel

A class that derives from the base class of a kind, such as `agentfw.Memory`, is made without arguments. What a name
with an underscore in front stands for is left alone, and so is what the module has imported. Where a tool is marked
with `@tool`, only those that are marked are tools.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from ..component import KINDS
from ..episode import Intervention
from ..errors import PluginError, UnknownNameError
from ..policy import Policy
from ..request import Generation, Request
from ..tool import FunctionTool, Tool, Toolbox
from .reward_functions import FunctionReward, call_function, is_reward

__all__ = ["FunctionPolicy", "component_of", "kinds_in", "made_of"]

_EXAMPLES = {
    "tool": "def weather(city: str) -> str: ...",
    "reward": "def score(episode) -> float: ...",
    "policy": "def decide(request) -> str: ...",
}


class FunctionPolicy(Policy):
    """Answers each request with a function, plain or async: text, a call, several calls, or a Generation."""

    is_program = True

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    async def generate(self, request: Request) -> Generation:
        answer = await call_function(self._function, request)
        version = self._function.__name__
        if isinstance(answer, Generation):
            return answer
        if isinstance(answer, str):
            return Generation(answer, version=version)
        calls = [answer] if isinstance(answer, Intervention) else answer
        if not isinstance(calls, list | tuple) or not all(isinstance(call, Intervention) for call in calls):
            raise TypeError(f"{version}() returned a {type(answer).__name__}, not text or a list of agentfw.Call")
        return Generation(calls=tuple(calls), version=version)


class _Tools(Toolbox):
    def __init__(self, toolboxes: Sequence[Toolbox]) -> None:
        self._toolboxes = toolboxes

    async def open(self) -> Sequence[Tool]:
        return [tool for toolbox in self._toolboxes for tool in await toolbox.open()]

    async def close(self) -> None:
        for toolbox in self._toolboxes:
            await toolbox.close()


def kinds_in(module: ModuleType) -> list[str]:
    """The kinds of components that a module has."""
    return [kind for kind in KINDS if _found(kind, module)]


def component_of(kind: str, module: ModuleType, name: str = "", attribute: str = "") -> object:
    """The component of a kind that a module has, which must be one; of tools there may be several.

    `name` is what a reward of a function calls its scores. `attribute` says which of several is meant.
    """
    title, file = KINDS[kind].title, module.__file__ or module.__name__
    if attribute:
        if not hasattr(module, attribute):
            known = [each for each in vars(module) if not each.startswith("_")]
            raise UnknownNameError(f"name in {file}", attribute, known, fix=f"name the {title}: FILE.py:NAME")
        return made_of(kind, getattr(module, attribute), name)
    found = _found(kind, module)
    if not found:
        example = f", or a function: {_EXAMPLES[kind]}" if kind in _EXAMPLES else ""
        base = KINDS[kind].base_class().__name__
        raise PluginError(f"{file} has no {title}", fix=f"define a class that derives from agentfw's {base}{example}")
    if kind == "tool":
        tools = [made_of("tool", each) for each in found]
        return tools[0] if len(tools) == 1 else _Tools(tools)
    if len(found) > 1:
        names = ", ".join(each.__name__ for each in found)
        text = f"{file} has several {KINDS[kind].plural}: {names}"
        raise PluginError(text, fix=f"name one: {file}:{found[-1].__name__}")
    return made_of(kind, found[0], name)


def made_of(kind: str, given: Any, name: str = "") -> Any:
    """The component that an object, a class or a function stands for."""
    if isinstance(given, type):
        return given()
    if isinstance(given, KINDS[kind].base_class()):
        return given
    if not callable(given) or kind not in _EXAMPLES or (kind == "reward" and not is_reward(given, named=True)):
        fix = f"derive a class from agentfw's {KINDS[kind].base_class().__name__}"
        fix += f", or write a function: {_EXAMPLES[kind]}" if kind in _EXAMPLES else ""
        raise PluginError(f"{given!r} is no {KINDS[kind].title}", fix=fix)
    if kind == "tool":
        return FunctionTool(given)
    return FunctionReward(given, name) if kind == "reward" else FunctionPolicy(given)


def _found(kind: str, module: ModuleType) -> list[Any]:
    """The components of a kind that a module defines: its classes, else its marked tools, else its functions."""
    names = [each for name, each in vars(module).items() if not name.startswith("_")]
    own = [each for each in names if getattr(each, "__module__", None) == module.__name__]
    base = KINDS[kind].base_class()
    made: list[Any] = [each for each in own if isinstance(each, type) and issubclass(each, base)]
    if kind == "tool":
        made += [each for each in names if isinstance(each, FunctionTool)]
    return made or [each for each in own if inspect.isfunction(each) and _kind_of(each) == kind]


def _kind_of(function: Callable[..., Any]) -> str:
    parameters = inspect.signature(function).parameters
    return "reward" if is_reward(function) else "policy" if "request" in parameters else "tool"
