"""The calendar's benchmarks run, in a small size. What they measure here is no figure to quote."""

from __future__ import annotations

import importlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from agentfw import Host, Intervention
from agentfw.report.statistics import bootstrap
from agentfw_benchmarks import make_model
from agentfw_benchmarks.runs import played

pytestmark = pytest.mark.nightly

load = importlib.import_module


@pytest.mark.slow
def test_a_training_on_the_calendar_is_told_by_its_held_out_error(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for module in ("peft", "transformers"):
        pytest.importorskip(module)
    size = ["updates=1", "tasks=2", "samples=2", "evaluation.tasks=2", "environment.rounds=2"]
    settings = [part for setting in size for part in ("--set", setting)]

    result = load("calendar_training").main(["--seeds", "1", "--runs", str(tmp_path), *settings])

    (row,) = result["rows"]
    assert [number for number, _ in row["curve"]] == [0, 1]
    assert f"| roundwise | 1 | {row['before']:.3f} |" in capsys.readouterr().out


@pytest.mark.slow
def test_a_model_learns_the_calendar_from_a_teacher_and_then_from_rewards(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for module in ("peft", "transformers"):
        pytest.importorskip(module)
    model = make_model(tmp_path / "model", hidden_size=64, intermediate_size=128, max_position_embeddings=16_384)
    size = ["--rounds", "2", "--users", "2", "--imitations", "1", "--shown", "2", "--begun", "1", "--beginnings", "2"]
    size += ["--trained-rounds", "2", "--updates", "1", "--samples", "2"]
    options = ["--work", str(tmp_path / "work"), *size, "--model", str(model)]
    learned = load("calendar_with_hub")

    result = learned.main([*options, "--json"])

    assert json.loads(capsys.readouterr().out) == result
    assert list(result["figures"]) == ["before", "imitation, 2 updates", "then rewards, 1 updates", "the teacher"]
    assert all(0 <= figure["mean"] <= 1 for figures in result["figures"].values() for figure in figures.values())
    learned.main(options)
    shown = capsys.readouterr().out
    assert "rounds with the hub" in shown, "and nothing is trained again"
    assert "| keeps the greatest sum |" in shown
    more = learned.main([*options, "--updates", "2"])
    assert list(more["figures"])[2] == "then rewards, 2 updates", "the training goes on"
    assert more["minutes"]["rewards"] > result["minutes"]["rewards"]
    assert more["minutes"]["imitation"] == result["minutes"]["imitation"]


def test_the_teacher_of_pretrained_models_learns_its_users_by_the_hub_alone(tmp_path: Path) -> None:
    """In the last five of twenty rounds it errs less than chance, and less than in the first five."""
    world = {"name": "calendar", "settings": {"rounds": 20, "conflicts": 3, "turns": 1}}
    teacher = str(load("noting_teacher").__file__)
    hub = {"name": "strategyhub", "settings": {"show": True}}
    spec = {"environment": world, "policy": teacher, "memories": [hub], "window": 1, "episodes": 30, "seed": 7}

    folder = played(spec, Host.load(), tmp_path)

    (rows,) = folder.stages().values()
    assert all(row["outcome"]["invalid"] == 0 for row in rows)
    steps = load("noting_steps").steps_of(folder.episodes())
    assert {step: figure["mean"] for step, figure in steps.items()} == dict.fromkeys(load("noting_steps").STEPS, 1.0)
    episode = next(folder.episodes())
    written = Intervention("strategy_hub", {"strategies": 5}), Intervention("decide", {"accept": "A"})
    broken = replace(episode, turns=[replace(turn, text="", calls=written) for turn in episode.turns])
    found = load("noting_steps").shares_of(broken)
    assert found["reads the feedback"] == found["notes what is new"] == found["keeps the greatest sum"] == 0
    errors = [[value for _, value in row["headline_by_round"]] for row in rows]
    first, last = ([sum(one[part]) / 5 for one in errors] for part in (slice(0, 5), slice(15, 20)))
    assert bootstrap(last).high < 2 / 3
    assert bootstrap([late - early for late, early in zip(last, first, strict=True)]).high < 0
