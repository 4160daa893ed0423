"""An agent made of a policy, tools and memories.

The conversation that the policy reads is built here and nowhere else. Each message is created once, so consecutive
turns share their prefix, in the record and for whatever learns from it.

New observations become one user message, together with what the memories recalled. Answers to the policy's own calls
are tool messages. An interrupted answer stays in the conversation up to where it was interrupted.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from itertools import chain, dropwhile

from ..agent import Agent, Decision
from ..episode import Call, Message, Observation, Task
from ..errors import UsageError
from ..memory import Memory, Recollection
from ..policy import Policy
from ..request import Brief, Generation, InFlight, Moment, Request, Sampling
from ..tool import Tool
from .turn_builder import TurnBuilder


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
        self.policy, self.sampling, self.window = policy, sampling or Sampling(), window
        self.builder = TurnBuilder(tools, memories, recall)
        self._acting = False

    def begin(self, task: Task, brief: Brief) -> None:
        self.task, self.brief = task, brief
        self._past: list[list[Message]] = []
        self._begun: list[int] = []
        """Where each round begins among the turns; in a world without rounds, each turn that has news."""
        self._round = self._asked = 0
        self._open: dict[str, Call] = {}
        self._scenarios: tuple[str, ...] = ()
        self._was_broken_off = False
        self._answered: tuple[list[Message], Generation] | None = None
        self.builder.begin(task, brief.profile)
        self._actions = (*brief.actions, *(tool.action for tool in self.tools.values()))
        self._names = {action.name for action in self._actions}
        self._system = Message("system", brief.goal)

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self.builder.tools

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
        recalled = list[Recollection]()
        if self.builder.memories:
            for about in (observation.data.get("scenarios") for observation in moment.observations):
                if isinstance(about, (list, tuple)):
                    self._scenarios = tuple(map(str, about))
            text = "\n".join(map(str, moment.observations))
            recalled = await self.builder.recall(text, moment.now, moment.round, self._scenarios)
        self._listen(moment, recalled)
        # The conversation so far, or its last `window` rounds with all their turns.
        first = 0 if self.window is None else self._begun[-self.window :][0]
        messages = chain.from_iterable(self._past[first:])
        # A chat model can't read an answer without its call.
        shown = [self._system, *dropwhile(lambda message: message.role == "tool", messages)]
        before = None  # how the last answer was generated, if what it was shown still begins the conversation
        if self._answered is not None:
            earlier, last = self._answered
            last = moment.interrupted or last
            goes_on = len(shown) > len(earlier) and all(map(operator.is_, shown, earlier))
            before = last if goes_on and shown[len(earlier)].content == last.text else None
        request = Request(shown, self._actions, self.sampling, moment, self.brief, self.task, before)
        generation = await self.policy.generate(request)
        self._answered = shown, generation
        self._asked += 1
        answer = self.builder.read(generation, self.sampling, self._names, f"{self._asked}.", plain=self.brief.plain)
        self._past[-1].append(Message("assistant", generation.text, answer.calls))
        self._open.update((call.id, call) for call in answer.calls)
        takes = self.policy.generation_time(generation, self.brief.time_per_token)
        return Decision(answer.calls, takes, None, generation, shown, answer.failures, answer.said, recalled)

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
            if self._open.pop(name, None) is not None:
                entry.append(Message("tool", str(observation), answers=name))
            else:
                rest.append(observation)
        # A chat needs an answer to every call. Without an answer from the world, the call was accepted.
        entry += [Message("tool", "accepted", answers=name) for name in self._open]
        self._open.clear()
        lines = [f"[{moment.now:g}]" + (f" round {moment.round} of {moment.rounds}" if moment.rounds else "")]
        lines += self.builder.told(recalled)
        lines += map(str, rest)
        lines += [f"({work.name}: {work.spent:g} of {work.duration:g} done)" for work in moment.in_flight]
        if len(lines) > 1 or not entry:  # after a tool's answer, the time alone says nothing
            entry.append(Message("user", "\n".join(lines)))
            if not moment.round or moment.round != self._round:
                self._round = moment.round
                self._begun.append(len(self._past))
        self._past.append(entry)
