"""Kills are counted and compared, in a small number. `tests/contract/` kills more, at the worst of moments."""

from __future__ import annotations

import importlib
import json
import sys

import pytest

pytestmark = [pytest.mark.nightly, pytest.mark.slow]

kills = importlib.import_module("kills")
WORDS = [["runs", "--case", "rounds"], ["trainings", "--case", "bandit"], ["replicas"], ["agents"]]


@pytest.mark.parametrize("words", WORDS)
def test_what_is_killed_ends_as_if_undisturbed(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    if "replicas" in words and not sys.platform.startswith("linux"):
        pytest.skip("finds its replicas in /proc")
    result = kills.main([*words, "--kills", "1", "--json"])
    assert json.loads(capsys.readouterr().out) == result | {"trials": json.loads(json.dumps(result["trials"]))}
    assert result["kills"] == 1
    assert result["equal"] == result[words[0]]


def test_engines_train_alike() -> None:
    for module in ("peft", "transformers"):
        pytest.importorskip(module)
    assert kills.main(["engines", "--case", "pool"])["pool: different"] == []


def test_a_quota_that_ends_costs_no_answer_twice() -> None:
    result = kills.main(["quota", "--users", "4", "--rounds", "2", "--answered", "10"])
    assert result["answered before the quota ended"] == 10
    assert result["turns in the record"] == result["requests of the run"] == 28
    assert result["answered after resuming"] == 18
    assert result["asked again although answered"] == 0
