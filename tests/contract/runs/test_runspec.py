"""A spec, its settings, and the words in them: everything that is wrong is said at once, as whoever wrote it would."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, SecretStr, field_validator

from agentfw.boundary.settings_input import parse_assignments, validate
from agentfw.errors import SettingsError, UnknownNameError, UsageError
from agentfw.interfaces import EventDriven, Interface, Polling, StepLoop, parse_interface
from agentfw.runs import apply_assignments, parse_spec, read_spec
from agentfw.runs.spec.weights import Progress, parse_schedule
from agentfw.settings import Settings

from .conftest import with_choices

LEAST = {"environment": "inbox", "policy": "scripted"}
FILES = {"name": "mcp", "alias": "files"}
SMALL = {"name": "scripted", "alias": "small", "fallback": "small"}


@pytest.mark.parametrize(
    ("values", "at_once"),
    [
        ({}, 32),
        ({"tasks": 64, "samples": 8}, 256),
        ({"tasks": 64, "samples": 8, "groups": "query"}, 64),
        ({"tasks": 64, "concurrency": 5}, 5),
    ],
)
def test_a_training_plays_an_update_at_once(values: dict[str, Any], at_once: int) -> None:
    assert parse_spec({**LEAST, "optimizer": "grpo", "learner": "lora", **values}).concurrency == at_once


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"episodes": 0}, "spec.episodes: must be at least 1"),
        ({"split": "foo"}, "must be train, validation or test"),
        ({"rewards": ["utility", "utility"]}, "utility: is listed twice; a reward has one weight"),
        ({"tools": ["mcp", {"name": "mcp"}]}, "mcp: is listed twice; give one an alias"),
        ({"tools": [{"name": "skills", "alias": "mcp"}, "mcp"]}, "mcp: is listed twice"),
        ({"tools": [{"name": "mcp", "alias": "my files"}]}, '(got "my files")'),
        ({"interface": "polling:0"}, "can't poll every 0.0"),
        ({"models": [SMALL]}, "the fallback of small is small, which is no other model of agentfw, small"),
        ({"fallback": "big"}, "the fallback of the policy is big, which is no other model of agentfw"),
        ({"optimizer": "grpo", "learner": "lora", "groups": "query", "samples": 1}, "groups of 1 users need tasks"),
        ({"environment": 3}, "spec.environment: must be a table"),
        ({"memories": 3}, "spec.memories: must be a list"),
    ],
)
def test_a_value_that_cannot_be_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_spec({**LEAST, **values})

    assert words in caught.value.message


@pytest.mark.parametrize("name", ["latin.toml", "."])
def test_a_file_that_is_no_text_is_told(tmp_path: Path, name: str) -> None:
    (tmp_path / "latin.toml").write_bytes(b'environment = "\xff"')

    with pytest.raises(UsageError, match="can't read"):
        read_spec(tmp_path / name)


@pytest.mark.parametrize(
    ("assignment", "key", "value"),
    [
        ("seed=3", "seed", 3),
        ("environment.rate=0.5", "environment", {"name": "inbox", "settings": {"rate": 0.5}}),
        ("environment=gymnasium", "environment", {"name": "gymnasium"}),
        ("sampling.top_p=0.9", "sampling", {"temperature": 1, "top_p": 0.9}),
        ("memory.notebook.limit=3", "memories", [{"name": "notebook", "settings": {"limit": 3}}]),
        ("tool.files.command=ls", "tools", [{"name": "mcp"}, FILES | {"settings": {"command": "ls"}}]),
        ("tool.mcp.url=x", "tools", [{"name": "mcp", "settings": {"url": "x"}}, FILES]),
        ("reward.utility.weight=2", "rewards", [{"name": "utility", "weight": 2, "settings": {}}, {"name": "format"}]),
        ("policy.a.b=1", "policy", {"name": "scripted", "settings": {"tokens": 4, "a": {"b": 1}}}),
    ],
)
def test_an_assignment_sets_one_thing_and_leaves_the_others(assignment: str, key: str, value: Any) -> None:
    values = {
        "environment": "inbox",
        "policy": {"name": "scripted", "settings": {"tokens": 4}},
        "memories": "notebook",
        "rewards": ["utility", {"name": "format"}],
        "tools": ["mcp", FILES],
        "sampling": {"temperature": 1},
    }

    changed = apply_assignments(values, parse_assignments([assignment]))

    assert changed[key] == value
    assert {name: value for name, value in changed.items() if name != key} == {
        name: value for name, value in values.items() if name != key
    }


def test_a_component_that_is_named_again_keeps_its_settings_and_another_one_has_none_of_them() -> None:
    given = {"name": "scripted", "settings": {"tokens": 4}}
    for name, kept in (("scripted", given), ("random", {"name": "random"})):
        assert with_choices({"policy": given}, {"policy": name})["policy"] == kept
        assert with_choices({"tools": [given]}, {"tools": [name]})["tools"] == [kept]


def test_a_component_whose_name_has_dots_is_set_by_its_name() -> None:
    values = {"memories": ["my.notes", "my.notes.old"]}

    changed = apply_assignments(values, parse_assignments(["memory.my.notes.limit=3", "memory.my.notes.old.limit=4"]))

    assert [choice["settings"]["limit"] for choice in changed["memories"]] == [3, 4]


# -- settings ----------------------------------------------------------------------------------------------------------


class Sampler(Settings):
    top_k: int = 40


class Linear(Settings):
    slope: float = 1.0


class Server(BaseModel):
    """Doesn't forbid unknown keys by itself."""

    key: SecretStr = SecretStr("")


class Loose(BaseModel):
    """Doesn't forbid unknown keys by itself."""

    folder: str = "."
    temperature: Annotated[float, Field(ge=0, le=2)] = 1.0
    tokens: int = 100
    mode: Literal["greedy", "sample"] = "sample"
    stop: list[str] = Field(default_factory=list)
    sampler: Sampler = Sampler()
    samplers: dict[str, Sampler] = Field(default_factory=dict)
    shape: Sampler | Linear = Linear()
    server: Server | None = None
    servers: tuple[Server, ...] = ()
    limit: int | Literal["none"] = "none"
    api_token: Annotated[str, Field(min_length=3)] = "none"
    pairs: int = 2

    @field_validator("pairs")
    @classmethod
    def check(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even, because pairs are drawn")
        return value


class Strict(Settings, Loose):
    """Forbids unknown keys, and needs a folder."""

    folder: str


@pytest.mark.parametrize("model", [Loose, Strict])
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"temprature": 1}, 'policy.temprature: no such key; did you mean "temperature"?'),
        ({"temperature": 9}, "policy.temperature: must be at most 2 (got 9)"),
        ({"tokens": 1.5}, "policy.tokens: must be a whole number (got 1.5)"),
        ({"mode": "gready"}, "policy.mode: must be 'greedy' or 'sample' (got \"gready\")"),
        ({"stop": ["x", 3]}, "policy.stop.1: must be text (got 3)"),
        ({"sampler": 3}, "policy.sampler: must be a table (got 3)"),
        ({"sampler": {"topk": 3}}, 'policy.sampler.topk: no such key; did you mean "top_k"?'),
        ({"samplers": {"a": {"topk": 3}}}, 'policy.samplers.a.topk: no such key; did you mean "top_k"?'),
        ({"shape": {"slop": 1}}, 'policy.shape.slop: no such key; did you mean "slope"?'),
        ({"server": {"kex": "x"}}, 'policy.server.kex: no such key; did you mean "key"?'),
        ({"servers": [{"kex": "x"}]}, 'policy.servers.0.kex: no such key; did you mean "key"?'),
        ({"limit": "lots"}, "policy.limit: must be a whole number or 'none' (got \"lots\")"),
        ({"pairs": 3}, "policy.pairs: must be even, because pairs are drawn (got 3)"),
        ({"api_token": "s3"}, "policy.api_token: must be at least 3 characters long"),
    ],
)
def test_each_mistake_is_told_in_plain_words(model: type[BaseModel], values: dict[str, object], expected: str) -> None:
    with pytest.raises(SettingsError) as caught:
        validate(model, {"folder": "here", **values}, "policy")

    assert caught.value.message == expected


def test_a_secret_is_read_from_a_variable_wherever_its_table_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUR_KEY", "s3cret")
    given = {"key": {"env": "OUR_KEY"}}

    found = validate(Loose, {"server": given, "servers": [given]}, "policy")

    assert isinstance(found, Loose)
    assert [server and server.key.get_secret_value() for server in (found.server, *found.servers)] == ["s3cret"] * 2


def test_all_mistakes_are_told_at_once_with_the_keys_that_there_are() -> None:
    with pytest.raises(SettingsError) as caught:
        validate(Strict, {"temprature": 1, "tokens": "x"}, "policy")

    lines = caught.value.message.splitlines()
    assert lines[0] == "3 settings are wrong:"
    assert {line.strip().partition(":")[0] for line in lines[1:]} == {
        *("policy.temprature", "policy.tokens", "policy.folder")
    }
    assert "policy.folder: is required" in caught.value.message
    assert "settings of policy: temperature" in caught.value.fix


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.5", 0.5),
        ("true", True),
        ('"3"', "3"),
        ("[1, 2]", [1, 2]),
        ("{a = 1}", {"a": 1}),
        ("2026-11-21", datetime.date(2026, 11, 21)),
        ("plain words", "plain words"),
        ("a=b", "a=b"),
        ("", ""),
        ("1\nother = 2", "1\nother = 2"),
    ],
)
def test_values_are_toml_where_they_can_be(text: str, value: object) -> None:
    assert parse_assignments([f"environment.rate={text}"]) == {"environment": {"rate": value}}


def test_assignments_meet_in_one_table_and_the_last_holds() -> None:
    values = parse_assignments(["policy.temperature=1", "policy.top.k=2", "policy.temperature=3", "seed=7"])

    assert values == {"policy": {"temperature": 3, "top": {"k": 2}}, "seed": 7}


@pytest.mark.parametrize("assignments", [["policy"], ["=3"], ["a..b=3"], ["a=1", "a.b=2"], ["a.b=2", "a=1"]])
def test_what_is_no_assignment_is_an_error(assignments: list[str]) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_assignments(assignments)

    assert assignments[-1].partition("=")[0] in caught.value.message
    assert caught.value.fix


# -- words -------------------------------------------------------------------------------------------------------------

WEIGHT = st.floats(-10, 10)


@given(WEIGHT, WEIGHT, st.integers(1, 50))
def test_a_curriculum_goes_in_a_straight_line_from_first_to_last(first: float, last: float, rounds: int) -> None:
    schedule = parse_schedule(f"round:{first}->{last}")

    values = [schedule(Progress(round=number, rounds=rounds)) for number in range(rounds + 1)]

    assert values[0] == first
    assert values == pytest.approx([first + (last - first) * number / rounds for number in range(rounds + 1)])


@pytest.mark.parametrize(
    ("update", "weight"), [(0, 0.8), (33, 0.8), (34, 0.6), (66, 0.6), (67, 0.5), (99, 0.5), (100, 0.5)]
)
def test_stages_change_at_a_third_and_two_thirds(update: int, weight: float) -> None:
    assert parse_schedule("stages:0.8,0.6,0.5")(Progress(update=update, updates=100)) == weight


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (0.5, 0.5),
        ("0.5", 0.5),
        (" stages:0.8,0.6,0.4 ", 0.6),
        ("ramp:0.3", 0.15),
        ("ramp:1->0.7", 0.85),
        ("ramp:1->0.7@0.25", 0.7),
    ],
)
def test_schedules_have_words(text: str | float, value: float) -> None:
    assert parse_schedule(text)(Progress(round=1, rounds=4, update=5, updates=10)) == pytest.approx(value)


WRONG = "much nan round:1 round:a->b stages: stages:1,,2 ramp: ramp:1-> ramp:->1 ramp:1->0@2 ramp:1@0 ramp:1@2 up:1"


@pytest.mark.parametrize("text", ["", float("inf"), *WRONG.split()])
def test_what_is_no_weight_is_an_error_that_says_what_is(text: str | float) -> None:
    with pytest.raises(SettingsError) as raised:
        parse_schedule(text)
    assert raised.value.fix


MOMENTS = st.one_of(st.integers(0, 10**12), st.floats(0, 1e12))


@given(MOMENTS, st.one_of(st.integers(1, 10**6), st.floats(1e-300, 1e6)))
def test_polling_looks_at_the_next_multiple_and_never_in_the_past(now: float, every: float) -> None:
    when = Polling(every).delivery(now, busy=True)
    assert when is not None
    assert now <= when <= now + every * (1 + 1e-6) + now * 1e-15
    assert Polling(every).delivery(now, busy=False) == now


@pytest.mark.parametrize(
    ("text", "interface"),
    [("Event-Driven", EventDriven()), (" step-loop ", StepLoop()), ("polling:1e-3", Polling(0.001))],
)
def test_interfaces_have_words(text: str, interface: Interface) -> None:
    assert parse_interface(text) == interface


@pytest.mark.parametrize("text", ["polling", "polling:", "polling:often", "polling:-3", "polling:nan"])
def test_polling_needs_an_interval(text: str) -> None:
    with pytest.raises(SettingsError, match=r"poll|interval"):
        parse_interface(text)


@pytest.mark.parametrize("text", ["", "events", "step_loop:3"])
def test_an_unknown_interface_is_an_error_that_knows_the_others(text: str) -> None:
    with pytest.raises(UnknownNameError) as raised:
        parse_interface(text)
    assert "polling:EVERY" in raised.value.fix
