"""Environments, policies and tools: good ones, and some that break a promise each."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentfw import Environment, Generation, Policy, Request, World, action
from agentfw.episode import Intervention, Task
from agentfw.request import Action, Brief
from agentfw.tool import Tool, Toolbox, tool

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
    """Keeps in the class what belongs to the episode."""

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


class Gullible(Counter):
    def intervene(self, intervention: Intervention) -> None:
        self.add(3)


class Tuples(Counter):
    @action
    def add(self, number: int) -> None:
        """Add a number."""
        self.world.observe("place", {"at": (1, 2)})
        super().add(number)


class Headless(Counter):
    headline = "score"


class BadFigure(Counter):
    def outcome(self) -> Mapping[str, float]:
        return {"count": float("nan")}


class OtherReferences(Counter):
    def references(self, task: Task) -> Mapping[str, Mapping[str, float]]:
        return {"chance": {"count": random.random()}}


class HeadlessReferences(Counter):
    def references(self, task: Task) -> Mapping[str, Mapping[str, float]]:
        return {"chance": {"score": 1.0}}


class TwoActions(Counter):
    def brief(self) -> Brief:
        schema = {"type": "object", "properties": {}}
        return Brief("Count.", (Action("add", "", schema), Action("add", "", schema)))


class BadSchema(Counter):
    def brief(self) -> Brief:
        return Brief("Count.", (Action("add", "", {"type": "object", "required": ["number"], "properties": {}}),))


class FewTasks(Counter):
    def tasks(self, count: int, seed: int, split: str) -> Sequence[Task]:
        return super().tasks(min(count, 3), seed, split)


class SameTasks(Counter):
    def tasks(self, count: int, seed: int, split: str) -> Sequence[Task]:
        return super().tasks(count, seed, "train")


class OneIndex(Counter):
    def tasks(self, count: int, seed: int, split: str) -> Sequence[Task]:
        return [replace(task, index=0) for task in super().tasks(count, seed, split)]


class RandomTasks(Counter):
    def tasks(self, count: int, seed: int, split: str) -> Sequence[Task]:
        return super().tasks(count, random.randrange(10**9), split)


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


# -- policies ----------------------------------------------------------------------------------------------------------


class Parrot(Policy):
    async def generate(self, request: Request) -> Generation:
        limit = request.sampling.max_tokens or 3
        ids, pieces = (1, 2, 3)[:limit], ("a", "b", "c")[:limit]
        finish = "length" if limit < 3 else "stop"
        return Generation("".join(pieces), (), 0, (5, 6), ids, (-0.5,) * len(ids), pieces, finish=finish)


class Changed(Parrot):
    """A parrot whose answer is changed in one place."""

    changes: Mapping[str, Any] = {}

    async def generate(self, request: Request) -> Generation:
        return replace(await super().generate(request), **self.changes)


def changed(**changes: Any) -> type[Policy]:
    return type("ChangedParrot", (Changed,), {"changes": changes})


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


class BackInTime(Parrot):
    def generation_time(self, generation: Generation, time_per_token: float) -> float:
        return time_per_token - 0.2


# -- tools -------------------------------------------------------------------------------------------------------------


@tool(examples=[{"number": 2}])
def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


class Careless(Tool):
    action = double.action

    async def call(self, arguments: Mapping[str, Any]) -> str:
        return "fine"


class Box(Toolbox):
    tools: tuple[Tool, ...] = (double,)
    closed = False

    async def open(self) -> Sequence[Tool]:
        return self.tools


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


class Offline(Box):
    tools = (weather,)


class SpeaksNot(Box):
    tools = (silence,)


class Nameless(Box):
    tools = (undescribed,)


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


class OneAfterTheOther(Box):
    async def open(self) -> Sequence[Tool]:
        return [OneCaller()]


class Empty(Box):
    tools = ()


class Twins(Box):
    tools = (double, double)


class Takes(Box):
    tools = (Careless(),)
