"""A spec says everything that is wrong with it, at once and in the words of whoever wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentfw.boundary.settings_input import parse_assignments
from agentfw.errors import SettingsError, UnknownNameError, UsageError
from agentfw.runs import apply_assignments, parse_spec, read_spec

LEAST = {"environment": "inbox", "policy": "scripted"}
FILES = {"name": "mcp", "alias": "files"}


@pytest.mark.parametrize(
    ("values", "at_once"),
    [
        ({}, 32),
        ({"tasks": 64, "samples": 8}, 256),
        ({"tasks": 64, "samples": 8, "groups": "query"}, 64),
        ({"tasks": 1}, 32),  # evaluations have more
        ({"tasks": 64, "concurrency": 5}, 5),
    ],
)
def test_a_training_plays_an_update_at_once(values: dict[str, Any], at_once: int) -> None:
    assert parse_spec({**LEAST, "optimizer": "grpo", "learner": "lora", **values}).concurrency == at_once


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"episodes": 0}, "spec.episodes: must be at least 1"),
        ({"episodes": 10**20}, "must be at most 1000000"),
        ({"split": "foo"}, "must be train, validation or test"),
        ({"rewards": ["utility", "utility"]}, "utility: is listed twice; a reward has one weight"),
        ({"tools": ["mcp", {"name": "mcp"}]}, "mcp: is listed twice; give one an alias"),
        ({"tools": [{"name": "skills", "alias": "mcp"}, "mcp"]}, "mcp: is listed twice"),
        ({"tools": [{"name": "mcp", "alias": "my files"}]}, '(got "my files")'),
        ({"memories": ["notebook", "notebook"]}, "notebook: is listed twice"),
        ({"interface": "polling:0"}, "can't poll every 0.0"),
        ({"environment": ""}, "spec.environment: must be at least 1 characters long"),
        ({"environment": 3}, "spec.environment: must be a table"),
        ({"memories": 3}, "spec.memories: must be a list"),
        ({"sampling": {"temprature": 1}}, 'spec.sampling.temprature: no such key; did you mean "temperature"?'),
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
        ("interface=step_loop", "interface", "step_loop"),
        ("environment.rate=0.5", "environment", {"name": "inbox", "settings": {"rate": 0.5}}),
        ("environment=gymnasium", "environment", {"name": "gymnasium"}),
        ("policy.replies=[1, 2]", "policy", {"name": "scripted", "settings": {"tokens": 4, "replies": [1, 2]}}),
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


@pytest.mark.parametrize(
    ("assignment", "words", "fix"),
    [
        (
            "memory.notbook.limit=3",
            'no selected memory is called "notbook"; did you mean "notebook"?',
            "--memory notbook",
        ),
        ("memory=3", "--set memory=... names no component", "name it: --set memory.NAME.KEY=VALUE"),
        ("environment=3", "--set environment=... names no key", "name it: --set environment.KEY=VALUE"),
        ("memory.notebook=3", "--set memory.notebook=... names no key", "name it: --set memory.notebook.KEY=VALUE"),
    ],
)
def test_an_assignment_to_nothing_is_told(assignment: str, words: str, fix: str) -> None:
    with pytest.raises((SettingsError, UnknownNameError)) as caught:
        apply_assignments({"environment": "inbox", "memories": ["notebook"]}, parse_assignments([assignment]))

    assert words in caught.value.message
    assert fix in caught.value.fix


def test_a_component_whose_name_has_dots_is_set_by_its_name() -> None:
    values = {"memories": ["my.notes", "my.notes.old"]}

    changed = apply_assignments(values, parse_assignments(["memory.my.notes.limit=3", "memory.my.notes.old.limit=4"]))

    assert [choice["settings"]["limit"] for choice in changed["memories"]] == [3, 4]
