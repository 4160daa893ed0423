"""The benchmarks of the proactive world run, and every training of their tables has a valid spec."""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

import pytest

from agentfw import Host
from agentfw.runs import parse_spec, resolve
from agentfw_benchmarks import make_model
from agentfw_papers.worlds import proactive
from agentfw_papers.worlds.proactive.dataset import load_data

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


@pytest.mark.slow
def test_players_judge_and_interfaces_stand_in_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    found = load("proactive_environment").main(["--dialogues", "10"])

    assert set(found["players"]) == {"eager", "oracle", "reactive", "silent"}
    assert set(found["interfaces"]) == {"event_driven", "step_loop", "polling:3"}
    assert "ms a turn" in capsys.readouterr().out


def test_conversations_of_abcd_are_annotated_validated_and_held_out_by_flow(tmp_path: Path) -> None:
    benchmark = load("proactive_abcd")
    examples = benchmark.examples_of(Path(proactive.__path__[0]) / "domains" / "abcd" / "abcd_sample.json")

    report = benchmark.alignment(examples)
    turns = benchmark.hold_out("product_defect", examples, tmp_path)

    assert [one.passed for one in report.margins] == [9, 9, 7, 4, 4]
    splits = load_data(tmp_path).splits
    assert {one.dialogue.flow for one in splits["test"]} == {"product_defect"}
    assert {one.dialogue.flow for one in splits["train"]} == {"storewide_query"}
    assert turns == 44


@pytest.mark.slow
def test_a_language_model_is_asked_in_three_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = make_model(tmp_path / "model", hidden_size=64, intermediate_size=128)
    size = ["--dialogues", "2", "--examples", "2"]

    result = load("proactive_pretrained").main([*size, "--model", str(model)])

    assert "minus reasoning" in capsys.readouterr().out
    rows = {row["player"]: row for row in result["rows"]}
    assert rows["asg"].keys() >= {"minus drawn", "minus plain", "minus reasoning"}
    assert rows["never ready"]["rar"]["mean"] == 0 < rows["reactive"]["rar"]["mean"] < rows["eager"]["rar"]["mean"]
    assert rows["never ready"]["ac"]["mean"] == 1
