"""Whoever takes part in a run is named in what goes wrong with it, and must answer in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from offering import offering

from agentfw import Environment
from agentfw.boundary.crossing import GuardedEnvironment, GuardedMemory, GuardedPolicy, GuardedTool
from agentfw.boundary.guard import Guard
from agentfw.episode import Task
from agentfw.errors import AgentfwError, EndpointError, PluginError, SettingsError, TimelineError
from agentfw.host import Host
from agentfw.memory import Memory, Query, Recollection
from agentfw.policy import Generation, Policy, Request
from agentfw.testing import fresh_host
from agentfw.tool import FunctionTool

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
        (SystemExit(0), "SystemExit: 0"),
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
def test_an_error_of_the_frameworks_stays_itself_and_names_the_component(
    guard: Guard, kind: type[AgentfwError]
) -> None:
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


def test_what_a_policy_is_to_follow_has_no_secrets(host: Host) -> None:
    class Strict(Policy):
        async def generate(self, request: Request) -> Generation:
            asked.append(request)
            return Generation("{}")

    host.secrets.add("hunter2/xyz")
    asked: list[Request] = []
    schema = {"type": "object", "properties": {"key": {"enum": ["hunter2/xyz"]}}}
    policy = GuardedPolicy(Strict(), host.guard("policy", "strict", 60.0))

    asyncio.run(policy.generate(Request([], schema=schema, stop=["hunter2%2Fxyz"])))

    assert asked[0].schema == {"type": "object", "properties": {"key": {"enum": ["**********"]}}}
    assert list(asked[0].stop) == ["**********"]


def test_what_a_tool_answers_has_no_secrets(host: Host) -> None:
    def look() -> str:
        """Look."""
        return "the door opens with hunter2/xyz"

    host.secrets.add("hunter2/xyz")
    tool = GuardedTool(FunctionTool(look), host.guard("policy", "strict", 60.0))

    assert asyncio.run(tool.answer({})) == (True, "the door opens with **********")
