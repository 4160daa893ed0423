"""The benchmark of feedback runs, in a small size. What it measures here is no figure to quote."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly


@pytest.mark.slow
def test_thumbs_through_the_gateway_teach_memory_and_weights(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--users", "6", "--conversations", "12", "--updates", "4"]

    result = importlib.import_module("feedback_teaches").main(["--work", str(tmp_path), *sizes, "--json"])

    assert json.loads(capsys.readouterr().out) == result
    assert list(result["arms"]) == ["without memory", "memory", "memory and training"]
    shares = [value for row in result["arms"].values() for value in (row["first third"][0], row["last third"][0])]
    assert all(0 <= share <= 1 for share in shares)
    assert result["arms"]["memory"] != result["arms"]["without memory"], "what is recalled changes what is offered"
    assert result["weights"] != {"named": 1.0, "alike": 2.0}, "weights are trained"
