"""The layer that tells trackers how long each part of an episode took: every answer, tool call and recall.

The components of an episode are wrapped only where a tracker asks for that, so no other run pays for it.

    policy = traced("policy", policy, "openai", print)
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from ..episode import Task
from ..operation import Operation
from .calls import Call
from .crossing import Layer, layered
from .forms import TOOLS

__all__ = ["Clock", "Trace", "Traced", "traced"]

Trace = Callable[[Operation], object]


class Clock:
    """Takes the time of what happens in its `with` block, and the error that ends it."""

    began = ended = 0.0
    error = ""

    def __enter__(self) -> Clock:
        self.began = time.time()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended = time.time()
        self.error = "" if kind is None else kind.__name__

    @property
    def times(self) -> dict[str, Any]:
        """The fields of an operation."""
        return {"began": self.began, "ended": self.ended, "error": self.error}


class Traced(Layer):
    """The component, called on behalf of one episode."""

    def __init__(self, component: Any, name: str, trace: Trace, task: Task | None = None) -> None:
        self.inside, self.name, self.trace, self.task = component, name, trace, task
        self.take_attributes(component)

    async def later(self, call: Call, given: tuple[Any, ...]) -> Any:
        if call.operation is None:
            return self._with_tools(call, given, await super().later(call, given))
        clock, found = Clock(), None
        try:
            with clock:
                found = await super().later(call, given)
            return found
        finally:
            self.trace(call.operation(self, given, found, clock))

    def now(self, call: Call, given: tuple[Any, ...]) -> Any:
        return self._with_tools(call, given, super().now(call, given))

    def _with_tools(self, call: Call, given: tuple[Any, ...], found: Any) -> Any:
        if call.answer is not TOOLS:
            return found
        return [traced("tool", tool, tool.action.name, self.trace, given[0]) for tool in found]


def traced(kind: str, component: Any, name: str, trace: Trace, task: Task | None = None) -> Any:
    """The component, of whose calls `trace` is told. A tool belongs to the episode of a task."""
    return layered(Traced, kind)(component, name, trace, task)
