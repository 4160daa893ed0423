"""The settings of a run's components: validated once, kept exactly, and back again when the run is resumed."""

from __future__ import annotations

import asyncio
import datetime
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pydantic import AliasChoices, Field, SecretStr, computed_field, field_validator

from agentfw import Component, Settings, hookimpl
from agentfw.errors import SettingsError
from agentfw.host import Host
from agentfw.memory import Memory, Query, Recollection
from agentfw.runs.records.folder import RunFolder
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import parse_spec
from agentfw.runs.spec.values import from_json
from agentfw.testing import fresh_host


class Server(Settings):
    address: str = "localhost"
    password: SecretStr = SecretStr("")


class OddSettings(Settings):
    """What a stranger's settings may be."""

    key: SecretStr = SecretStr("none")
    server: Server = Server()
    width: float = Field(1.0, alias="class")
    colour: str = Field("red", validation_alias=AliasChoices("colour", "color"))
    percent: float = 3.0
    limit: float = float("inf")
    since: datetime.date = datetime.date(2020, 2, 29)
    anything: Any = None

    @field_validator("percent")
    @classmethod
    def _as_a_share(cls, value: float) -> float:
        return value * 100

    @computed_field  # type: ignore[prop-decorator]
    @property
    def area(self) -> float:
        return self.width**2


class Odd(Memory):
    """Remembers nothing but its settings."""

    made: ClassVar[list[OddSettings]] = []

    def __init__(self, settings: OddSettings) -> None:
        Odd.made.append(settings)

    async def recall(self, query: Query) -> Sequence[Recollection]:
        return ()


class Plugin:
    @hookimpl
    def agentfw_memories(self) -> list[Component]:
        return [Component("odd", f"{__name__}:Odd", "", settings=f"{__name__}:OddSettings")]


@pytest.fixture
def host() -> Host:
    Odd.made.clear()
    return fresh_host(Plugin(), builtins=True)


def create(host: Host, folder: Path, settings: dict[str, Any] | None = None, **values: Any) -> Run:
    spec = {
        "environment": "inbox",
        "policy": "random",
        "memories": [{"name": "odd", "settings": settings or {}}],
        "episodes": 1,
        **values,
    }
    return Run.create(parse_spec(spec), host, folder)


def reopened(run: Run, host: Host) -> OddSettings:
    """What the memory is made with when the run is resumed."""
    asyncio.run(Run.open(RunFolder.open(run.folder.path), host).execute())
    return Odd.made[-1]


GIVEN: dict[str, dict[str, Any]] = {
    "plain": {"percent": 2, "class": 3.5, "color": "blue", "server": {"address": "elsewhere"}},
    "odd": {
        "limit": float("inf"),
        "class": float("-inf"),
        "since": datetime.date(2021, 3, 4),
        "anything": {"deep": [float("inf"), datetime.datetime(2021, 3, 4, 5, 6), {"a": [1, 2.5, True, "x"]}]},
    },
}


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_a_component_gets_its_settings_as_validated(host: Host, tmp_path: Path, given: dict[str, Any]) -> None:
    run = create(host, tmp_path, given, horizon=float("inf"))

    assert Odd.made == [OddSettings.model_validate(given)]
    assert reopened(run, host) == Odd.made[0]
    assert Run.open(RunFolder.open(run.folder.path), host).spec.horizon == float("inf")


def test_run_json_says_what_was_given_and_what_is_in_force(host: Host, tmp_path: Path) -> None:
    run = create(host, tmp_path, {"percent": 2, "class": 2.0})

    text = (run.folder.path / "run.json").read_text("utf-8")
    found = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert found["spec"]["memories"][0]["settings"] == {"percent": 2, "class": 2.0}
    in_force = found["settings"]["memory.odd"]
    assert in_force["percent"] == 200
    assert in_force["class"] == 2.0
    assert from_json(in_force["limit"]) == float("inf")
    assert "area" not in in_force, "what is computed is no setting"


def test_a_default_that_changed_since_is_as_it_was(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = create(host, tmp_path, {"percent": 2})

    class Newer(OddSettings):
        colour: str = "green"

    monkeypatch.setitem(globals(), "OddSettings", Newer)
    found = reopened(run, host)

    assert (found.colour, found.percent) == ("red", 200)


def test_settings_that_can_not_stay_are_noted(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = create(host, tmp_path, {"percent": 2})

    class Newer(OddSettings):
        flavour: str = "mint"

    monkeypatch.setitem(globals(), "OddSettings", Newer)
    Run.open(RunFolder.open(run.folder.path), host)

    assert any("memory.odd has other settings than when the run began: flavour" in note for note in host.notes)


def test_a_key_that_a_damaged_run_has_is_told_with_the_file(host: Host, tmp_path: Path) -> None:
    run = create(host, tmp_path, {})
    file = run.folder.path / "run.json"
    file.write_text(file.read_text("utf-8").replace('"window"', '"windov"'), "utf-8")

    with pytest.raises(SettingsError, match=r'run\.json\.windov: no such key; did you mean "window"?'):
        Run.open(RunFolder.open(run.folder.path), host)
