"""The calendar's benchmarks run, in a small size. What they measure here is no figure to quote."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

from agentfw_benchmarks import make_model

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
def test_a_pretrained_model_decides_with_several_windows_and_numbers_of_events(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for module in ("peft", "transformers"):
        pytest.importorskip(module)
    model = make_model(tmp_path / "model", hidden_size=64, intermediate_size=128)
    size = ["--users", "2", "--rounds", "2", "--windows", "1", "2", "--conflicts", "2", "3"]

    result = load("calendar_pretrained").main([*size, "--model", str(model), "--json"])

    assert json.loads(capsys.readouterr().out) == result
    rows = [(row["part"], row["window"], row["conflicts"]) for row in result["rows"]]
    assert rows == [("window", 1, 3), ("window", 2, 3), ("conflicts", 2, 2), ("conflicts", 2, 3)]
    assert all(0 <= row["error"]["mean"] <= 1 for row in result["rows"])
