"""`agentfw compare`: runs, specs, or one spec with several values of a setting, on the tasks that they share."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Agentfw

SPEC = 'environment = "guessing"\npolicy = "hashing"\nepisodes = 2\n'


def test_runs_are_compared_by_the_tasks_that_they_share(agentfw: Agentfw, quick: tuple[str, ...]) -> None:
    variants = ((), ("--episodes", "1"), ("--seed", "1"))
    whole, short, others = (agentfw(*quick, *more, "--json").json["run"] for more in variants)

    answer, longer = agentfw("compare", short, whole), agentfw("compare", whole, short)
    record = agentfw("compare", short, whole, "--json").json
    apart, itself = agentfw("compare", whole, others), agentfw("compare", "last", "last")
    slip = agentfw("compare", whole, short, "--figure", "eror")

    assert f"the difference of {whole} is that of 1 common task, of 1 and 3" in answer.err
    assert "answer length (tokens)  " in answer.out, "as it is called everywhere"
    assert f"the difference of {short} is that of 1 common task, of 3 and 1" in longer.err
    assert record[0]["runs"][1]["difference"]["tasks"] == 1
    better = {row["figure"]: row["better"] for row in record}
    assert (better["error"], better["reward"], better["answer_tokens"]) == ("lower", "higher", None)
    assert f"{others} has no task in common with {whole}" in apart.err
    assert slip.out == ""
    assert 'no figure is called "eror"; did you mean "error"?' in slip.told(2)
    assert "two different runs" in itself.told(2)


def test_specs_are_run_and_compared(agentfw: Agentfw) -> None:
    Path("one.toml").write_text(SPEC)
    Path("two.toml").write_text(SPEC + "memories = ['scratch']\n")
    assert "two different runs" in agentfw("compare", "one.toml").told(2)

    answer = agentfw("compare", "one.toml", "two.toml", "--figure", "error").ok

    assert " ".join(answer.out.splitlines()[0].split()) == "figure run mean ± 95% difference to the first"
    assert len(list(Path("runs").iterdir())) == 2
    assert "the lower the error, the better" in answer.err


def test_interfaces_are_compared_on_the_same_tasks(agentfw: Agentfw) -> None:
    sweep = ("--sweep", "interface=step_loop,polling:15,event_driven", "--set", "episodes=3")

    (row,) = agentfw("compare", "inbox", *sweep, "--figure", "balanced", "--json").json

    loop, polling, events = row["runs"]
    labels = [run["label"].removeprefix("interface=") for run in row["runs"]]
    assert labels == ["step_loop", "polling:15", "event_driven"]
    assert loop["mean"] < polling["mean"] < events["mean"]
    assert events["difference"]["mean"] == pytest.approx(events["mean"] - loop["mean"])


def test_several_settings_are_combined_and_a_file_can_be_swept(agentfw: Agentfw) -> None:
    Path("my.toml").write_text(SPEC)
    sweeps = ("--sweep", "environment.rounds=1,2", "--sweep", "seed=1,2")

    told = agentfw("compare", "my.toml", *sweeps, "--figure", "error").ok.out

    for label in (f"rounds={rounds} seed={seed}" for rounds in (1, 2) for seed in (1, 2)):
        assert label in told
    assert len(list(Path("runs").iterdir())) == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("inbox", "--sweep", "environment.rate=0.1,"), "isn't of the form KEY=A,B"),
        (("inbox", "--sweep", "environment.rate=0.1,often"), "rate"),
        (("inbox", "last", "--sweep", "seed=1,2"), "one spec"),
        (("inbox", "other", "--set", "seed=1"), "there is no --sweep"),
    ],
)
def test_a_wrong_sweep_is_refused(agentfw: Agentfw, words: tuple[str, ...], said: str) -> None:
    assert said in agentfw("compare", *words, "--set", "episodes=1").told(2)
    assert not list(Path().glob("runs/*")), "it is found before anything is run"
