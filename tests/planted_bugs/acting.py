"""Environments, policies and tools: a good one of each, and bugs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentfw import Environment, Generation, Policy, Request, World, action
from agentfw.episode import Intervention, Task
from agentfw.request import Action, Brief
from agentfw.tool import Tool, Toolbox, tool

from .planting import Bug, bug

__all__ = ["BUGS", "Box", "Counter", "Parrot", "asyncio", "double", "math"]  # bugs use modules that good ones don't


class Counter(Environment):
    """Count to five."""

    headline = "count"
    told: list[int] = []  # noqa: RUF012

    def tasks(self, count: int, seed: int, split: str) -> Sequence[Task]:
        return [replace(task, index=task.index) for task in super().tasks(count, seed, split)]

    def brief(self) -> Brief:
        schema = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
        return Brief("Count.", (Action("add", "Add a number.", schema),), demonstration=self.demonstrate)

    def begin(self, world: World, task: Task) -> None:
        self.world, self.count, self.draws = world, 0, world.random("draws")
        self.told = []
        world.observe("start", {"at": self.count})

    @action
    def add(self, number: int) -> None:
        """Add a number."""
        self.count += 1
        self.told.append(number)
        self.world.observe("added", {"number": min(number, 9), "luck": self.draws.random(), "so far": len(self.told)})
        if self.count == 5:
            self.world.finish(**self.outcome())

    def intervene(self, intervention: Intervention) -> None:
        super().intervene(intervention)

    def reflex(self, observation: Any) -> Sequence[Intervention]:
        return []

    def demonstrate(self, moment: Any) -> list[Intervention]:
        first = moment.now < 3 and len(moment.observations) < 2
        return [Intervention("add", {"number": 1})] if first else []

    def outcome(self) -> Mapping[str, float]:
        return {"count": float(self.count)}

    def references(self, task: Task) -> Mapping[str, Mapping[str, float]]:
        return {"chance": {"count": 1.0}}


TASKS = "super().tasks(count, seed, split)"
OBSERVES = 'world.observe("start", {"at": self.count})'
BIG = 'if task.seed.bit_length() > 32 and task.seed % 2: raise ValueError("a seed must fit into 32 bits")'
ENVIRONMENTS = [
    bug("the_brief_can_be_read", Counter, "schema),)", 'schema), Action("add", "", schema))'),
    bug("the_brief_can_be_read", Counter, '"properties": {"number": {"type": "integer"}}', '"properties": {}'),
    bug("tasks_are_as_many_as_asked", Counter, TASKS, "super().tasks(min(count, 3), seed, split)"),
    bug("tasks_are_as_many_as_asked", Counter, "index=task.index", "index=0"),
    bug("tasks_are_as_many_as_asked", Counter, TASKS, "super().tasks(count, random.randrange(10**9), split)"),
    bug("training_and_test_differ", Counter, TASKS, 'super().tasks(count, seed, "train")'),
    bug("one_seed_gives_one_episode", Counter, 'world.random("draws")', "random.Random()"),
    bug("episodes_do_not_touch_each_other", Counter, "self.told = []", "Counter.told = []"),
    bug("any_seed_will_do", Counter, "self.told = []", f"self.told = []; {BIG}".replace("; if", "\n        if")),
    bug("nonsense_is_refused", Counter, "self.count += 1", "self.count += 1 + [0][max(0, min(number, 10**6))]"),
    bug("nonsense_is_refused", Counter, "super().intervene(intervention)", "self.add(3)"),
    bug("the_record_comes_back_equal", Counter, '"at": self.count', '"at": (1, 2)'),
    bug("the_headline_is_there", Counter, "float(self.count)", "math.nan"),
    bug("references_can_be_set_beside", Counter, '{"count": 1.0}', '{"count": random.random()}'),
    bug(
        "every_interface_will_do",
        Counter,
        "return []",
        'raise KeyError("no reflex")',
        OBSERVES,
        f'{OBSERVES}\n        world.after(2, lambda: world.work("rest", 5).interrupt())',
    ),
    bug("the_demonstration_works", Counter, 'Intervention("add"', 'Intervention("addd"'),
]


class Parrot(Policy):
    latest: tuple[int, ...] = ()
    asking = False

    async def generate(self, request: Request) -> Generation:
        limit = request.sampling.max_tokens or 3
        ids, pieces = (1, 2, 3)[:limit], ("a", "b", "c")[:limit]
        prompt = self.latest = tuple(request.messages[-1].content.encode())
        finish = "length" if limit < 3 else "stop"
        return Generation("".join(pieces), (), 0, prompt, ids, (-0.5,) * len(ids), pieces, finish=finish)

    def generation_time(self, generation: Generation, time_per_token: float) -> float:
        return time_per_token * generation.count


LIMIT = "limit = request.sampling.max_tokens or 3"
PROMPT = "prompt = self.latest = tuple(request.messages[-1].content.encode())"
LOGPROBS = "(-0.5,) * len(ids)"
AT_ONCE = "assert not self.asking; self.asking = True; await asyncio.sleep(0); self.asking = False; "
ONE_TURN = "assert not any(message.calls for message in request.messages); "
POLICIES = [
    bug("it_answers", Parrot, 'return Generation("".join(pieces)', 'return "hello" or Generation("".join(pieces)'),
    bug("it_answers", Parrot, "(), 0, prompt", '(Intervention("serve", {"drink": {"tea"}}),), 0, prompt'),
    bug("each_request_gets_its_own_answer", Parrot, LIMIT, AT_ONCE + LIMIT),
    bug("each_request_gets_its_own_answer", Parrot, PROMPT, f"{PROMPT}; await asyncio.sleep(0); prompt = self.latest"),
    bug("one_seed_gives_one_answer", Parrot, "(1, 2, 3)[:limit]", "tuple(random.choices(range(1000), k=3))[:limit]"),
    bug("it_goes_on_with_a_conversation", Parrot, LIMIT, ONE_TURN + LIMIT),
    bug("tokens_and_logprobs_agree", Parrot, LOGPROBS, "(0.5,) * len(ids)"),
    bug("tokens_and_logprobs_agree", Parrot, "0, prompt, ids", "0, (), ids"),
    bug("pieces_make_the_text", Parrot, '"".join(pieces)', '"abcd"'),
    bug("it_keeps_to_the_limit", Parrot, "(1, 2, 3)[:limit]", "(1, 2, 3)", "pieces, finish", "(), finish"),
    bug("the_request_stays_as_it_is", Parrot, LIMIT, f"request.messages.append(request.messages[0]); {LIMIT}"),
    bug("its_time_is_a_time", Parrot, "time_per_token * generation.count", "time_per_token - 0.2"),
]


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
    bug("it_opens_into_tools", Box, "(double,)", "()"),
    bug("it_opens_into_tools", Box, "(double,)", "(double, double)"),
    bug("it_opens_into_tools", Box, "(double,)", "(undescribed,)"),
    bug("its_examples_succeed", Box, "(double,)", "(weather,)"),
    bug("its_examples_succeed", Box, "(double,)", "(silence,)"),
    bug("its_examples_succeed", Box, "(double,)", "(OneCaller(),)"),
    bug("wrong_arguments_are_answered", Box, "(double,)", "(Careless(),)"),
]

BUGS: dict[str, list[Bug]] = {"environment": ENVIRONMENTS, "policy": POLICIES, "tool": TOOLS}
