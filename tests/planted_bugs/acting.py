"""Each promise of environments, policies and tools, and a component that breaks it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from agentfw import Environment, Generation, Policy, Request, World, action
from agentfw.episode import Intervention, Task
from agentfw.request import Action, Brief
from agentfw.testing import check_component, contract
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


class Endless(Counter):
    def begin(self, world: World, task: Task) -> None:
        super().begin(world, task)
        self._tick()

    def _tick(self) -> None:
        self.world.after(1, self._tick)


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


@tool
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


class Empty(Box):
    tools = ()


class Twins(Box):
    tools = (double, double)


class Takes(Box):
    tools = (Careless(),)


class CloseOnce(Box):
    async def close(self) -> None:
        assert not self.closed
        self.closed = True


GOOD = {
    "environment": Counter,
    "policy": Parrot,
    "tool": Box,
}
BROKEN: list[tuple[str, type, str]] = [
    ("environment", TwoActions, "the_brief_can_be_read"),
    ("environment", BadSchema, "the_brief_can_be_read"),
    ("environment", FewTasks, "tasks_are_as_many_as_asked"),
    ("environment", OneIndex, "tasks_are_as_many_as_asked"),
    ("environment", RandomTasks, "tasks_are_as_many_as_asked"),
    ("environment", Unseeded, "one_seed_gives_one_episode"),
    ("environment", Shared, "episodes_do_not_touch_each_other"),
    ("environment", SmallSeeds, "any_seed_will_do"),
    ("environment", Crashing, "nonsense_is_refused"),
    ("environment", Gullible, "nonsense_is_refused"),
    ("environment", Tuples, "the_record_comes_back_equal"),
    ("environment", Headless, "the_headline_is_there"),
    ("environment", BadFigure, "the_headline_is_there"),
    ("environment", OtherReferences, "references_can_be_set_beside"),
    ("environment", HeadlessReferences, "references_can_be_set_beside"),
    ("environment", Deaf, "every_interface_will_do"),
    ("environment", BadDemonstration, "the_demonstration_works"),
    ("policy", Wordless, "it_answers"),
    ("policy", OneAtATime, "it_answers_many_at_once"),
    ("policy", FirstTurnOnly, "it_goes_on_with_a_conversation"),
    ("policy", changed(logprobs=(-0.5,)), "tokens_and_logprobs_agree"),
    ("policy", changed(logprobs=(0.5, 0.5, 0.5)), "tokens_and_logprobs_agree"),
    ("policy", changed(prompt_ids=()), "tokens_and_logprobs_agree"),
    ("policy", changed(text="abcd"), "pieces_make_the_text"),
    ("policy", changed(token_ids=(1, 2, 3), logprobs=(-1, -1, -1), pieces=()), "it_keeps_to_the_limit"),
    ("policy", Scribbling, "the_request_stays_as_it_is"),
    ("policy", BackInTime, "its_time_is_a_time"),
    ("tool", Empty, "it_opens_into_tools"),
    ("tool", Twins, "it_opens_into_tools"),
    ("tool", Takes, "wrong_arguments_are_answered"),
    ("tool", CloseOnce, "closing_twice_is_fine"),
]


def failures(kind: str, factory: Any) -> dict[str, str]:
    return {result.name: result.detail for result in check_component(kind, factory) if not result.passed}


@pytest.mark.parametrize("kind", list(GOOD))
def test_a_good_component_keeps_every_promise(kind: str) -> None:
    assert failures(kind, GOOD[kind]) == {}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "broken", "check"), BROKEN, ids=[f"{b.__name__}-{c}" for _, b, c in BROKEN])
def test_a_broken_promise_is_named(kind: str, broken: type, check: str) -> None:
    found = failures(kind, broken)

    assert check in found
    assert found[check], "it must say how"


def test_every_promise_is_broken_by_one_of_these() -> None:
    # These two the engagement keeps for every environment; they guard against an engagement that no longer does.
    caught = {(kind, check) for kind, _, check in BROKEN}

    promised = {(kind, check.__name__) for kind in GOOD for check in contract(kind)[3:]}

    assert promised - caught == {("environment", "time_never_runs_back"), ("environment", "it_ends")}
