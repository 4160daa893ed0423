"""The benchmark of an episode's calls runs, in a small size, so that it keeps working."""

from __future__ import annotations

import importlib
import json

import pytest

pytestmark = pytest.mark.nightly

load = importlib.import_module


def test_the_calls_of_an_episode_are_counted_alike_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    benchmark = load("episode_calls")

    result = benchmark.main(["--most", "300", "--json"])

    assert json.loads(capsys.readouterr().out) == result
    counts = {row["function"]: row["calls"] for row in result["functions"]}
    turns = counts["framework/agentfw/turns/engagement.py Engagement._turn"]
    assert turns == counts["plugins/agentfw_plugins/worlds/calendar/environment.py CalendarConflicts.decide"] == 104
    assert not [name for name in counts if "report/" in name or "LinearPolicy" in name]
    assert turns < result["framework"] < result["calls"] == pytest.approx(benchmark.measure(0)["calls"], rel=0.01)
