"""The calendar's benchmarks run, in a small size. What they measure here is no figure to quote."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

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
