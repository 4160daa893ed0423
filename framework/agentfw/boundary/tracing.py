"""Tells trackers how long each part of an episode took: every answer, tool call and recall.

The components of an episode are wrapped only where a tracker asks for that, so no other run pays for it.

    policy = TracedPolicy(policy, "openai", trace=print)
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import copy, deepcopy
from types import TracebackType
from typing import Any, TypeVar

from ...episode import Task
from ...forwarding import Forwarded, Passed
from ...memory import Memory, Query, Recollection
from ...operation import Operation, PolicyCall, Recall, ToolCall
from ...policy import Policy
from ...request import Generation, Request
from ...timeline import Time
from ...tool import Tool

__all__ = ["Clock", "Trace", "TracedMemory", "TracedPolicy", "TracedTool"]

Answer = TypeVar("Answer")
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


class TracedPolicy(Policy):
    """Asks another policy on behalf of one episode."""

    def __init__(self, policy: Policy, name: str, trace: Trace) -> None:
        self.policy, self.name, self.trace = policy, name, trace
        self.forwards, self.continues = policy.forwards, policy.continues
        self.follows_schemas = policy.follows_schemas

    async def generate(self, request: Request) -> Generation:
        return await self._timed(request, self.policy.generate(request), lambda found: found)

    async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
        return await self._timed(request, self.policy.stream(request, tell), lambda found: found)

    async def forward(self, request: Request, forwarded: Forwarded) -> Passed:
        return await self._timed(request, self.policy.forward(request, forwarded), lambda passed: passed.generations[0])

    async def speaks(self, path: str, model: str = "") -> bool:
        return await self.policy.speaks(path, model)

    async def count_tokens(self, request: Request) -> int:
        return await self.policy.count_tokens(request)

    def generation_time(self, generation: Generation, time_per_token: Time) -> Time:
        return self.policy.generation_time(generation, time_per_token)

    async def _timed(
        self, request: Request, answer: Awaitable[Answer], generated: Callable[[Answer], Generation]
    ) -> Answer:
        clock, found = Clock(), None
        try:
            with clock:
                found = await answer
            return found
        finally:
            self.trace(
                PolicyCall(
                    task=request.task,
                    name=self.name,
                    messages=tuple(request.messages),
                    sampling=request.sampling,
                    generation=None if found is None else copy(generated(found)),
                    **clock.times,
                )
            )


class TracedTool(Tool):
    """Calls another tool on behalf of one episode."""

    def __init__(self, tool: Tool, task: Task, trace: Trace) -> None:
        self.tool, self.task, self.trace = tool, task, trace
        self.action, self.takes, self.timeout = tool.action, tool.takes, tool.timeout

    async def answer(self, arguments: Mapping[str, Any]) -> tuple[bool, str]:
        clock, well, text = Clock(), False, ""
        try:
            with clock:
                well, text = await self.tool.answer(arguments)
            return well, text
        finally:
            clock.error = clock.error or ("" if well else "tool_error")
            given = deepcopy(dict(arguments))
            name = self.action.name
            self.trace(ToolCall(task=self.task, name=name, arguments=given, answer=text, **clock.times))


class TracedMemory(Memory):
    """Asks another memory on behalf of one episode."""

    def __init__(self, memory: Memory, name: str, trace: Trace) -> None:
        self.memory, self.name, self.trace = memory, name, trace

    async def recall(self, query: Query) -> Sequence[Recollection]:
        clock, found = Clock(), tuple[Recollection, ...]()
        try:
            with clock:
                found = tuple(await self.memory.recall(query))
            return found
        finally:
            self.trace(Recall(task=query.task, name=self.name, query=query, found=deepcopy(found), **clock.times))

    def begin(self, task: Task) -> None:
        self.memory.begin(task)

    def introduce(self, user: str, profile: Mapping[str, str]) -> None:
        self.memory.introduce(user, profile)

    def tools(self, task: Task) -> Sequence[Tool]:
        return [TracedTool(tool, task, self.trace) for tool in self.memory.tools(task)]

    async def offered(self, task: Task) -> Sequence[Tool]:
        return [TracedTool(tool, task, self.trace) for tool in await self.memory.offered(task)]
