"""`agentfw compare interfaces`, beside `agentfw compare` of runs; and one episode as a picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Agentfw = Callable[..., Any]
INTERFACES = ("--interface", "step_loop", "--interface", "event_driven")
QUICK = ("compare", "interfaces", "inbox", *INTERFACES, "--episodes", "3", "--jobs", "1")


def test_a_table_a_picture_and_every_episode(agentfw: Agentfw, tmp_path: Path) -> None:
    answer = agentfw(*QUICK, "--figure", "balanced")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].split() == ["figure", "interface", "mean", "±", "95%", "difference", "to", "step_loop"]
    assert lines[1].startswith("balanced  step_loop")
    assert lines[2].endswith("too few to tell from chance: 3 of at least 6 pairs")
    assert answer.err == ""
    (folder,) = (tmp_path / "runs").iterdir()
    assert {path.name for path in folder.iterdir()} == {"comparison.json", "comparison.png", "comparison.svg"}


def test_the_main_figures_are_shown_and_the_others_are_named(agentfw: Agentfw) -> None:
    answer = agentfw(*QUICK)

    shown = [line.split()[0] for line in answer.out.splitlines()[1:7:2]]
    assert shown == ["balanced", "utility", "turns"]
    assert "more figures, for --figure: " in answer.err
    assert "mails" in answer.err


@pytest.mark.slow
def test_json_is_one_value_and_the_same_each_time(agentfw: Agentfw, tmp_path: Path) -> None:
    first, again = (
        agentfw(*QUICK, "--seeds", "1-2,9", "--out", str(tmp_path / "there"), "--json").json for _ in range(2)
    )
    assert first == again
    assert first["seeds"] == [1, 2, 9]
    assert first["figures"][0]["figure"] == first["headline"] == "balanced"
    assert first["figures"][0]["interfaces"][1]["difference"]["mean"] > 0


def test_settings_and_policy_are_those_of_a_run(agentfw: Agentfw) -> None:
    quiet = agentfw(*QUICK, "--policy", "random", "--set", "environment.rate=0", "--json").json
    assert quiet["policy"] == "random"
    mails = next(row for row in quiet["figures"] if row["figure"] == "mails")
    assert {one["mean"] for one in mails["interfaces"]} == {1}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("inbx",), 'did you mean "inbox"'),
        (("inbox", "--seeds", "few"), "names no seeds"),
        (("inbox", "--seeds", "9-1"), "names no seeds"),
        (("inbox", "--seeds", "0-9999999999"), "names more than 10,000 seeds"),
        (("inbox", "--seeds", "1-6000,7000-12000"), "names more than 10,000 seeds"),
        (("inbox", "--interface", "step_lop"), 'did you mean "step_loop"'),
        (("inbox", "--set", "environment.rte=1"), 'did you mean "rate"'),
        ((), "ENVIRONMENT"),
    ],
)
def test_a_slip_is_told_with_its_mend(agentfw: Agentfw, words: tuple[str, ...], says: str) -> None:
    answer = agentfw("compare", "interfaces", *words, "--jobs", "1")
    assert answer.code == 2
    assert says in answer.err
    assert answer.out == ""


@pytest.mark.slow
def test_runs_are_compared_as_before_and_the_help_names_the_other(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    one, two = (agentfw(*quick, "--json").json["run"] for _ in range(2))
    assert agentfw("compare", one, two, "--figure", "error").code == 0
    assert "agentfw compare interfaces --help" in agentfw("compare", "--help").out
    assert agentfw("compare", "interfaces", "--help").out.startswith("Usage: agentfw compare interfaces ")
    assert agentfw("compare").code == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["day.png", "day.svg"])
def test_one_episode_becomes_a_picture(agentfw: Agentfw, tmp_path: Path, name: str) -> None:
    agentfw("run", "inbox", "--episodes", "2", "--quiet")
    before = {path.name for path in next((tmp_path / "runs").iterdir()).iterdir()}
    answer = agentfw("report", "--episode", "00001-0", "--picture", name)
    assert (answer.code, answer.out) == (0, f"{name}\n")
    picture = (tmp_path / name).read_bytes()
    assert picture.startswith(b"\x89PNG") if name.endswith("png") else b"inbox, episode 00001-0" in picture
    assert {path.name for path in next((tmp_path / "runs").iterdir()).iterdir()} == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--episode", "00000-0"), "add --picture FILE"),
        (("--picture", "day.gif"), "ends in .png or .svg"),
        (("--picture", "day.png", "--episode", "7"), "the first is 00000-0, the last 00001-0"),
    ],
)
def test_a_picture_that_cannot_be_is_told(agentfw: Agentfw, words: tuple[str, ...], says: str) -> None:
    agentfw("run", "inbox", "--episodes", "2", "--quiet")
    answer = agentfw("report", *words)
    assert answer.code == 2
    assert says in answer.err
