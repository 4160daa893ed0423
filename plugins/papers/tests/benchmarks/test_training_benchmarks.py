"""The programs that train in the worlds of the papers, in small sizes."""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path

import pytest

from agentfw import Host
from agentfw.runs import parse_spec, resolve

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


@pytest.mark.parametrize("table", ["rules", "lambda", "level"])
def test_every_row_of_a_table_of_the_proactive_world_is_a_valid_training(table: str) -> None:
    benchmark, host = load("proactive_rewards"), Host.load()
    options = argparse.Namespace(updates=4, turns=10, work="unused", data="talks")

    for variant in benchmark.TABLES[table]:
        spec = resolve(parse_spec(benchmark.spec_of(table, variant, 7, options, host)), host)

        assert spec.updates == 4
        assert spec.environment.settings["data"].endswith("talks")
        assert {reward.name for reward in spec.rewards} == set(benchmark.TABLES[table][variant][0])


@pytest.mark.slow
def test_what_it_pays_to_learn_the_user_is_told_by_day(tmp_path: Path) -> None:
    found = load("assistant_rise").main(["--work", str(tmp_path), "--seeds", "1", "--users", "8", "--days", "10"])

    stopped, none = (found["leads"][arm] for arm in ("memory stopped", "no memory"))
    assert found["fifths"] == ["1 to 2", "3 to 4", "5 to 6", "7 to 8", "9 to 10"]
    # On the first day nobody has said anything, and on the second both memories know the same.
    assert stopped[0]["mean"] == pytest.approx(0)
    assert {row["mean"] for row in none} != {0.0}
