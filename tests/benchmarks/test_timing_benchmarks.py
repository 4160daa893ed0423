"""The benchmarks of the proactive metrics and of an episode's calls run, in a small size, so that they can't rot."""

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


def test_the_calls_of_an_episode_are_counted_alike_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    benchmark = load("episode_calls")

    result = benchmark.main(["--most", "300", "--json"])

    assert json.loads(capsys.readouterr().out) == result
    counts = {row["function"]: row["calls"] for row in result["functions"]}
    turns = counts["framework/agentfw/engagement.py Engagement._turn"]
    assert turns == counts["plugins/agentfw_plugins/worlds/calendar/environment.py CalendarConflicts.decide"] == 104
    assert not [name for name in counts if "report/" in name or "LinearPolicy" in name]
    assert turns < result["framework"] < result["calls"] == pytest.approx(benchmark.measure(0)["calls"], rel=0.01)
