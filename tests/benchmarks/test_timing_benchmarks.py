"""The benchmark of the proactive metrics runs, in a small size, so that it can't rot."""

from __future__ import annotations

import importlib
import json

import pytest

pytestmark = pytest.mark.nightly

load = importlib.import_module


@pytest.mark.slow
def test_the_metrics_are_measured_and_the_tables_recomputed(capsys: pytest.CaptureFixture[str]) -> None:
    benchmark = load("proactive_metrics")
    small = ["--turns", "100", "--repeats", "2"]

    result = benchmark.main([*small, "--json"])

    assert json.loads(capsys.readouterr().out) == result
    assert len(result["rows"]) == 34
    assert result["largest error"] <= 5e-5
    assert result["scoring"]["median"] > 0
    counts = [result["catalog"][name] for name in ("actions", "workflows", "slots", "actions without parameters")]
    assert counts == [30, 55, 25, 17]
    benchmark.main(small)
    assert "Qwen2.5-14B-ProActor-Q4 + Custom RULER         0.7293      0.7293" in capsys.readouterr().out
