"""Builds the turns of one episode: what the memories recall for it, which tools there are, and how an answer is read.

Agents in a world and sessions that are led from outside share it, so a memory acts alike in all of them.

    turns = TurnBuilder(tools, memories)
    turns.begin(task)
    found = await turns.recall("Which tea?")
    parsed = turns.read(generation, sampling, names, "call_0_")
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from ..episode import Task
from ..errors import UsageError
from ..memory import Memory, Query, Recollection
from ..request import Generation, Sampling
from ..timeline import Time
from ..tool import Tool
from .parsing import Parsed

__all__ = ["TurnBuilder"]


class TurnBuilder:
    """The turns of one episode."""

    def __init__(self, tools: Sequence[Tool] = (), memories: Sequence[Memory] = (), recall: int = 5) -> None:
        self.memories = memories
        self.task: Task | None = None
        """The episode, once the memories know of it."""
        self.tools: Mapping[str, Tool] = {tool.action.name: tool for tool in tools}
        """The tools, by name. Those of the memories are among them once the episode has begun."""
        self._given, self._limit = tools, recall

    def begin(self, task: Task, profile: Mapping[str, str] | None = None) -> None:
        """Tell the memories that an episode begins, and take their tools."""
        for memory in self.memories:
            memory.begin(task)
            if profile:
                memory.introduce(task.user, profile)
        self._take(task, [tool for memory in self.memories for tool in memory.tools(task)])

    async def join(self, task: Task, *, goes_on: bool = False) -> None:
        """Like `begin`, while others are served. The memories know already of an episode that goes on."""
        for memory in self.memories if not goes_on else ():
            memory.begin(task)
        self._take(task, [tool for memory in self.memories for tool in await memory.offered(task)])

    def _take(self, task: Task, tools: Sequence[Tool]) -> None:
        tools = [*self._given, *tools]
        names = [tool.action.name for tool in tools]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UsageError(f"two tools are called {', '.join(twice)}", fix="leave one of them out")
        self.task, self.tools = task, dict(zip(names, tools, strict=True))

    async def recall(
        self, text: str, now: Time = 0, round: int = 0, scenarios: tuple[str, ...] = ()
    ) -> list[Recollection]:
        """What the memories recall in a situation, in their order."""
        if self.task is None or not self.memories:
            return []
        query = Query(text, self.task, now, round, self._limit, scenarios)
        return [found for memory in self.memories for found in await memory.recall(query)]

    @staticmethod
    def told(found: Sequence[Recollection]) -> list[str]:
        """The lines with which a policy is told what was recalled."""
        return ["You remember:", *(f"- {one.text}" for one in found)] if found else []

    @staticmethod
    def read(
        generation: Generation, sampling: Sampling, names: Collection[str], ids: str, *, plain: bool = False
    ) -> Parsed:
        """Read an answer. With `plain`, only what the policy itself told apart is a call.

        Calls without ids of their own, such as those that are parsed from text, get ids that begin with `ids`, which is
        new in the conversation.
        """
        # A policy that reports nothing else has sampled as requested.
        if generation.temperature is None:
            generation.temperature = sampling.temperature
        if generation.top_p is None:
            generation.top_p = sampling.top_p
        if plain:
            parsed = Parsed(
                list(generation.calls), rest=generation.text if generation.said is None else generation.said
            )
        else:
            parsed = generation.read(names)
        known = [call.id for call in generation.calls]
        if not known or not all(known) or len(set(known)) < len(known):
            parsed.calls = [replace(call, id=f"{ids}{number}") for number, call in enumerate(parsed.calls)]
        return parsed
