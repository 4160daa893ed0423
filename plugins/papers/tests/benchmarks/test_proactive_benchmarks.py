"""The benchmarks of the proactive world run, and every training of their tables has a valid spec."""

from __future__ import annotations

import argparse
import importlib
import json

import pytest

from agentfw import Host
from agentfw.runs import parse_spec, resolve

pytestmark = pytest.mark.nightly

load = importlib.import_module


@pytest.fixture(scope="module")
def host() -> Host:
    return Host.load()


@pytest.mark.parametrize("table", ["rules", "lambda", "level", "cap", "half"])
def test_every_row_of_a_table_is_a_valid_training(table: str, host: Host) -> None:
    benchmark = load("proactive_rewards")
    options = argparse.Namespace(updates=4, turns=10, work="unused")

    for variant in benchmark.TABLES[table]:
        spec, *_ = resolve(parse_spec(benchmark.spec_of(table, variant, 7, options, host)), host)

        assert spec.updates == 4
        assert {reward.name for reward in spec.rewards} == set(benchmark.TABLES[table][variant][0])


def test_a_table_says_whether_its_rows_have_the_order_that_is_asked_for() -> None:
    benchmark = load("proactive_rewards")
    options = argparse.Namespace(table="rules", seeds=[7], updates=4)

    def row(pt: float, ac: float) -> dict[str, dict[str, float]]:
        return {
            "ac": {"mean": ac, "low": ac - 0.1, "high": ac + 0.1},
            "pt": {"mean": pt, "low": pt - 0.1, "high": pt + 0.1},
            "rar": {"mean": pt, "low": pt - 0.1, "high": pt + 0.1},
        }

    rows = {name: row(0.5, 0.5) for name in benchmark.TABLES["rules"]}
    apart = rows | {"RAC": row(0.2, 0.7), "Custom RULER": row(0.8, 0.4)}
    close = rows | {"RAC": row(0.4, 0.4), "Custom RULER": row(0.45, 0.7)}

    assert set(benchmark._findings(apart, list(apart), options).values()) == {True}
    assert set(benchmark._findings(close, list(close), options).values()) == {False}
    assert benchmark._by_rank([0, 0.3, 1], [0.1, 0.2, 0.2]) == pytest.approx(0.866, abs=1e-3)
    # Undefined at one seed, it is the mean of the others there.
    several = [{"1-0": {"ac": 0.2, "pt": 0.0}}, {"1-0": {"pt": 1.0}}]
    assert benchmark._over_seeds(several) == [{"ac": 0.2, "pt": 0.5}]


@pytest.mark.slow
def test_players_judge_and_interfaces_stand_in_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    found = load("proactive_environment").main(["--dialogues", "10"])

    assert set(found["players"]) == {"eager", "oracle", "reactive", "silent"}
    assert set(found["interfaces"]) == {"event_driven", "step_loop", "polling:3"}
    assert "ms a turn" in capsys.readouterr().out


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
