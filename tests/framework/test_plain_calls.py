"""A coroutine where a value belongs is an error that names its component, in a run and in its check."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from offering import offering

from agentfw.environment import Environment, World, action
from agentfw.episode import Intervention, Task
from agentfw.errors import PluginError
from agentfw.memory import Memory
from agentfw.policy import Policy
from agentfw.request import Action, Generation, Request
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import parse_spec
from agentfw.testing import check_component, fresh_host
from agentfw.tool import Tool, tool


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
