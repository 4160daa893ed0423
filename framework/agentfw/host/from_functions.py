"""Makes a component of one function or class, so that a file with a few lines is enough.

    def score(episode):                  # a parameter `episode` makes it a reward
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
from numbers import Real
from types import ModuleType
from typing import Any

from ..boundary.threads import in_thread
from ..component import KINDS
from ..environment import Environment
from ..episode import Episode, Intervention
from ..errors import PluginError
from ..hookspecs import Hook
from ..learner import Learner
from ..memory import Memory
from ..optimizer import Optimizer
from ..policy import Policy
from ..request import Generation, Request
from ..scores import RewardModel, Score
from ..tool import FunctionTool, Tool, Toolbox
from ..tracker import Tracker

__all__ = ["FunctionPolicy", "FunctionReward", "component_of", "kinds_in"]

_BASES: dict[str, type] = {
    "environment": Environment,
    "policy": Policy,
    "tool": Toolbox,
    "memory": Memory,
    "reward": RewardModel,
    "optimizer": Optimizer,
    "learner": Learner,
    "tracker": Tracker,
    "hook": Hook,
}
_EXAMPLES = {
    "tool": "def weather(city: str) -> str: ...",
    "reward": "def score(episode) -> float: ...",
    "policy": "def decide(request) -> str: ...",
}


class FunctionReward(RewardModel):
    """Scores each episode by itself with a function, plain or async."""

    def __init__(self, function: Callable[..., Any], name: str = "") -> None:
        self._function, self.components = function, (name or function.__name__,)

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        return [await self._scored(episode) for episode in group]

    async def _scored(self, episode: Episode) -> Score:
        value = await _called(self._function, episode)
        if not isinstance(value, Real):
            raise TypeError(f"{self._function.__name__}() returned a {type(value).__name__}, not a number")
        return Score(episode.id, self.components[0], float(value))


class FunctionPolicy(Policy):
    """Answers each request with a function, plain or async: text, a call, several calls, or a Generation."""

    is_program = True

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    async def generate(self, request: Request) -> Generation:
        answer = await _called(self._function, request)
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
    """Several tools of one file."""

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


def component_of(kind: str, module: ModuleType, name: str = "") -> object:
    """The component of a kind that a module has, which must be one; of tools there may be several.

    `name` is what a reward of a function calls its scores.
    """
    found = _found(kind, module)
    title, file = KINDS[kind].title, module.__file__ or module.__name__
    if not found:
        example = f", or a function: {_EXAMPLES[kind]}" if kind in _EXAMPLES else ""
        base = _BASES[kind].__name__
        raise PluginError(f"{file} has no {title}", fix=f"define a class that derives from agentfw's {base}{example}")
    if kind == "tool":
        tools = [each() if isinstance(each, type) else _tool(each) for each in found]
        return tools[0] if len(tools) == 1 else _Tools(tools)
    if len(found) > 1:
        names = ", ".join(each.__name__ for each in found)
        fix = f"begin the names of all but one with an underscore: _{found[-1].__name__}"
        raise PluginError(f"{file} has several {KINDS[kind].plural}: {names}", fix=fix)
    made = found[0]
    if isinstance(made, type):
        return made()
    return FunctionReward(made, name) if kind == "reward" else FunctionPolicy(made)


def _tool(made: Any) -> Toolbox:
    return made if isinstance(made, Toolbox) else FunctionTool(made)


def _found(kind: str, module: ModuleType) -> list[Any]:
    """The components of a kind that a module defines: its classes, else its marked tools, else its functions."""
    names = [each for name, each in vars(module).items() if not name.startswith("_")]
    own = [each for each in names if getattr(each, "__module__", None) == module.__name__]
    made: list[Any] = [each for each in own if isinstance(each, type) and issubclass(each, _BASES[kind])]
    if kind == "tool":
        made += [each for each in names if isinstance(each, FunctionTool)]
    return made or [each for each in own if inspect.isfunction(each) and _kind_of(each) == kind]


def _kind_of(function: Callable[..., Any]) -> str:
    parameters = inspect.signature(function).parameters
    return "reward" if "episode" in parameters else "policy" if "request" in parameters else "tool"


async def _called(function: Callable[..., Any], given: object) -> Any:
    """A plain function runs in a thread, so that a slow one keeps nobody waiting."""
    if inspect.iscoroutinefunction(function):
        return await function(given)
    return await in_thread(function, given)
