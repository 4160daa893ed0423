"""A coroutine where a value belongs is an error that names its component, in a run and in its check."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentfw import Component, hookimpl
from agentfw.environment import Environment, World, action
from agentfw.episode import Intervention, Task
from agentfw.errors import PluginError
from agentfw.host import Host
from agentfw.memory import Memory
from agentfw.policy import Policy
from agentfw.request import Action, Generation, Request
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import parse_spec
from agentfw.testing import check_component, fresh_host
from agentfw.tool import Tool, tool


class Pond(Environment):
    """Feed the fish."""

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        world.observe("hungry")
        world.after(5, world.finish)

    @action
    def feed(self) -> None:
        """Feed them."""
        self.world.utility(1.0, "fed")


class NeverBegins(Pond):
    async def begin(self, world: World, task: Task) -> None:  # type: ignore[override]
        super().begin(world, task)


class NeverFeeds(Pond):
    @action
    async def feed(self) -> None:  # type: ignore[override]
        """Feed them."""


class Feeding(Policy):
    async def generate(self, request: Request) -> Generation:
        return Generation(calls=(Intervention("feed"),) if request.moment and request.moment.observations else ())


class Slow(Memory):
    def recall(self, query: Any) -> Any:
        return []


class Plugin:
    @hookimpl
    def agentfw_environments(self) -> list[Component]:
        names = {"pond": "Pond", "never-begins": "NeverBegins", "never-feeds": "NeverFeeds"}
        return [Component(name, f"{__name__}:{factory}", "") for name, factory in names.items()]

    @hookimpl
    def agentfw_policies(self) -> list[Component]:
        return [Component("feeding", f"{__name__}:Feeding", "")]

    @hookimpl
    def agentfw_memories(self) -> list[Component]:
        return [Component("slow", f"{__name__}:Slow", "")]


@pytest.fixture
def host() -> Host:
    return fresh_host(Plugin())


def run(host: Host, root: Path, environment: str, **more: Any) -> Any:
    spec = parse_spec({"environment": environment, "policy": "feeding", "episodes": 3, **more})
    return asyncio.run(Run.create(spec, host, root).execute())


@pytest.mark.parametrize("environment", ["never-begins", "never-feeds"])
def test_a_world_that_would_never_begin_ends_the_run(host: Host, tmp_path: Path, environment: str) -> None:
    with pytest.raises(PluginError, match=rf'"{environment}" of .* it returned a coroutine, which nobody awaits'):
        run(host, tmp_path, environment)


class Forgetful(Memory):
    async def recall(self, query: Any) -> Any:
        return []

    async def begin(self, task: Task) -> None:  # type: ignore[override]
        """Nobody waits for it."""


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


def test_a_tool_whose_call_is_no_coroutine_is_no_answer() -> None:
    class Sudden(Tool):
        action = Action("sudden", "Answers at once", {})

        def call(self, arguments: Any) -> Any:
            return "now"

    with pytest.raises(PluginError, match=r"the tool sudden has a call\(\) that returns a str"):
        asyncio.run(Sudden().answer({}))


def test_a_decorated_coroutine_is_a_tool_like_any_other() -> None:
    async def slow(city: str) -> str:
        return f"rain in {city}"

    def forecast(city: str) -> str:
        """The weather."""
        return slow(city)  # type: ignore[return-value]

    assert asyncio.run(tool(forecast).answer({"city": "Paris"})) == (True, "rain in Paris")
