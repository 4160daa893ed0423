"""The contract of toolboxes and their tools.

No tool is called with valid arguments, because that could do anything. So a tool that accepts all arguments is only
opened and closed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..boundary.coroutines import misplaced_coroutine
from ..tool import Tool, Toolbox
from .checks import CheckFunction, DoesNotApply, Subject, require
from .schemas import check_actions, unfitting

__all__ = ["TOOL", "check_tools"]

Boxes = Subject[Toolbox]


async def it_opens_into_tools(subject: Boxes) -> None:
    """It provides at least one tool that a model can call, and their names are unique."""
    box = subject.make()
    try:
        tools = await box.open()
        require(len(tools) > 0, "it opens into no tool at all")
        check_tools(tools)
    finally:
        await box.close()


async def wrong_arguments_are_answered(subject: Boxes) -> None:
    """A call with arguments that don't fit is a failed answer in words, never an exception."""
    box = subject.make()
    tried = 0
    try:
        for tool in await box.open():
            for arguments, why in unfitting(tool.action.parameters):
                tried += 1
                well, text = await tool.answer(arguments)
                require(not well, f"{tool.action.name} took arguments that don't fit: {why}")
                require(isinstance(text, str) and text, f"{tool.action.name} failed without a word: {why}")
    finally:
        await box.close()
    if not tried:
        raise DoesNotApply("its tools take any arguments")


async def closing_twice_is_fine(subject: Boxes) -> None:
    """It can be closed twice, and without having been opened."""
    box = subject.make()
    await box.open()
    await box.close()
    await box.close()
    await subject.make().close()


def check_tools(tools: Sequence[Tool]) -> None:
    """Broken unless an agent can be offered these tools."""
    for tool in tools:
        require(isinstance(tool, Tool), f"one of its tools is a {type(tool).__name__}")
    check_actions([tool.action for tool in tools])
    for tool in tools:
        name = tool.action.name
        wrong = misplaced_coroutine(type(tool), Tool)
        require(not wrong, f"the tool {name} {wrong}")
        require(math.isfinite(tool.takes) and tool.takes >= 0, f"a call of {name} can't take {tool.takes}")
        require(tool.timeout > 0, f"a call of {name} can't be given up after {tool.timeout} s")


TOOL: list[CheckFunction] = [it_opens_into_tools, wrong_arguments_are_answered, closing_twice_is_fine]
