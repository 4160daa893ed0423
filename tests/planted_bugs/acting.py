"""Environments, policies and tools: a good one of each, and bugs."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentfw import Environment, Generation, Policy, Request, World, action
from agentfw.episode import Intervention, Task
from agentfw.request import Action, Brief
from agentfw.tool import Tool, Toolbox, tool

from .planting import Bug, bug

# -- environments ------------------------------------------------------------------------------------------------------


class Counter(Environment):
    """Count to five."""

    headline = "count"

    def begin(self, world: World, task: Task) -> None:
        self.world, self.count, self.draws = world, 0, world.random("draws")
        world.observe("start", {"at": self.count})

    @action
    def add(self, number: int) -> None:
        """Add a number."""
        self.count += 1
        self.world.observe("added", {"number": min(number, 9), "luck": self.draws.random()})
        if self.count == 5:
            self.world.finish(**self.outcome())

    def outcome(self) -> Mapping[str, float]:
        return {"count": float(self.count)}


class Unseeded(Counter):
    def begin(self, world: World, task: Task) -> None:
        super().begin(world, task)
        self.draws = random.Random()


class Shared(Counter):
    told: list[int] = []  # noqa: RUF012

    def begin(self, world: World, task: Task) -> None:
        Shared.told = []
        super().begin(world, task)

    @action
    def add(self, number: int) -> None:
        """Add a number."""
        self.told.append(number)
        self.world.observe("told", {"so far": len(Shared.told)})
        super().add(number)


class Crashing(Counter):
    @action
    def add(self, number: int) -> None:
        """Add a number."""
        [0][max(0, min(number, 10**6))]
        super().add(number)


class Tuples(Counter):
    @action
    def add(self, number: int) -> None:
        """Add a number."""
        self.world.observe("place", {"at": (1, 2)})
        super().add(number)


class SmallSeeds(Counter):
    def begin(self, world: World, task: Task) -> None:
        if task.seed.bit_length() > 32 and task.seed % 2:
            raise ValueError("a seed must fit into 32 bits")
        super().begin(world, task)


class Deaf(Counter):
    def begin(self, world: World, task: Task) -> None:
        super().begin(world, task)
        world.after(2, lambda: self.world.work("rest", 5).interrupt())

    def reflex(self, observation: Any) -> Any:
        raise KeyError("no reflex")


class BadDemonstration(Counter):
    def demonstrate(self, moment: Any) -> list[Intervention]:
        return [Intervention("addd", {"number": 1})] if moment.now < 3 and len(moment.observations) < 2 else []


def of_actions(*schemas: dict[str, Any]) -> Any:
    """A brief with actions that all have one name."""
    return lambda self: Brief("Count.", tuple(Action("add", "", {"type": "object", **each}) for each in schemas))


def drawn(count: int, seed: int, split: str) -> Sequence[Task]:
    return Counter().tasks(count, seed, split)


ENVIRONMENTS = [
    bug("the_brief_can_be_read", Counter, brief=of_actions({"properties": {}}, {"properties": {}})),
    bug("the_brief_can_be_read", Counter, brief=of_actions({"required": ["number"], "properties": {}})),
    bug(
        "tasks_are_as_many_as_asked", Counter, tasks=lambda self, count, seed, split: drawn(min(count, 3), seed, split)
    ),
    bug(
        "tasks_are_as_many_as_asked",
        Counter,
        tasks=lambda self, count, seed, split: [replace(task, index=0) for task in drawn(count, seed, split)],
    ),
    bug(
        "tasks_are_as_many_as_asked",
        Counter,
        tasks=lambda self, count, seed, split: drawn(count, random.randrange(10**9), split),
    ),
    bug("training_and_test_differ", Counter, tasks=lambda self, count, seed, split: drawn(count, seed, "train")),
    bug("one_seed_gives_one_episode", Unseeded),
    bug("episodes_do_not_touch_each_other", Shared),
    bug("any_seed_will_do", SmallSeeds),
    bug("nonsense_is_refused", Crashing),
    bug("nonsense_is_refused", Counter, intervene=lambda self, intervention: self.add(3)),
    bug("the_record_comes_back_equal", Tuples),
    bug("the_headline_is_there", Counter, headline="score"),
    bug("the_headline_is_there", Counter, outcome=lambda self: {"count": math.nan}),
    bug("references_can_be_set_beside", Counter, references=lambda self, task: {"chance": {"count": random.random()}}),
    bug("references_can_be_set_beside", Counter, references=lambda self, task: {"chance": {"score": 1.0}}),
    bug("every_interface_will_do", Deaf),
    bug("the_demonstration_works", BadDemonstration),
]

# -- policies ----------------------------------------------------------------------------------------------------------


class Parrot(Policy):
    changes: Mapping[str, Any] = {}
    """What is different about its answer."""

    async def generate(self, request: Request) -> Generation:
        limit = request.sampling.max_tokens or 3
        ids, pieces = (1, 2, 3)[:limit], ("a", "b", "c")[:limit]
        finish = "length" if limit < 3 else "stop"
        answer = Generation("".join(pieces), (), 0, (5, 6), ids, (-0.5,) * len(ids), pieces, finish=finish)
        return replace(answer, **self.changes)


class Wordless(Policy):
    async def generate(self, request: Request) -> Any:
        return "hello"


class OneAtATime(Parrot):
    asking = False

    async def generate(self, request: Request) -> Generation:
        if self.asking:
            raise RuntimeError("one at a time, please")
        self.asking = True
        await asyncio.sleep(0)
        self.asking = False
        return await super().generate(request)


class Mixing(Parrot):
    """Keeps the prompt of the latest request for all that are in flight."""

    latest: tuple[int, ...] = ()

    async def generate(self, request: Request) -> Generation:
        self.latest = tuple(request.messages[-1].content.encode())
        await asyncio.sleep(0)
        return replace(await super().generate(request), prompt_ids=self.latest)


class Dice(Parrot):
    async def generate(self, request: Request) -> Generation:
        tokens = tuple(random.choices(range(1000), k=min(2, request.sampling.max_tokens or 2)))
        return Generation("", (), 0, (5, 6), tokens, (-0.5,) * len(tokens))


class Scribbling(Parrot):
    async def generate(self, request: Request) -> Generation:
        request.messages.append(request.messages[0])  # type: ignore[attr-defined]
        return await super().generate(request)


class FirstTurnOnly(Parrot):
    async def generate(self, request: Request) -> Generation:
        if any(message.calls for message in request.messages):
            raise NotImplementedError("calls")
        return await super().generate(request)


ENDLESS = {"token_ids": (1, 2, 3), "logprobs": (-1, -1, -1), "pieces": ()}
POLICIES = [
    bug("it_answers", Wordless),
    bug("each_request_gets_its_own_answer", OneAtATime),
    bug("each_request_gets_its_own_answer", Mixing),
    bug("one_seed_gives_one_answer", Dice),
    bug("it_goes_on_with_a_conversation", FirstTurnOnly),
    bug("tokens_and_logprobs_agree", Parrot, changes={"logprobs": (-0.5,)}),
    bug("tokens_and_logprobs_agree", Parrot, changes={"logprobs": (0.5, 0.5, 0.5)}),
    bug("tokens_and_logprobs_agree", Parrot, changes={"prompt_ids": ()}),
    bug("pieces_make_the_text", Parrot, changes={"text": "abcd"}),
    bug("it_keeps_to_the_limit", Parrot, changes=ENDLESS),
    bug("the_request_stays_as_it_is", Scribbling),
    bug("its_time_is_a_time", Parrot, generation_time=lambda self, generation, time_per_token: time_per_token - 0.2),
]

# -- tools -------------------------------------------------------------------------------------------------------------


@tool(examples=[{"number": 2}])
def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


class Box(Toolbox):
    tools: tuple[Tool, ...] = (double,)

    async def open(self) -> Sequence[Tool]:
        return self.tools


class Careless(Tool):
    action = double.action

    async def call(self, arguments: Mapping[str, Any]) -> str:
        return "fine"


@tool(examples=[{"city": "Nantes"}])
def weather(city: str) -> str:
    """Today's weather in a city."""
    raise ConnectionError("no route to host")


@tool(examples=[{"city": "Nantes"}])
def silence(city: str) -> str:
    """Today's weather in a city."""
    return ""


@tool
def undescribed(city: str) -> str:
    return city


class OneCaller(Tool):
    """Doubles for one caller at a time."""

    action = double.action
    examples = ({"number": 2},)
    busy = False

    async def call(self, arguments: Mapping[str, Any]) -> str:
        if self.busy:
            raise RuntimeError("busy")
        self.busy = True
        await asyncio.sleep(0)
        self.busy = False
        return await double.call(arguments)


TOOLS = [
    bug("it_opens_into_tools", Box, tools=()),
    bug("it_opens_into_tools", Box, tools=(double, double)),
    bug("it_opens_into_tools", Box, tools=(undescribed,)),
    bug("its_examples_succeed", Box, tools=(weather,)),
    bug("its_examples_succeed", Box, tools=(silence,)),
    bug("its_examples_succeed", Box, tools=(OneCaller(),)),
    bug("wrong_arguments_are_answered", Box, tools=(Careless(),)),
]

BUGS: dict[str, list[Bug]] = {"environment": ENVIRONMENTS, "policy": POLICIES, "tool": TOOLS}
