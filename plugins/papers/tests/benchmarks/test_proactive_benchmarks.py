"""The benchmarks of the proactive world run, and every training of their tables has a valid spec."""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
from pathlib import Path

import pytest

from agentfw import Engagement, Generation, Host, Policy, PolicyAgent, Request
from agentfw.runs import parse_spec, resolve
from agentfw_benchmarks import make_model
from agentfw_papers.worlds import proactive
from agentfw_papers.worlds.proactive.conversations import asked_turns
from agentfw_papers.worlds.proactive.dataset import load_data
from agentfw_papers.worlds.proactive.environment import Proactive
from agentfw_papers.worlds.proactive.prompting import write_answer

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


def test_worked_examples_of_the_three_ways_differ_in_what_the_way_adds() -> None:
    benchmark = load("proactive_pretrained")

    plain, reasoning, asg = (benchmark.worked_examples(style, 6).splitlines() for style in benchmark.STYLES)

    answers = [line for line in plain if line.startswith("[")]
    assert len(set(answers)) == 6
    for more in (reasoning, asg):
        assert [line for line in more if line.startswith("[")] == answers
        assert [line for line in plain if line not in more] == []
    assert sum(line.startswith("thought:") for line in reasoning) == 6
    assert asg.count("states so far:") == 6
    assert "states so far:" not in reasoning


def test_answers_at_other_turns_know_nothing_of_the_dialogue() -> None:
    benchmark = load("proactive_pretrained")
    world = benchmark.world_of()
    tasks = world.tasks(6, 7, "test")
    turns = [asked_turns(world.example(task).dialogue, "customer") for task in tasks]
    right = [
        {turn: write_answer(world.example(task).annotation.at(turn).opportunities, "lines") for turn in some}
        for task, some in zip(tasks, turns, strict=True)
    ]

    played = [benchmark.outcome_of(world, task, some.get) for task, some in zip(tasks, right, strict=True)]
    drawn = benchmark.drawn(world, tasks, right, 7)

    assert all(one["ac"] == 1 for one in played)
    assert all(one["ac"] < 0.7 for one in drawn)


def test_states_in_the_prompt_are_those_of_the_world() -> None:
    benchmark = load("proactive_pretrained")
    world = benchmark.world_of()
    styled = Proactive(world.settings.model_copy(update={"style": "asg"}))
    (task,) = world.tasks(1, 7, "test")
    example = world.example(task)
    seen = list[tuple[int, str]]()

    class Oracle(Policy):
        async def generate(self, request: Request) -> Generation:
            assert request.moment is not None
            (shown,) = request.moment.of("turn")
            seen.append((shown.data["number"], shown.text.rpartition("\n\n")[0]))
            return Generation(write_answer(example.annotation.at(shown.data["number"]).opportunities, "lines"))

    asyncio.run(Engagement(styled, PolicyAgent(Oracle())).run(task))

    assert len(seen) > 2
    for turn, states in seen:
        said = benchmark.states_at(turn, example, world.catalog, lambda one: example.annotation.at(one).opportunities)
        assert said == states


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
