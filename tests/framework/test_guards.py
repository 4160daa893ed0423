"""Whoever takes part in a run is named in what goes wrong with it, and must answer in time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from offering import offering

from agentfw.boundary.calls import KINDS_OF_CALLS
from agentfw.boundary.crossing import (
    GuardedEnvironment,
    GuardedMemory,
    GuardedPolicy,
    GuardedReward,
    GuardedTool,
    MemoryThread,
)
from agentfw.boundary.guard import Guard
from agentfw.environment import Environment, World, action
from agentfw.episode import Call, Episode, Intervention, Message, Task, Usage
from agentfw.errors import AgentfwError, EndpointError, PluginError, SettingsError, TimelineError
from agentfw.host import Host
from agentfw.memory import Embedded, Memory, Query, Recollection, Remembered, Saying
from agentfw.policy import Policy
from agentfw.request import Action, Brief, Forwarded, Generation, Passed, Request
from agentfw.runs.deciding import Spending
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import SpendingSettings, parse_spec
from agentfw.scores import RewardModel, Score
from agentfw.testing import check_component, fresh_host
from agentfw.testing.checks import sample_group
from agentfw.tool import FunctionTool, Tool, tool

QUERY = Query("tea", Task(3, 7), limit=2)
NAMED = 'memory "notes" of plugin 0'


@pytest.fixture
def host() -> Host:
    return fresh_host(offering(memory={"notes": Memory}, policy={"strict": Policy}))


@pytest.fixture
def guard(host: Host) -> Guard:
    return host.guard("memory", "notes", 60.0)


def recalling(guard: Guard, recall: Callable[[], Any]) -> Any:
    """What comes of a memory whose `recall` does that."""

    class Notes(Memory):
        async def recall(self, query: Query) -> Sequence[Recollection]:
            return await recall()  # type: ignore[no-any-return]

    return GuardedMemory(Notes(), guard).recall(QUERY)


def raising(error: BaseException) -> Callable[[], Any]:
    async def work() -> None:
        raise error

    return work


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (asyncio.CancelledError(), "it was cancelled from inside"),
        (TimeoutError("of its own"), "TimeoutError: of its own"),
        (Speechless(), "Speechless: its text can't be shown, RuntimeError"),
    ],
)
def test_what_a_component_raises_names_it(guard: Guard, error: BaseException, words: str) -> None:
    with pytest.raises(PluginError) as caught:
        asyncio.run(recalling(guard, raising(error)))

    assert caught.value.message == f"{NAMED} failed in recall(), episode 00003-0: {words}"
    assert caught.value.exit_code == 3
    assert caught.value.fix
    assert caught.value.__cause__ is error, "--debug can show where it came from"


@pytest.mark.parametrize("kind", [SettingsError, TimelineError])
def test_an_error_of_the_framework_stays_itself_and_names_who(guard: Guard, kind: type[AgentfwError]) -> None:
    error = kind("the path is wrong", fix="set another")

    with pytest.raises(kind) as caught:
        asyncio.run(recalling(guard, raising(error)))

    assert caught.value is error
    assert (error.message, error.fix) == (f"{NAMED} failed in recall(): the path is wrong", "set another")


def test_an_interruption_of_the_run_is_no_failure_of_a_component(guard: Guard) -> None:
    async def interrupted() -> None:
        task = asyncio.create_task(recalling(guard, lambda: asyncio.sleep(60)))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(interrupted())


def test_a_policy_that_hangs_in_the_middle_of_an_answer_is_out_of_time(host: Host) -> None:
    class Halting(Policy):
        async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
            await asyncio.sleep(0.01)
            tell("4")
            await asyncio.sleep(60)
            return Generation("4")

    told: list[str] = []
    guarded = GuardedPolicy(Halting(), host.guard("policy", "strict", 0.2))

    async def waiting() -> None:
        await asyncio.wait_for(guarded.stream(Request([]), told.append), 20)

    with pytest.raises(EndpointError, match=r"has not answered stream\(\) within 0\.2 s"):
        asyncio.run(waiting())

    assert told == ["4"]


def test_what_a_thread_still_says_after_its_answer_was_cancelled_is_dropped(host: Host) -> None:
    class Late(Policy):
        async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
            tell("4")
            loop = asyncio.get_running_loop()
            try:
                await asyncio.sleep(60)
            finally:
                loop.call_soon_threadsafe(tell, "2")
            return Generation("42")

    told: list[str] = []
    wrong: list[object] = []
    guarded = GuardedPolicy(Late(), host.guard("policy", "strict", 60.0))

    async def hung_up() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, what: wrong.append(what["message"]))
        task = asyncio.create_task(guarded.stream(Request([]), told.append))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0.01)

    asyncio.run(hung_up())

    assert told == ["4"]
    assert wrong == []


def test_what_an_environment_says_of_itself_can_be_written(guard: Guard) -> None:
    class Torn(Environment):
        def describe(self, tasks: Sequence[Task]) -> str:
            return "tea \ud800"

    assert GuardedEnvironment(Torn(), guard).describe([]) == "tea ?"


def test_how_long_an_answer_takes_in_the_world_is_the_policys_business(guard: Guard) -> None:
    class Instant(Policy):
        takes: float = 42.0

        def generation_time(self, generation: Generation, time_per_token: float) -> float:
            return self.takes

    policy = Instant()
    guarded = GuardedPolicy(policy, guard)
    assert guarded.generation_time(Generation("x", count=3), 1.0) == 42.0
    for policy.takes in (-1.0, float("nan")):
        with pytest.raises(PluginError, match="says that an answer takes"):
            guarded.generation_time(Generation("x", count=3), 1.0)


def test_a_call_whose_arguments_are_no_json_is_its_policys_mistake(guard: Guard) -> None:
    class Counting(Policy):
        async def generate(self, request: Request) -> Generation:
            return Generation("", (Call("open", {"at": float("nan")}),))

    with pytest.raises(PluginError, match="failed in its answer: ValueError: Out of range float"):
        asyncio.run(GuardedPolicy(Counting(), guard).generate(Request([])))


def test_what_judges_use_is_counted_and_an_answer_that_is_given_again_is_paid_for_once(guard: Guard) -> None:
    class Keeping(Policy):
        asked = 0

        async def generate(self, request: Request) -> Generation:
            self.asked += 1
            return Generation("4", usage=Usage(3, 0, 1), repeated=self.asked > 1)

    class Judging(RewardModel):
        async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
            return [Score(one.id, "taste", 1.0, usage=Usage(5, 0, 2)) for one in group]

    spending = Spending(SpendingSettings())
    guarded = GuardedPolicy(Keeping(), guard, spending=spending)

    for _ in range(2):
        asyncio.run(guarded.generate(Request([])))
    asyncio.run(GuardedReward(Judging(), guard, spending=spending).score(sample_group(0, 2)))

    assert (spending.policy.tokens, spending.judges.tokens) == (4, 14)


KEY = "hunter2/xyz"


class Echo(Policy, Memory):
    """Keeps what it is given, and answers with a secret in each part of an answer."""

    def __init__(self) -> None:
        self.given: list[object] = []

    async def generate(self, request: Request) -> Generation:
        self.given.append(request)
        return Generation(KEY, (Call("open", {KEY: [KEY]}),), pieces=("hunter2", "/xyz"), said=KEY)

    async def stream(self, request: Request, tell: Callable[[str], object]) -> Generation:
        tell("hunter")
        return Generation("hunter")

    async def forward(self, request: Request, forwarded: Forwarded) -> Passed:
        self.given += [request, forwarded]
        forwarded.hear(KEY.encode())
        for piece in ("hunter", "2/xyz and hunter"):
            forwarded.tell(piece)
        return Passed((await self.generate(request),), KEY.encode())

    async def recall(self, query: Query) -> list[Recollection]:
        return [Recollection(KEY)] * 3

    async def hear(self, saying: Saying) -> None:
        self.given.append(saying)

    async def remembered(self, user: str) -> list[Remembered]:
        return [Remembered("1", KEY)]

    async def correct(self, user: str, item: str, text: str) -> Remembered:
        self.given.append(text)
        return Remembered("1", KEY)

    async def embed(self, texts: Sequence[str]) -> Embedded:
        self.given.append(texts)
        return Embedded("echo", [[1.0] for _ in texts])


def test_nothing_that_crosses_to_a_policy_a_memory_or_a_tool_or_back_has_a_secret(host: Host, guard: Guard) -> None:
    def look() -> str:
        return KEY

    look.__doc__ = f"Look for {KEY}."
    host.secrets.add(KEY)
    echo, heard = Echo(), list[object]()
    request = Request([Message("user", KEY)], brief=Brief(KEY), schema={"enum": [KEY]}, stop=["hunter2%2Fxyz"])
    body: dict[str, Any] = {"model": KEY}
    forwarded = Forwarded(body, raw=KEY.encode(), recalled=KEY, recalled_again=[(0, KEY)])
    forwarded = replace(forwarded, hear=heard.append, tell=heard.append)
    policy, memory = GuardedPolicy(echo, host.guard("policy", "strict", 60.0)), GuardedMemory(echo, guard)
    tool = GuardedTool(FunctionTool(look), guard)

    async def crossed() -> list[Any]:
        recalled = await memory.recall(QUERY)
        assert len(recalled) == QUERY.limit
        await policy.stream(request, heard.append)
        asked = [await policy.generate(request), await policy.forward(request, forwarded), recalled]
        told = [await memory.hear(Saying("1", "ada", KEY, "tea", 0.0)), await memory.remembered("ada")]
        kept = [await memory.correct("ada", "1", KEY), await memory.embed([KEY])]
        return [*asked, *told, *kept, tool.action, await tool.answer({})]

    found = repr([asyncio.run(crossed()), echo.given, heard])
    assert not [part for part in ("hunter2", "xyz") if part in found]
    begins = "hunter"  # which is told at the end
    assert heard == [begins, b"**********", "********** and ", begins]


def test_a_memory_that_fails_where_an_episode_begins_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Fails(Memory):
        def begin(self, task: Task) -> None:
            raise ValueError("no such table")

    thread = MemoryThread()
    memory = thread.beside(Fails())

    memory.begin(Task(0, 7))
    asyncio.run(memory.close())
    thread.close()

    assert "no such table" in caplog.text


# -- a coroutine where a value belongs ---------------------------------------------------------------------------------


class NeverBegins(Environment):
    """Feed the fish."""

    async def begin(self, world: World, task: Task) -> None:  # type: ignore[override]
        """Nobody waits for it."""


class NeverFeeds(Environment):
    """Feed the fish."""

    def begin(self, world: World, task: Task) -> None:
        world.observe("hungry")
        world.after(5, world.finish)

    @action
    async def feed(self) -> None:
        """Feed them."""


class Feeding(Policy):
    async def generate(self, request: Request) -> Generation:
        return Generation(calls=(Intervention("feed"),) if request.moment and request.moment.observations else ())


class Forgetful(Memory):
    async def recall(self, query: Any) -> Any:
        return []

    async def begin(self, task: Task) -> None:  # type: ignore[override]
        """Nobody waits for it."""


WORLDS = {"never-begins": NeverBegins, "never-feeds": NeverFeeds}


@pytest.mark.parametrize("environment", WORLDS)
def test_a_world_that_would_never_begin_ends_the_run(tmp_path: Path, environment: str) -> None:
    host = fresh_host(offering(environment=WORLDS, policy={"feeding": Feeding}))
    spec = parse_spec({"environment": environment, "policy": "feeding", "episodes": 3})

    with pytest.raises(PluginError, match=rf'"{environment}" of .* it returned a coroutine, which nobody awaits'):
        asyncio.run(Run.create(spec, host, tmp_path).execute())


@pytest.mark.parametrize(
    ("kind", "factory", "words"),
    [
        ("environment", NeverBegins, "it defines begin() with `async def`, but it must be a plain function"),
        ("environment", NeverFeeds, "it returned a coroutine, which nobody awaits"),
        ("memory", Forgetful, "it defines begin() with `async def`, but it must be a plain function"),
    ],
)
def test_the_check_finds_it_too(kind: str, factory: Callable[[], object], words: str) -> None:
    results = check_component(kind, factory)

    assert any(words in result.detail for result in results if not result.passed)


def test_a_tool_answers_with_a_coroutine() -> None:
    """One that a decorated function returns will do, and nothing else."""

    class Sudden(Tool):
        action = Action("sudden", "Answers at once", {})

        def call(self, arguments: Any) -> Any:
            return "now"

    async def slow(city: str) -> str:
        return f"rain in {city}"

    def forecast(city: str) -> str:
        """The weather."""
        return slow(city)  # type: ignore[return-value]

    with pytest.raises(PluginError, match=r"the tool sudden has a call\(\) that returns a str"):
        asyncio.run(Sudden().answer({}))
    assert asyncio.run(tool(forecast).answer({"city": "Paris"})) == (True, "rain in Paris")


# -- the table of calls ------------------------------------------------------------------------------------------------


NOT_CALLED = {
    "environment": {"goal", "time_per_token"},  # by itself
    "optimizer": {"forget"},  # when no run goes on
    "learner": {"logprobs"},  # by `score`
    "policy": {"priced", "beside"},  # arithmetic on its price; by a gateway that learns, inside the layers
    "tool": {"call"},  # by `answer`
}


@pytest.mark.parametrize("kind", KINDS_OF_CALLS)
def test_every_method_of_a_kind_stands_in_the_table(kind: str) -> None:
    table = KINDS_OF_CALLS[kind]
    methods = {name for name, _ in inspect.getmembers(table.base, inspect.isfunction) if not name.startswith("_")}

    assert methods - NOT_CALLED.get(kind, set()) == set(table.calls)
