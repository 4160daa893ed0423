"""The programs that measure in the worlds of the papers, in small sizes.

Of those with explicit time: what they measure, what they save, and that a run can use what was saved.
"""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path

import pytest
import timeline_tables

from agentfw import Host
from agentfw.runs import parse_spec, resolve
from agentfw_papers.tables.table_training import play
from agentfw_papers.tables.value_table import QTablePolicy, QTableSettings
from agentfw_papers.worlds.deliberation.environment import Deliberation

pytestmark = pytest.mark.nightly

load = importlib.import_module
SMALL = ("--training", "300", "--episodes", "40", "--jobs", "1")


def test_a_saved_table_can_be_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    timeline_tables.main(["deliberation", "--setting", "single", *SMALL, "--tables", str(tmp_path / "tables")])

    assert "| setting | trained | played | return | success |" in capsys.readouterr().out
    names = {path.name for path in (tmp_path / "tables").iterdir()}
    assert names == {"deliberation-single-event.json", "deliberation-single-step.json"}
    policy = QTablePolicy(QTableSettings(table=str(tmp_path / "tables" / "deliberation-single-event.json")))
    episodes = play(Deliberation, policy, Deliberation().tasks(20, 1, "test"))
    assert all(len(turn.calls) == 1 for episode in episodes for turn in episode.turns[:1])


def test_a_clock_teaches_when_to_think_less_with_any_number_of_processes(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--setting", "single", "--training", "3000", "--episodes", "600"]
    result = timeline_tables.main(["deliberation", *words, "--jobs", "1", "--json"])

    assert json.loads(capsys.readouterr().out) == result
    rows = {(row["trained"], row["played"]): row for row in result["rows"]}
    assert list(rows) == [("event", "event"), ("event", "step"), ("step", "event"), ("step", "step")]
    assert rows["event", "event"]["timeout"]["mean"] == 0
    assert rows["step", "event"]["timeout"]["mean"] > 0.7
    assert rows["step", "event"]["return"]["high"] < 0 < rows["event", "event"]["return"]["low"]
    assert rows["step", "step"]["return"]["mean"] > rows["event", "step"]["return"]["mean"]
    assert timeline_tables.main(["deliberation", *words, "--jobs", "2"])["rows"] == result["rows"]
    assert "(+0.800)" in capsys.readouterr().out


def test_a_patrol_with_phases_ranks_its_controllers_also_as_modules(tmp_path: Path) -> None:
    size = ["--depth", "2", "--training", "400", "--episodes", "60", "--jobs", "1"]
    words = ["patrol", *size, "--tables", str(tmp_path)]
    plain, composed = (timeline_tables.main([*words, *more]) for more in ([], ["--modules"]))

    assert composed["rows"] == plain["rows"]
    returns = {row["controller"]: row["return"]["mean"] for row in plain["rows"]}
    assert returns["patchpro"] > returns["patch"] > returns["loop"]
    assert returns["learned"] > returns["greedy loop"]
    assert (tmp_path / "patrol-2.json").exists()


@pytest.mark.parametrize(("variant", "kitchens", "families"), [("one", 16, 5), ("multi", 54, 4)])
def test_every_cell_is_played_under_every_interface(
    variant: str, kitchens: int, families: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (table,) = timeline_tables.main(["kitchen", "--variant", variant, "--structures", "1", "--jobs", "1"])["tables"]

    assert "the paper's order" in capsys.readouterr().out
    rows = {(row["family"], row["player"]): row for row in table["rows"]}
    assert (table["kitchens"], len({family for family, _ in rows})) == (kitchens, families)
    assert len(rows) == families * len(timeline_tables.PLAYERS)
    loop, best = (rows["", player] for player in ("step_loop", "event_driven"))
    gap = loop["utility"]["mean"] - best["utility"]["mean"]
    assert loop["difference"]["mean"] == pytest.approx(gap)
    assert gap < 0
    assert "difference" not in best


def test_trainings_for_time_and_correctness_are_compared(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
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


def test_what_it_pays_to_learn_the_user_is_told_by_day(tmp_path: Path) -> None:
    found = load("assistant_rise").main(["--work", str(tmp_path), "--seeds", "1", "--users", "8", "--days", "10"])

    stopped, none = (found["leads"][arm] for arm in ("memory stopped", "no memory"))
    assert found["fifths"] == ["1 to 2", "3 to 4", "5 to 6", "7 to 8", "9 to 10"]
    # On the first day nobody has said anything, and on the second both memories know the same.
    assert stopped[0]["mean"] == pytest.approx(0)
    assert {row["mean"] for row in none} != {0.0}
