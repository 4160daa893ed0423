"""What authors of plugins test with: running checks, hosts for tests, and the schemas that arguments are drawn from."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from offering import offering
from pydantic import Field

import agentfw
from agentfw import Component, Settings, hookimpl
from agentfw.environment import Environment, World, action
from agentfw.episode import Episode, Task
from agentfw.errors import InterventionRefused, PluginError
from agentfw.memory import Memory, Query, Recollection
from agentfw.scores import RewardModel, Score
from agentfw.testing import FakeModel, check_component, contract, fresh_host, run_contract
from agentfw.testing.checks import sample_episode
from agentfw.testing.tools import drawn, problems, unfitting
from agentfw.tool import tool


def failures(kind: str, factory: Any, **options: Any) -> dict[str, str]:
    return {result.name: result.detail for result in check_component(kind, factory, **options) if not result.passed}


class Shelf(Environment):
    """Take a book."""

    def begin(self, world: World, task: Task) -> None:
        world.observe("books", {"there": 3})

    @action
    def take(self, number: int) -> None:
        """Take one of them."""
        ["one", "two", "three"][number]


class Notebook(Memory):
    """Remembers what was said last in each episode."""

    def __init__(self) -> None:
        self.notes: dict[tuple[str, str], str] = {}

    async def recall(self, query: Query) -> Sequence[Recollection]:
        notes = [note for (user, _), note in self.notes.items() if user == query.user]
        return [Recollection(note) for note in notes[: query.limit]]

    async def learn(self, episode: Episode, reward: float) -> None:
        self.notes[episode.task.user, episode.id] = episode.turns[-1].text if episode.turns else ""


class Speechless(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class Silent(RewardModel):
    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        raise Speechless


class Quitting(RewardModel):
    async def score(self, group: Sequence[Episode]) -> Sequence[Score]:
        sys.exit(3)


def test_what_is_wrong_with_a_component_is_a_failure_with_its_place() -> None:
    (result,) = check_component("memory", SimpleNamespace)
    details = failures("environment", Shelf)

    assert not result.passed
    assert "agentfw.memory.Memory" in result.detail, "it is no memory"
    assert "IndexError" in details["nonsense_is_refused"]
    assert "test_testing.py, line" in details["nonsense_is_refused"]
    assert "SystemExit" in failures("reward", Quitting)["scores_can_be_used"]
    assert "Speechless: its text can't be shown" in failures("reward", Silent)["scores_can_be_used"]


def test_a_memory_that_recalls_nothing_is_not_praised_for_idempotence_unless_a_plugin_brings_its_own_episodes() -> None:
    class Choosy(Notebook):
        async def learn(self, episode: Episode, reward: float) -> None:
            if "chess" in episode.turns[-1].text:
                self.notes[episode.task.user, f"{len(self.notes)}"] = "they play chess"

    results = {result.name: result for result in check_component("memory", Choosy)}
    mine = [sample_episode(Task(index, index), text="chess") for index in range(3)]

    assert results["learning_twice_is_learning_once"].skipped
    assert "episodes=" in results["learning_twice_is_learning_once"].detail
    assert "learning_twice_is_learning_once" in failures("memory", Choosy, episodes=mine)


class NotesSettings(Settings):
    limit: int = Field(5, description="Maximum number of notes.")


class Notes(Notebook):
    def __init__(self, settings: NotesSettings) -> None:
        super().__init__()
        self.limit = settings.limit


@dataclass
class Plugin:
    """Any object with hooks is a plugin."""

    name: str = "notes"
    settings: str = "NotesSettings"

    @hookimpl
    def agentfw_memories(self) -> list[Component]:
        return [Component(self.name, f"{__name__}:Notes", "Notes", settings=f"{__name__}:{self.settings}")]


def test_a_component_is_checked_by_name_with_its_settings() -> None:
    host = fresh_host(Plugin())

    results = run_contract(host, "memory", "notes", {"limit": 3})

    assert len(results) == len(contract("memory"))
    assert all(result.passed for result in results)
    assert results[0].to_record()["promise"] == "It can be made, and its class is derived from Memory."


class Unexplained(Settings):
    limit: int = 5


class Unfit(Settings):
    limit: int = Field(0, ge=1, description="Maximum number of notes.")


@pytest.mark.parametrize(
    ("model", "detail"),
    [
        ("Unexplained", '"limit" has no description'),
        ("Unfit", 'the default of "limit" is not valid: Input should be greater than or equal to 1'),
    ],
)
def test_settings_are_part_of_the_contract(model: str, detail: str) -> None:
    host = fresh_host(Plugin(settings=model))

    results = {result.name: result for result in run_contract(host, "memory", "notes")}

    assert not results["its_settings_are_explained"].passed
    assert results["its_settings_are_explained"].detail.startswith(detail)


def test_a_fresh_host_holds_what_it_is_given_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTFW_DISABLE_PLUGINS", "all")

    names = [offer.component.name for offer in fresh_host(Plugin(), Plugin("more")).components()]

    assert names == ["more", "notes"]


def test_a_broken_plugin_is_an_error_for_its_author_at_once() -> None:
    class Misspelt:
        @hookimpl
        def agentfw_memorys(self) -> list[Component]:
            return []

    with pytest.raises(PluginError, match="agentfw_memories"):
        fresh_host(Misspelt())
    with pytest.raises(PluginError, match="no_such_module"):
        fresh_host("no_such_module.plugin")
    assert fresh_host(Misspelt(), strict=False).notes


class Guests(Environment):
    """Serve each guest what they like."""

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        world.observe("guest", {"likes": "tea"})

    @action
    def serve(self, drink: str) -> None:
        """Serve a drink."""
        self.world.utility(float(drink == "tea"), "served")
        self.world.finish()


def test_a_spec_of_a_plugin_that_is_not_installed_runs_with_a_fake_model(
    agentfw_host: Any, agentfw_runs: Path, fake_model: FakeModel, tmp_path: Path
) -> None:
    host = agentfw_host(offering(environment={"tea-room": Guests}), builtins=True)
    fake_model.answers += [fake_model.call("serve", drink="tea"), fake_model.call("serve", drink="coffee")]
    spec = tmp_path / "tea.toml"
    spec.write_text('environment = "tea-room"\npolicy = "openai"\nepisodes = 2\nconcurrency = 1\n', "utf-8")
    model = {"policy.base_url": fake_model.url, "policy.model": "fake"}

    result = agentfw.run(spec=spec, settings=model, host=host, runs=agentfw_runs)

    assert [episode.utility for episode in result.episodes] == [1.0, 0.0]
    assert result.path.parent == agentfw_runs
    assert fake_model.requests[0]["tools"][0]["function"]["name"] == "serve"


def test_using_the_checks_imports_no_pytest() -> None:
    code = (
        "import sys, agentfw.testing; agentfw.testing.check_component('memory', dict); print('pytest' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert shown.strip() == "False"


def test_arguments_are_drawn_so_that_they_fit() -> None:
    @tool
    def order(drink: str, cups: int, sizes: list[int], sweet: bool | None = None, at: float = 0.5) -> str:
        """Order a drink."""
        return "ordered"

    generator = random.Random(7)
    for _ in range(200):
        order._spec.check(drawn(order.action.parameters, generator))
    for arguments, why in unfitting(order.action.parameters):
        with pytest.raises(InterventionRefused):
            order._spec.check(arguments)
        assert why


@pytest.mark.parametrize(
    "schema",
    [
        None,
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/Missing"}}},
        {"type": "object", "properties": {"x": {"default": object()}}},
        {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "list"}}}},
    ],
)
def test_a_schema_that_no_model_can_use_is_told(schema: Any) -> None:
    assert problems(schema)


def test_a_schema_that_contains_itself_can_be_drawn_from() -> None:
    node = {"type": "object", "properties": {"next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]}}}
    schema = {"type": "object", "properties": {"root": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}

    assert problems(schema) == []
    assert isinstance(drawn(schema, random.Random(7)), dict)
