"""The programs that train in the worlds of the papers, in small sizes."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

load = importlib.import_module


@pytest.mark.slow
def test_trainings_for_time_and_for_correctness_stand_side_by_side(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for module in ("peft", "transformers"):
        pytest.importorskip(module)
    table = load("budget_table")
    small = ["--work", str(tmp_path), "--seeds", "7", "--updates", "1", "--problems", "40", "--jobs", "1"]
    result = table.main([*small, "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert {row["variant"] for row in result["rows"]} == {table.BASE, *table.VARIANTS}
    began = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("updates.jsonl")}
    assert len(began) == 3
    table.main(small)  # what is there is not done again
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("updates.jsonl")} == began
    assert "| 16 | budgeted |" in capsys.readouterr().out
