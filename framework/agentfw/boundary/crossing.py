"""Components whose every call goes through a guard.

The agent calls policy and memories in the middle of an episode. Without guards of their own, what they raise would be
taken for a failure of the environment, and a server that hangs would stop the run for ever.

    policy = GuardedPolicy(policy, Guard(host, "policy", "vllm", deadline=600))
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

from ...episode import Episode, Intervention, Task, Usage
from ...errors import EndpointError, one_line
from ...forwarding import Forwarded, Passed
from ...memory import Embedded, Memory, Query, Recollection, Remembered, Saying
from ...policy import Policy
from ...request import Generation, Request
from ...runs.records.long_texts import LongTexts
from ...runs.spec.run_spec import SpendingSettings
from ...scores import RewardModel, Score, wrong_scores
from ...timeline import Time
from ...tool import Tool, Toolbox
from ..plain_calls import exact, misplaced_coroutine, plain
from ..secrets import Pieces, strike, struck
from .creation import Alive, Guard
from .spending import Spending

__all__ = [
    "GuardedMemory",
    "GuardedPolicy",
    "GuardedReward",
    "GuardedTool",
    "GuardedToolbox",
    "listed",
]

Item = TypeVar("Item")

_FIELDS: dict[str, type | tuple[type, ...]] = {
    "text": str,
    "calls": (tuple, list),
    "count": int,
    "prompt_ids": (tuple, list),
    "token_ids": (tuple, list),
    "logprobs": (tuple, list),
    "pieces": (tuple, list),
    "version": str,
    "finish": str,
    "usage": Usage,
}
"""The fields of an answer, and what they may be."""
_MOST = 1_000_000
"""Items that an answer may have."""
_ITEMS: dict[str, type | tuple[type, ...]] = {
    "calls": Intervention,
    "prompt_ids": int,
    "token_ids": int,
    "logprobs": (float, int),
    "pieces": str,
}
"""What their items are."""


class GuardedPolicy(Policy):
    """Asks another policy. Silence until the deadline is an EndpointError: usually its server hangs."""

    def __init__(self, policy: Policy, guard: Guard, spending: Spending | None = None) -> None:
        self.policy, self.guard = policy, guard
        self.spending = spending or Spending(SpendingSettings())
        self.forwards, self.is_program = policy.forwards, policy.is_program
        self.follows_schemas, self.continues = policy.follows_schemas, policy.continues

    def open(self, folder: Path) -> None:
        with self.guard.calling("open()"):
            plain(self.policy.open(folder))  # type: ignore[func-returns-value]

    async def generate(self, request: Request) -> Generation:
        request = _without_secrets(request)
        return self._counted(await self._asked("generate()", lambda alive: self.policy.generate(request), request))

    async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
        request, pieces = _without_secrets(request), Pieces()

        def ask(alive: Alive) -> Awaitable[Generation]:
            def pass_on(text: str) -> None:
                alive()
                if text := pieces.feed(text):
                    tell(text)

            return self.policy.stream(request, pass_on)

        found = self._counted(await self._asked("stream()", ask, request))
        if rest := pieces.end():
            tell(rest)
        return found

    async def count_tokens(self, request: Request) -> int:
        request = _without_secrets(request)
        return int(await self.guard.answer("count_tokens()", lambda: self.policy.count_tokens(request)))

    async def speaks(self, path: str, model: str = "") -> bool:
        return bool(await self.guard.answer("speaks()", lambda: self.policy.speaks(path, model), late=EndpointError))

    async def forward(self, request: Request, forwarded: Forwarded) -> Passed:
        request = _without_secrets(request)
        body, hear = struck(forwarded.body), forwarded.hear
        raw = forwarded.raw if body is forwarded.body else b""
        forwarded = replace(forwarded, body=body, raw=raw, recalled=strike(forwarded.recalled))

        def ask(alive: Alive) -> Awaitable[Passed]:
            def pass_on(line: bytes) -> None:
                alive()
                hear(_strike_bytes(line))

            return self.policy.forward(request, replace(forwarded, hear=pass_on))

        passed = await self._asked("forward()", ask, request)
        for generation in passed.generations:
            self._counted(generation)
        return passed._replace(content=_strike_bytes(passed.content))

    async def _asked(self, call: str, ask: Callable[[Alive], Awaitable[Item]], request: Request) -> Item:
        episode = request.task.id if request.task else ""
        return await self.spending.ask(lambda: self.guard.listen(call, ask, episode, EndpointError))

    def _counted(self, found: Generation) -> Generation:
        self._check(found)
        if (text := strike(found.text)) != found.text:
            found.text, found.pieces = text, ()
        found.said = struck(found.said)
        found.calls = struck(found.calls)
        found.usage = self.policy.priced(found.usage)
        if not found.repeated and not _by_program(self.policy, found.usage):
            self.spending.count(found.usage)
            self.guard.row.spend(found.usage.cost)
        return found

    def _check(self, found: Generation) -> None:
        """What isn't used before the answer is recorded, or learned from, would be blamed on whoever uses it."""
        require = self.guard.require
        require(isinstance(found, Generation), f"answered with a {type(found).__name__}, not a Generation")
        for name, kind in _FIELDS.items():
            value = getattr(found, name)
            require(isinstance(value, kind), f"answered with {name}={one_line(repr(value), 60)}")
        for name, kind in _ITEMS.items():
            wrong = {each.__name__ for each in set(map(type, getattr(found, name))) if not issubclass(each, kind)}
            require(not wrong, f"answered with {name} of type {', '.join(sorted(wrong))}")
        require(found.count >= 0, f"answered with count={found.count}")
        for call in found.calls:
            require(isinstance(call.name, str), f"made a call whose name is a {type(call.name).__name__}")
            with self.guard.calling("its answer"):
                json.dumps(dict(call.arguments))

    async def publish(self, adapter: Path, version: str) -> None:
        await self.guard.answer("publish()", lambda: self.policy.publish(adapter, version), late=EndpointError)

    async def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> Sequence[float]:
        return await self.guard.answer(
            "logprobs()", lambda: self.policy.logprobs(prompt_ids, token_ids), late=EndpointError
        )

    async def score(self, answers: Sequence[tuple[Sequence[int], Sequence[int]]]) -> Sequence[Sequence[float]]:
        return await self.guard.answer("logprobs()", lambda: self.policy.score(answers), late=EndpointError)

    def replicas(self) -> Sequence[Policy]:
        with self.guard.calling("replicas()"):
            return [GuardedPolicy(replica, self.guard, self.spending) for replica in plain(self.policy.replicas())]

    def metrics(self) -> Mapping[str, float]:
        with self.guard.calling("metrics()"):
            return dict(plain(self.policy.metrics()))

    async def rest(self) -> None:
        await self.guard.answer("rest()", self.policy.rest, late=EndpointError)

    async def wake(self) -> None:
        await self.guard.answer("wake()", self.policy.wake, late=EndpointError)

    def generation_time(self, generation: Generation, time_per_token: Time) -> Time:
        if type(self.policy).generation_time is Policy.generation_time:
            return self.policy.generation_time(generation, time_per_token)  # no code of a plugin
        with self.guard.calling("generation_time()"):
            takes = plain(self.policy.generation_time(generation, time_per_token))
            self.guard.require(isinstance(takes, Real) and float(takes) >= 0, f"says that an answer takes {takes!r}")
        return takes

    async def close(self) -> None:
        await self.guard.answer("close()", self.policy.close)


class GuardedMemory(Memory):
    """Asks another memory."""

    def __init__(self, memory: Memory, guard: Guard, texts: LongTexts | None = None) -> None:
        self.memory, self.guard, self.texts = memory, guard, texts or LongTexts()
        self.hears = type(memory).hear is not Memory.hear
        """Whether it learns from what users say as soon as they do."""
        self.shows = type(memory).remembered is not Memory.remembered
        """Whether users can see what it keeps of them."""
        self.acts = type(memory).tools is not Memory.tools
        """Whether it has tools of its own."""
        self.embeds = type(memory).embed is not Memory.embed
        """Whether it has an embedding model that others may use."""

    async def recall(self, query: Query) -> Sequence[Recollection]:
        episode = query.task.id
        found = await self.guard.answer("recall()", lambda: self.memory.recall(query), episode)
        with self.guard.calling("recall()", episode):
            recalled = listed(found, Recollection, self.guard, limit=query.limit)
            self.guard.require(all(isinstance(one.text, str) for one in recalled), "recalled something without text")
        return [self._shown(one) for one in struck(recalled)]

    async def learn(self, episode: Episode, reward: float) -> None:
        await self.guard.answer("learn()", lambda: self.memory.learn(episode.copied(), reward), episode.id)

    async def hear(self, saying: Saying) -> None:
        await self.guard.answer("hear()", lambda: self.memory.hear(struck(saying)))

    async def remembered(self, user: str) -> Sequence[Remembered]:
        found = await self.guard.answer("remembered()", lambda: self.memory.remembered(user))
        with self.guard.calling("remembered()"):
            return struck(listed(found, Remembered, self.guard))

    async def correct(self, user: str, item: str, text: str) -> Remembered:
        corrected = await self.guard.answer("correct()", lambda: self.memory.correct(user, item, strike(text)))
        self.guard.require(isinstance(corrected, Remembered), f"corrected an item to a {type(corrected).__name__}")
        return struck(corrected)

    async def forget_one(self, user: str, item: str) -> None:
        await self.guard.answer("forget_one()", lambda: self.memory.forget_one(user, item))

    async def forget(self, user: str) -> Mapping[str, int]:
        return dict(await self.guard.answer("forget()", lambda: self.memory.forget(user)))

    async def embed(self, texts: Sequence[str]) -> Embedded:
        found = await self.guard.answer("embed()", lambda: self.memory.embed(struck(list(texts))))
        with self.guard.calling("embed()"):
            rows = [[float(value) for value in row] for row in found.vectors]
            self.guard.require(len(rows) == len(texts), f"gave {len(rows)} vectors for {len(texts)} texts")
            return Embedded(str(found.model), rows)

    def open(self, folder: Path) -> None:
        with self.guard.calling("open()"):
            plain(self.memory.open(folder))  # type: ignore[func-returns-value]

    def begin(self, task: Task) -> None:
        with self.guard.calling("begin()", task.id):
            plain(self.memory.begin(task))  # type: ignore[func-returns-value]

    def introduce(self, user: str, profile: Mapping[str, str]) -> None:
        with self.guard.calling("introduce()"):
            plain(self.memory.introduce(user, profile))  # type: ignore[func-returns-value]

    def tools(self, task: Task) -> Sequence[Tool]:
        with self.guard.calling("tools()", task.id):
            return _guarded_tools(plain(self.memory.tools(task)), self.guard, self.texts)

    async def offered(self, task: Task) -> Sequence[Tool]:
        found = await self.guard.answer("tools()", lambda: self.memory.offered(task), task.id)
        with self.guard.calling("tools()", task.id):
            return _guarded_tools(found, self.guard, self.texts)

    async def close(self) -> None:
        await self.guard.answer("close()", self.memory.close)

    def _shown(self, one: Recollection) -> Recollection:
        text = self.texts.shortened(one.text, self.guard.title)
        return one if text is one.text else replace(one, text=text)


class GuardedReward(RewardModel):
    """Asks another reward model, and checks its scores: one NaN would spread to every mean.

    Memories and reward models of plugins get copies of episodes, so that none of them can change what others score and
    learn from. A copy takes as long as scoring does, so those that come with agentfw get the episodes themselves: the
    contract suite (`episodes_stay_as_they_are`) holds that they change none.
    """

    def __init__(self, model: RewardModel, guard: Guard, spending: Spending | None = None) -> None:
        self.model, self.guard = model, guard
        self.spending = spending or Spending(SpendingSettings())
        self.learns = type(model).learn is not RewardModel.learn
        """Whether it learns from episodes, and so needs a copy of each."""

    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        given = group if self.guard.is_ours else [episode.copied() for episode in group]
        found = await self.spending.finish(lambda: self.guard.answer("score()", lambda: self.model.score(given)))
        with self.guard.calling("score()"):
            scores = listed(found, Score, self.guard)
            wrong = wrong_scores(scores, group)
            self.guard.require(not wrong, wrong, "fix the reward model, or remove it")
            used = Usage.total(score.usage for score in scores)
        if not _by_program(self.model.policy, used):
            self.spending.count(judges=used)
            self.guard.row.spend(used.cost)
        return scores

    async def learn(self, episode: Episode) -> None:
        if self.learns:
            await self.guard.answer("learn()", lambda: self.model.learn(episode.copied()), episode.id)

    async def write_learned(self, folder: Path) -> bool:
        return bool(await self.guard.answer("write_learned()", lambda: self.model.write_learned(folder)))

    def open(self, folder: Path) -> None:
        with self.guard.calling("open()"):
            plain(self.model.open(folder))  # type: ignore[func-returns-value]

    async def close(self) -> None:
        await self.guard.answer("close()", self.model.close)


class GuardedToolbox(Toolbox):
    """Opens another toolbox."""

    def __init__(self, toolbox: Toolbox, guard: Guard, texts: LongTexts | None = None) -> None:
        self.toolbox, self.guard, self.texts = toolbox, guard, texts or LongTexts()

    async def open(self) -> list[Tool]:
        found = await self.guard.answer("open()", self.toolbox.open)
        with self.guard.calling("open()"):
            return _guarded_tools(found, self.guard, self.texts)

    async def close(self) -> None:
        await self.guard.answer("close()", self.toolbox.close)


class GuardedTool(Tool):
    """Calls another tool, which has a timeout of its own."""

    def __init__(self, tool: Tool, guard: Guard, texts: LongTexts) -> None:
        self.tool, self.guard, self.texts = tool, guard, texts
        self.action, self.takes, self.timeout = struck(tool.action), tool.takes, tool.timeout
        name = self.action.name
        self.row = guard.record.row("tool", name, f"the tool {name} of {guard.title}")

    async def answer(self, arguments: Mapping[str, Any]) -> tuple[bool, str]:
        call, began, well = f"the tool {self.action.name}", time.monotonic(), False
        try:
            with self.guard.calling(call):
                well, text = await self.tool.answer(arguments)
            self.guard.require(isinstance(text, str), f"answered {call} with a {type(text).__name__}, not text")
        finally:
            self.row.count(time.monotonic() - began, failed=not well)
        return bool(well), self.texts.shortened(strike(exact(text)), f"{self.guard.title}, {call},")


def _guarded_tools(found: Iterable[Tool], guard: Guard, texts: LongTexts) -> list[Tool]:
    tools = listed(found, Tool, guard)
    for tool in tools:
        wrong = misplaced_coroutine(type(tool), Tool)
        guard.require(not wrong, f"has the tool {tool.action.name}, which {wrong}")
    return [GuardedTool(tool, guard, texts) for tool in tools]


def _without_secrets(request: Request) -> Request:
    """The request as the policy is sent it. The list of messages is its own."""
    brief = request.brief
    if (goal := strike(brief.goal)) != brief.goal:
        brief = replace(brief, goal=goal)
    messages = struck(list(request.messages))
    return replace(request, messages=messages, brief=brief, schema=struck(request.schema), stop=struck(request.stop))


def _strike_bytes(content: bytes) -> bytes:
    return strike(content.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _by_program(policy: Policy | None, usage: Usage) -> bool:
    """Whether the usage is unknown because a program has no tokens."""
    return usage.tokens is None and policy is not None and policy.is_program


def listed(found: Iterable[Item], kind: type[Item], guard: Guard, *, limit: int | None = None) -> list[Item]:
    """What a component gave, as a list of our own: a sequence of a plugin's may be anything, and have no end."""
    items = list[Item]()
    for item in islice(found, _MOST + 1 if limit is None else limit):
        if not isinstance(item, kind):
            raise guard.error(f"gave a {type(item).__name__}, not a {kind.__name__}")
        items.append(item)
    guard.require(len(items) <= _MOST, f"gave more than {_MOST:,} items")
    return items
