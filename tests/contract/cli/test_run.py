"""What a person gave last and most precisely holds: a spec file, then the options, then `--set`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Agentfw = Callable[..., Any]

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


def test_a_spec_file_is_run(spec_of: Callable[..., Any]) -> None:
    Path("my.toml").write_text(SPEC)

    spec = spec_of("--spec", "my.toml")

    assert (spec["environment"]["settings"]["rounds"], spec["policy"]["name"], spec["seed"]) == (2, "hashing", 3)


def test_options_go_before_the_file_and_assignments_before_options(spec_of: Callable[..., Any]) -> None:
    Path("my.toml").write_text(SPEC)

    spec = spec_of("--spec", "my.toml", "--seed", "4", "--episodes", "3", "--set", "seed=5")

    assert (spec["seed"], spec["episodes"]) == (5, 3)


def test_a_component_that_is_named_again_keeps_its_settings(spec_of: Callable[..., Any]) -> None:
    Path("my.toml").write_text(SPEC)

    spec = spec_of(
        "guessing", "--spec", "my.toml", "--policy", "hashing", "--reward", "rank", "--reward", "utility=0.5"
    )

    assert spec["environment"]["settings"]["rounds"] == 2
    assert spec["policy"]["settings"]["pause"] == 0.001
    assert [(reward["name"], reward["weight"]) for reward in spec["rewards"]] == [("rank", 2.0), ("utility", 0.5)]


def test_a_spec_that_a_plugin_ships_is_run_by_its_name(
    spec_of: Callable[..., Any], install: Callable[..., None], tmp_path: Path
) -> None:
    (tmp_path / "quick.toml").write_text(SPEC)
    code = f"""
from agentfw import hookimpl
from agentfw.hookspecs import NamedSpec
@hookimpl
def agentfw_specs():
    return [NamedSpec("quick", {str(tmp_path / "quick.toml")!r}, "A quick one")]
"""
    install("agentfw-quick", "[agentfw]\nquick = agentfw_quick\n", code)

    assert spec_of("quick")["seed"] == 3


def test_a_project_has_its_own_default_its_own_folder_and_its_pins(
    agentfw: Agentfw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("my.toml").write_text(SPEC)
    project = 'default = "my.toml"\nruns = "kept/here"\n[plugins]\nallow = ["agentfw-laboratory=={}"]\n'
    Path("agentfw.toml").write_text(project.format("1.0.0"))
    Path("below/it").mkdir(parents=True)
    monkeypatch.chdir("below/it")

    answer = agentfw("run", "--json")

    assert answer.code == 0, answer.err
    assert Path(answer.json["folder"]).parent == tmp_path / "kept" / "here"
    assert agentfw("runs", "list", "--json").json[0]["environment"] == "guessing"

    (tmp_path / "agentfw.toml").write_text(project.format("2.0.0"))
    refused = agentfw("run")
    assert refused.code == 2
    assert "isn't the version 2.0.0 that" in refused.err
    assert agentfw("run", "--plugin", "agentfw-laboratory").code == 3
    listed = agentfw("plugins", "list")
    assert "refused" in listed.out
    assert 'pip install "agentfw-laboratory==2.0.0"' in listed.out

    (tmp_path / "agentfw.toml").write_text('defualt = "my.toml"')
    slip = agentfw("run")
    assert slip.code == 2
    assert 'did you mean "default"?' in slip.err


@pytest.mark.slow
def test_a_run_elsewhere_is_named_by_its_path(agentfw: Agentfw, quick: tuple[str, ...], tmp_path: Path) -> None:
    near, far = agentfw(*quick), agentfw(*quick, "--runs", str(tmp_path / "far away"))

    assert re.search(r"^next: agentfw view [\w-]+$", near.err, re.M)
    assert re.search(r"^next: agentfw view 'far away/[\w-]+'$", far.err, re.M)


def test_where_time_matters_the_next_step_is_another_interface(agentfw: Agentfw, tmp_path: Path) -> None:
    told = agentfw("run", "inbox", "--episodes", "2").err

    (folder,) = (tmp_path / "runs").iterdir()
    assert f"agentfw run inbox --interface step_loop && agentfw compare {folder.name[-8:]} last\n" in told


def test_specs_are_run_and_compared(agentfw: Agentfw) -> None:
    Path("one.toml").write_text(SPEC)
    Path("two.toml").write_text(SPEC + "memories = ['scratch']\n")

    answer = agentfw("compare", "one.toml", "two.toml", "--figure", "error")

    assert answer.code == 0, answer.err
    assert answer.out.splitlines()[0].split() == [
        "figure",
        "run",
        "mean",
        "±",
        "95%",
        "difference",
        "to",
        "the",
        "first",
    ]
    assert len(list(Path("runs").iterdir())) == 2
    assert "the lower the error, the better" in answer.err


def test_the_headline_stands_once_in_the_table_with_its_interval_behind_it(agentfw: Agentfw) -> None:
    pytest.importorskip("agentfw_papers")
    answer = agentfw("run", "assistant", "--episodes", "1")

    heading = next(line for line in answer.out.splitlines() if "satisfaction" in line)
    assert heading.split() == ["judge", "95%", "satisfaction", "procedure", "proactive", "calls", "done"]
    assert answer.err.startswith("assistant   1 user, 1 day, ")


def test_a_difference_says_how_many_tasks_it_is_taken_from(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    first = agentfw(*quick, "--episodes", "1", "--json").json["run"]
    second = agentfw(*quick, "--json").json["run"]

    answer, same = agentfw("compare", first, second), agentfw("compare", first, second, "--json").json
    longer = agentfw("compare", second, first)

    assert f"the difference of {second} is that of 1 common task, of 1 and 3" in answer.err
    assert f"the difference of {first} is that of 1 common task, of 3 and 1" in longer.err
    assert same[0]["runs"][1]["difference"]["tasks"] == 1


@pytest.mark.slow
def test_runs_of_different_tasks_are_told_apart(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    first = agentfw(*quick, "--json").json["run"]
    second = agentfw(*quick, "--seed", "1", "--json").json["run"]

    answer = agentfw("compare", first, second)

    assert answer.code == 0
    assert f"{second} has no task in common with {first}" in answer.err


def test_any_episode_of_a_run_can_be_read(agentfw: Agentfw) -> None:
    Path("my.toml").write_text(SPEC)
    folder = agentfw("run", "--spec", "my.toml", "--json").json["folder"]

    text = agentfw("runs", "show", folder, "--episode", "1").out
    record = agentfw("runs", "show", folder, "--episode", "00001-0", "--json").json
    wrong = agentfw("runs", "show", folder, "--episode", "7")

    first = record["turns"][0]["calls"][0]
    assert f"> {first[0]}(" in text
    assert json.dumps(next(iter(first[1].values()))) in text
    assert wrong.code == 2
    assert 'no finished episode "7"' in wrong.err
    assert "00000-0 to 00001-0" in wrong.err
