"""Settings errors as a person reads them, and what `--set` understands."""

from __future__ import annotations

import datetime
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, field_validator

from agentfw.boundary.settings_input import parse_assignments, validate
from agentfw.errors import SettingsError
from agentfw.settings import Settings


class Sampler(Settings):
    top_k: int = 40


class Linear(Settings):
    slope: float = 1.0


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
        ({"xyz": 1}, "policy.xyz: no such key"),
        ({"temperature": 9}, "policy.temperature: must be at most 2 (got 9)"),
        ({"tokens": 1.5}, "policy.tokens: must be a whole number (got 1.5)"),
        ({"tokens": [1]}, "policy.tokens: must be a whole number (got [1])"),
        ({"mode": "gready"}, "policy.mode: must be 'greedy' or 'sample' (got \"gready\")"),
        ({"stop": ["x", 3]}, "policy.stop.1: must be text (got 3)"),
        ({"sampler": 3}, "policy.sampler: must be a table (got 3)"),
        ({"sampler": {"topk": 3}}, 'policy.sampler.topk: no such key; did you mean "top_k"?'),
        ({"samplers": {"a": {"topk": 3}}}, 'policy.samplers.a.topk: no such key; did you mean "top_k"?'),
        ({"shape": {"slop": 1}}, 'policy.shape.slop: no such key; did you mean "slope"?'),
        ({"limit": "lots"}, "policy.limit: must be a whole number or 'none' (got \"lots\")"),
        ({"pairs": 3}, "policy.pairs: must be even, because pairs are drawn (got 3)"),
        ({"api_token": "s3"}, "policy.api_token: must be at least 3 characters long"),
    ],
)
def test_each_mistake_is_told_in_plain_words(model: type[BaseModel], values: dict[str, object], expected: str) -> None:
    with pytest.raises(SettingsError) as caught:
        validate(model, {"folder": "here", **values}, "policy")

    assert caught.value.message == expected


def test_all_mistakes_are_told_at_once_with_the_keys_that_there_are() -> None:
    with pytest.raises(SettingsError) as caught:
        validate(Strict, {"temprature": 1, "tokens": "x"}, "policy")

    lines = caught.value.message.splitlines()
    assert lines[0] == "3 settings are wrong:"
    assert {line.strip().partition(":")[0] for line in lines[1:]} == {
        *("policy.temprature", "policy.tokens", "policy.folder")
    }
    assert "policy.folder: is required" in caught.value.message
    assert caught.value.fix.startswith("known settings of policy: ")


def test_right_settings_come_back_as_the_model() -> None:
    checked = validate(Strict, {"folder": "here", "sampler": {"top_k": 3}}, "policy")

    assert checked == Strict(folder="here", sampler=Sampler(top_k=3))


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
