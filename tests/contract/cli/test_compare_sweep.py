"""`agentfw compare --sweep`: one spec, run once for each value of a setting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Agentfw = Callable[..., Any]

SMALL = ("--set", "episodes=2", "--figure", "mails")


def test_each_value_is_a_run_and_a_row(agentfw: Agentfw) -> None:
    answer = agentfw("compare", "inbox", "--sweep", "environment.rate=0.05,0.3", *SMALL)

    assert answer.code == 0, answer.err
    assert "rate=0.05" in answer.out
    assert "rate=0.3" in answer.out
    assert agentfw("runs", "list").out.count("inbox") == 2


@pytest.mark.slow
def test_interfaces_are_compared_on_the_same_tasks(agentfw: Agentfw) -> None:
    sweep = ("--sweep", "interface=step_loop,polling:15,event_driven", "--set", "episodes=6")

    answer = agentfw("compare", "inbox", *sweep, "--figure", "balanced", "--json")

    (row,) = answer.json
    loop, polling, events = row["runs"]
    assert [run["label"] for run in row["runs"]] == [
        f"interface={name}" for name in ("step_loop", "polling:15", "event_driven")
    ]
    assert loop["mean"] < polling["mean"] < events["mean"]
    assert events["difference"]["mean"] == pytest.approx(events["mean"] - loop["mean"])


@pytest.mark.slow
def test_several_settings_are_combined_and_a_file_can_be_swept(agentfw: Agentfw) -> None:
    Path("my.toml").write_text('environment = "inbox"\npolicy = "scripted"\n')

    answer = agentfw(
        "compare", "my.toml", "--sweep", "environment.rate=0.1,0.3", "--sweep", "seed=1,2", *SMALL, "--json"
    )

    (row,) = answer.json
    assert [run["label"] for run in row["runs"]] == [
        f"rate={rate} seed={seed}" for rate in (0.1, 0.3) for seed in (1, 2)
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("inbox", "--sweep", "environment.rate=0.1,"), "isn't of the form KEY=A,B"),
        (("inbox", "--sweep", "environment.rate=0.1,0.1"), "with different values"),
        (("inbox", "--sweep", "environment.rate=0.1,often"), "rate"),
        (("inbox", "--sweep", "environment.rat=1,2"), "rat"),
        (("inbox", "last", "--sweep", "seed=1,2"), "one spec"),
        (("inbox", "--sweep", "seed=1"), "two different values"),
        (("inbox", "other", "--set", "seed=1"), "there is no --sweep"),
        (("imbox", "--sweep", "seed=1,2"), "inbox"),
    ],
)
def test_a_wrong_sweep_is_refused(agentfw: Agentfw, words: tuple[str, ...], said: str) -> None:
    answer = agentfw("compare", *words, "--set", "episodes=1")

    assert answer.code == 2
    assert said in answer.err


def test_a_wrong_value_is_found_before_anything_is_run(agentfw: Agentfw) -> None:
    agentfw("compare", "inbox", "--sweep", "environment.rate=0.1,often", "--set", "episodes=1")

    assert not list(Path().glob("runs/*"))
