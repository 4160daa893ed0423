"""Components whose every call goes through a guard.

The agent calls policy and memories in the middle of an episode. Without guards of their own, what they raise would be
taken for a failure of the environment, and a server that hangs would stop the run for ever.

    policy = GuardedPolicy(policy, Guard(host, "policy", "vllm", deadline=600))
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import TypeVar

from ...episode import Episode, Task, Usage
from ...errors import EndpointError
from ...memory import Memory, Query, Recollection
from ...policy import Policy
from ...request import Generation, Request
from ...scores import RewardModel, Score
from ...timeline import Time
from ...tool import Tool, Toolbox
from ..spec.run_spec import BudgetSettings
from .creation import Guard
from .spending import Spending

__all__ = ["GuardedMemory", "GuardedPolicy", "GuardedReward", "GuardedToolbox", "listed"]

Item = TypeVar("Item")


class GuardedPolicy(Policy):
    """Asks another policy. Silence until the deadline is an EndpointError: usually its server hangs."""

    def __init__(self, policy: Policy, guard: Guard, spending: Spending | None = None) -> None:
        self.policy, self.guard = policy, guard
        self.spending = spending or Spending(BudgetSettings())

    def open(self, folder: Path) -> None:
        with self.guard.calling("open()"):
            self.policy.open(folder)

    async def generate(self, request: Request) -> Generation:
        return await self._answered("generate()", lambda: self.policy.generate(request), request)

    async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
        return await self._answered("stream()", lambda: self.policy.stream(request, tell), request)

    async def _answered(self, call: str, ask: Callable[[], Awaitable[Generation]], request: Request) -> Generation:
        def answer() -> Awaitable[Generation]:
            return self.guard.answer(call, ask, request.task.id if request.task else "", EndpointError)

        found = await self.spending.ask(answer)
        self.guard.require(isinstance(found, Generation), f"answered with a {type(found).__name__}, not a Generation")
        found.usage = self.policy.priced(found.usage)
        if not found.repeated and not _by_program(self.policy, found.usage):
            self.spending.count(found.usage)
        return found

    async def publish(self, adapter: Path, version: str) -> None:
        await self.guard.answer("publish()", lambda: self.policy.publish(adapter, version), late=EndpointError)

    async def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Sequence[float]:
        return await self.guard.answer(
            "logprobs()", lambda: self.policy.logprobs(prompt_ids, token_ids), late=EndpointError
        )

    def replicas(self) -> Sequence[Policy]:
        with self.guard.calling("replicas()"):
            return [GuardedPolicy(replica, self.guard, self.spending) for replica in self.policy.replicas()]

    def metrics(self) -> Mapping[str, float]:
        with self.guard.calling("metrics()"):
            return dict(self.policy.metrics())

    async def rest(self) -> None:
        await self.guard.answer("rest()", self.policy.rest, late=EndpointError)

    async def wake(self) -> None:
        await self.guard.answer("wake()", self.policy.wake, late=EndpointError)

    def generation_time(self, generation: Generation, time_per_token: Time) -> Time:
        with self.guard.calling("generation_time()"):
            takes = self.policy.generation_time(generation, time_per_token)
            self.guard.require(takes >= 0, f"says that an answer takes {takes}")
        return takes

    async def close(self) -> None:
        await self.guard.answer("close()", self.policy.close)


class GuardedMemory(Memory):
    """Asks another memory."""

    def __init__(self, memory: Memory, guard: Guard) -> None:
        self.memory, self.guard = memory, guard

    async def recall(self, query: Query) -> Sequence[Recollection]:
        episode = query.task.id
        found = await self.guard.answer("recall()", lambda: self.memory.recall(query), episode)
        with self.guard.calling("recall()", episode):
            recalled = listed(found, Recollection, self.guard, limit=query.limit)
            self.guard.require(all(isinstance(one.text, str) for one in recalled), "recalled something without text")
        return recalled

    async def learn(self, episode: Episode, reward: float) -> None:
        await self.guard.answer("learn()", lambda: self.memory.learn(episode, reward), episode.id)

    async def forget(self, user: str) -> Mapping[str, int]:
        return dict(await self.guard.answer("forget()", lambda: self.memory.forget(user)))

    def open(self, folder: Path) -> None:
        with self.guard.calling("open()"):
            self.memory.open(folder)

    def begin(self, task: Task) -> None:
        with self.guard.calling("begin()", task.id):
            self.memory.begin(task)

    def meet(self, user: str, profile: Mapping[str, str]) -> None:
        with self.guard.calling("meet()"):
            self.memory.meet(user, profile)

    def tools(self, task: Task) -> Sequence[Tool]:
        with self.guard.calling("tools()", task.id):
            return listed(self.memory.tools(task), Tool, self.guard)

    async def close(self) -> None:
        await self.guard.answer("close()", self.memory.close)


class GuardedReward(RewardModel):
    """Asks another reward model, and checks its scores: one NaN would spread to every mean."""

    def __init__(self, model: RewardModel, guard: Guard, spending: Spending | None = None) -> None:
        self.model, self.guard = model, guard
        self.spending = spending or Spending(BudgetSettings())

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        found = await self.spending.finish(lambda: self.guard.answer("score()", lambda: self.model.score(group)))
        with self.guard.calling("score()"):
            scores, known = listed(found, Score, self.guard), {episode.id for episode in group}
            for score in scores:
                self._check(score.episode in known, f'scored the unknown episode "{score.episode}"')
                number = isinstance(score.value, Real) and math.isfinite(score.value)
                self._check(number, f'gave {score.value} for episode {score.episode} as "{score.component}"')
            used = sum((score.usage for score in scores), Usage(0, 0, 0))
        if not _by_program(self.model.policy, used):
            self.spending.count(judges=used)
        return scores

    async def learn(self, episode: Episode) -> None:
        await self.guard.answer("learn()", lambda: self.model.learn(episode), episode.id)

    async def settle(self, folder: Path) -> bool:
        return bool(await self.guard.answer("settle()", lambda: self.model.settle(folder)))

    def open(self, folder: Path) -> None:
        with self.guard.calling("open()"):
            self.model.open(folder)

    async def close(self) -> None:
        await self.guard.answer("close()", self.model.close)

    def _check(self, holds: bool, text: str) -> None:
        self.guard.require(
            holds, text, "fix the reward model, or remove it: a score is a finite number for a given episode"
        )


class GuardedToolbox(Toolbox):
    """Opens another toolbox. The calls of its tools have timeouts of their own."""

    def __init__(self, toolbox: Toolbox, guard: Guard) -> None:
        self.toolbox, self.guard = toolbox, guard

    async def open(self) -> list[Tool]:
        found = await self.guard.answer("open()", self.toolbox.open)
        with self.guard.calling("open()"):
            return listed(found, Tool, self.guard)

    async def close(self) -> None:
        await self.guard.answer("close()", self.toolbox.close)


def _by_program(policy: Policy | None, usage: Usage) -> bool:
    """Whether the usage is unknown because a program has no tokens."""
    return usage.tokens is None and policy is not None and policy.is_program


def listed(found: Iterable[Item], kind: type[Item], guard: Guard, *, limit: int | None = None) -> list[Item]:
    """What a component gave, as a list of our own: a sequence of a plugin's may be anything, and have no end."""
    items = list(islice(found, limit))
    for item in items:
        guard.require(isinstance(item, kind), f"gave a {type(item).__name__}, not a {kind.__name__}")
    return items
