"""An agent made of a policy, tools and memories.

The conversation that the policy reads is built here and nowhere else. Each message is created once, so consecutive
turns share their prefix, in the record and for whatever learns from it.

New observations become one user message, together with what the memories recalled. Answers to the policy's own calls
are tool messages. An interrupted answer stays in the conversation up to where it was interrupted.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from itertools import chain

from .agent import Agent, Decision
from .episode import Call, Message, Observation, Task
from .errors import UsageError
from .memory import Memory, Query, Recollection
from .parsing import parse_calls
from .policy import Policy
from .request import Brief, Generation, InFlight, Moment, Request, Sampling
from .tool import Tool

__all__ = ["PolicyAgent"]


class PolicyAgent(Agent):
    """The agent of one episode. It shares policy, tools and memories with other episodes, but not the conversation."""

    def __init__(
        self,
        policy: Policy,
        tools: Sequence[Tool] = (),
        memories: Sequence[Memory] = (),
        *,
        sampling: Sampling | None = None,
        window: int | None = None,
        recall: int = 5,
    ) -> None:
        self.policy, self.memories, self.sampling = policy, memories, sampling or Sampling()
        self.window, self.recall = window, recall
        self._given = tools
        self._tools: dict[str, Tool] = {}
        self._acting = False

    def begin(self, task: Task, brief: Brief) -> None:
        self.task, self.brief = task, brief
        self._past: list[list[Message]] = []
        self._begun: list[int] = []
        """Where each round begins among the turns; in a world without rounds, each turn that has news."""
        self._round = 0
        self._open: dict[str, Call] = {}
        self._asked = 0
        self._scenarios: tuple[str, ...] = ()
        self._was_broken_off = False
        self._answered: tuple[list[Message], Generation] | None = None
        for memory in self.memories:
            memory.begin(task)
            if brief.profile:
                memory.meet(task.user, brief.profile)
        offered = [*self._given, *(tool for memory in self.memories for tool in memory.tools(task))]
        self._tools = {tool.action.name: tool for tool in offered}
        self._actions = (*brief.actions, *(tool.action for tool in offered))
        self._names = {action.name for action in self._actions}
        self._system = Message("system", brief.goal)

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self._tools

    def attend(self, observations: Sequence[Observation], thought: InFlight) -> bool:
        """Interrupt once for news, then not until the next answer. A busy world would otherwise prevent any answer."""
        return not self._was_broken_off

    async def act(self, moment: Moment) -> Decision:
        if self._acting:  # two episodes would mix in one conversation
            raise UsageError(
                "one PolicyAgent is in two engagements at once",
                fix="create one PolicyAgent per engagement; they can share the policy, the tools and the memories",
            )
        self._acting = True
        try:
            return await self._act(moment)
        finally:
            self._acting = False

    async def _act(self, moment: Moment) -> Decision:
        self._was_broken_off = moment.interrupted is not None
        self._listen(moment, await self._recall(moment))
        shown = [self._system, *self._window()]
        generation = await self.policy.generate(
            Request(shown, self._actions, self.sampling, moment, self.brief, self.task, self._before(shown, moment))
        )
        # A policy that reports nothing else has sampled as requested.
        if generation.temperature is None:
            generation.temperature = self.sampling.temperature
        if generation.top_p is None:
            generation.top_p = self.sampling.top_p
        self._answered = shown, generation
        calls, failures = generation.calls, []
        if not calls and generation.text and not self.brief.plain:
            parsed = parse_calls(generation.text, self._names)
            calls, failures = tuple(parsed.calls), parsed.failures
        self._asked += 1
        if not all(call.id for call in generation.calls) or not generation.calls:
            # Calls parsed from text, or made by a program, get ids that are unique in this conversation.
            calls = tuple(Call(call.name, call.arguments, f"{self._asked}.{i}") for i, call in enumerate(calls))
        self._past[-1].append(Message("assistant", generation.text, calls))
        self._open.update((call.id, call) for call in calls)
        takes = self.policy.generation_time(generation, self.brief.time_per_token)
        return Decision(calls, takes, None, generation, shown, failures)

    def _before(self, shown: Sequence[Message], moment: Moment) -> Generation | None:
        """How the last answer was generated, if the messages it was shown are still a prefix of the conversation."""
        if self._answered is None:
            return None
        earlier, generation = self._answered
        goes_on = len(shown) > len(earlier) and all(map(operator.is_, shown, earlier))
        generation = moment.interrupted or generation
        return generation if goes_on and shown[len(earlier)].content == generation.text else None

    def _window(self) -> list[Message]:
        """The conversation so far, or its last `window` rounds with all their turns."""
        first = 0 if self.window is None else self._begun[-self.window :][0]
        messages = list(chain.from_iterable(self._past[first:]))
        if first:
            # A chat model can't read an answer without its call.
            while messages[0].role == "tool":
                messages.pop(0)
        return messages

    async def _recall(self, moment: Moment) -> list[Recollection]:
        if not self.memories:
            return []
        text = "\n".join(str(observation) for observation in moment.observations)
        for observation in moment.observations:
            about = observation.data.get("scenarios")
            if isinstance(about, (list, tuple)):
                self._scenarios = tuple(map(str, about))
        query = Query(text, self.task, moment.now, moment.round, self.recall, self._scenarios)
        return [found for memory in self.memories for found in await memory.recall(query)]

    def _listen(self, moment: Moment, recalled: Sequence[Recollection]) -> None:
        """Add new observations to the conversation."""
        if moment.interrupted is not None and self._past:
            broken = self._past[-1].pop()
            for call in broken.calls:
                self._open.pop(call.id)
            if moment.interrupted.text:
                self._past[-1].append(Message("assistant", moment.interrupted.text))
        entry: list[Message] = []
        rest: list[Observation] = []
        for observation in moment.observations:
            name = str(observation.data.get("call", ""))
            if name in self._open:
                del self._open[name]
                entry.append(Message("tool", str(observation), answers=name))
            else:
                rest.append(observation)
        # A chat needs an answer to every call. Without an answer from the world, the call was accepted.
        entry += [Message("tool", "accepted", answers=name) for name in self._open]
        self._open.clear()
        lines = [f"[{moment.now:g}]" + (f" round {moment.round} of {moment.rounds}" if moment.rounds else "")]
        lines += [f"- {found.text}" for found in recalled]
        if recalled:
            lines.insert(1, "You remember:")
        lines += [str(observation) for observation in rest]
        lines += [f"({work.name}: {work.spent:g} of {work.duration:g} done)" for work in moment.in_flight]
        if len(lines) > 1 or not entry:  # after a tool's answer, the time alone says nothing
            entry.append(Message("user", "\n".join(lines)))
            if not moment.round or moment.round != self._round:
                self._round = moment.round
                self._begun.append(len(self._past))
        self._past.append(entry)
