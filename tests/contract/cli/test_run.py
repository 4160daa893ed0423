"""What a person gave last and most precisely holds: a spec file, then the options, then `--set`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import Agentfw

SPEC = """
environment = { name = "guessing", settings = { rounds = 2 } }
policy = { name = "hashing", settings = { pause = 0.001 } }
rewards = [{ name = "rank", weight = 2.0 }, "utility"]
episodes = 2
seed = 3
"""


@pytest.fixture
def spec_of(agentfw: Agentfw) -> Callable[..., Any]:
    """The resolved spec of the run that these words make."""

    def run(*words: str) -> Any:
        answer = agentfw("run", *words, "--json")
        assert answer.code == 0, answer.err
        return agentfw("runs", "show", answer.json["folder"], "--json").json["about"]["spec"]

    return run


def test_options_go_before_the_file_and_assignments_before_options(spec_of: Callable[..., Any]) -> None:
    Path("my.toml").write_text(SPEC)

    spec = spec_of("--spec", "my.toml", "--seed", "0", "--episodes", "3", "--set", "episodes=1")

    assert (spec["seed"], spec["episodes"], spec["policy"]["name"]) == (0, 1, "hashing")
    assert spec["environment"]["settings"]["rounds"] == 2


def test_a_component_that_is_named_again_keeps_its_settings(spec_of: Callable[..., Any]) -> None:
    Path("my.toml").write_text(SPEC)

    spec = spec_of(
        "guessing", "--spec", "my.toml", "--policy", "hashing", "--reward", "rank", "--reward", "utility=0.5"
    )

    assert spec["environment"]["settings"]["rounds"] == 2
    assert spec["policy"]["settings"]["pause"] == 0.001
    assert [(reward["name"], reward["weight"]) for reward in spec["rewards"]] == [("rank", 2.0), ("utility", 0.5)]


@pytest.mark.slow
def test_the_next_step_is_named_as_it_can_be_typed_here(
    agentfw: Agentfw, quick: tuple[str, ...], tmp_path: Path
) -> None:
    near, far = agentfw(*quick), agentfw(*quick, "--runs", str(tmp_path / "far away"))
    timed = agentfw("run", "inbox", "--episodes", "2", "--runs", "timed")

    assert re.search(r"^next: agentfw view [\w-]+$", near.err, re.M)
    assert re.search(r"^next: agentfw view 'far away/[\w-]+'$", far.err, re.M)
    assert re.search(r"agentfw run inbox --interface step_loop .*&& agentfw compare \S+ last", timed.err)


@pytest.mark.slow
def test_any_episode_of_a_run_can_be_read_and_drawn(agentfw: Agentfw) -> None:
    Path("my.toml").write_text(SPEC)
    folder = Path(agentfw("run", "--spec", "my.toml", "--json").json["folder"])
    before = {path.name for path in folder.iterdir()}

    text = agentfw("runs", "show", str(folder), "--episode", "1").out
    record = agentfw("runs", "show", str(folder), "--episode", "00001-0", "--json").json
    wrong = agentfw("runs", "show", str(folder), "--episode", "7")
    drawn = agentfw("report", "--episode", "00001-0", "--picture", "day.svg")

    first = record["turns"][0]["calls"][0]
    assert f"> {first[0]}(" in text
    assert json.dumps(next(iter(first[1].values()))) in text
    assert wrong.code == 2
    assert 'no finished episode "7"' in wrong.err
    assert "00000-0 to 00001-0" in wrong.err
    assert (drawn.code, drawn.out) == (0, "day.svg\n")
    assert "guessing, episode 00001-0" in Path("day.svg").read_text("utf-8")
    assert {path.name for path in folder.iterdir()} == before
    for words, told in (
        ("--episode 00000-0", "add --picture FILE"),
        ("--picture day.png", "ends in .svg"),
        ("--picture day.svg --episode 7", "the first is 00000-0, the last 00001-0"),
    ):
        answer = agentfw("report", *words.split())
        assert (answer.code, told in answer.err) == (2, True), words
