"""`agentfw compare --sweep`: one spec, run once for each value of a setting."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Agentfw = Callable[..., Any]


def test_interfaces_are_compared_on_the_same_tasks(agentfw: Agentfw) -> None:
    sweep = ("--sweep", "interface=step_loop,polling:15,event_driven", "--set", "episodes=3")

    answer = agentfw("compare", "inbox", *sweep, "--figure", "balanced", "--json")

    (row,) = answer.json
    loop, polling, events = row["runs"]
    assert [run["label"] for run in row["runs"]] == [
        f"interface={name}" for name in ("step_loop", "polling:15", "event_driven")
    ]
    assert loop["mean"] < polling["mean"] < events["mean"]
    assert events["difference"]["mean"] == pytest.approx(events["mean"] - loop["mean"])


def test_several_settings_are_combined_and_a_file_can_be_swept(agentfw: Agentfw) -> None:
    Path("my.toml").write_text('environment = "guessing"\npolicy = "hashing"\nepisodes = 2\n')
    sweeps = ("--sweep", "environment.rounds=1,2", "--sweep", "seed=1,2")

    answer = agentfw("compare", "my.toml", *sweeps, "--figure", "error")

    assert answer.code == 0, answer.err
    for label in (f"rounds={rounds} seed={seed}" for rounds in (1, 2) for seed in (1, 2)):
        assert label in answer.out
    assert len(list(Path("runs").iterdir())) == 4


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
    assert not list(Path().glob("runs/*")), "it is found before anything is run"
