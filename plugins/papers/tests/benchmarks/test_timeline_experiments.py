"""The experiments with explicit time: what they measure, what they save, and that a run can use what was saved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import timeline_tables

from agentfw_papers.tables.table_training import play
from agentfw_papers.tables.value_table import QTablePolicy, QTableSettings
from agentfw_papers.worlds.deliberation.environment import Deliberation

pytestmark = pytest.mark.nightly

SMALL = ("--training", "300", "--episodes", "40", "--jobs", "1")


def test_a_saved_table_can_be_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    timeline_tables.main(["deliberation", "--setting", "single", *SMALL, "--tables", str(tmp_path / "tables")])

    assert "| setting | trained | played | return | success |" in capsys.readouterr().out
    names = {path.name for path in (tmp_path / "tables").iterdir()}
    assert names == {"deliberation-single-event.json", "deliberation-single-step.json"}
    policy = QTablePolicy(QTableSettings(table=str(tmp_path / "tables" / "deliberation-single-event.json")))
    episodes = play(Deliberation, policy, Deliberation().tasks(20, 1, "test"))
    assert all(len(turn.calls) == 1 for episode in episodes for turn in episode.turns[:1])


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_patrol_with_phases_ranks_its_controllers_also_as_modules(tmp_path: Path) -> None:
    size = ["--depth", "2", "--training", "400", "--episodes", "60", "--jobs", "1"]
    words = ["patrol", *size, "--tables", str(tmp_path)]
    plain, composed = (timeline_tables.main([*words, *more]) for more in ([], ["--modules"]))

    assert composed["rows"] == plain["rows"]
    returns = {row["controller"]: row["return"]["mean"] for row in plain["rows"]}
    assert returns["patchpro"] > returns["patch"] > returns["loop"]
    assert returns["learned"] > returns["greedy loop"]
    assert (tmp_path / "patrol-2.json").exists()


@pytest.mark.slow
def test_a_patrol_in_one_piece_has_no_patches_and_hears_of_alarms_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--depth", "1", "--training", "60", "--episodes", "8", "--jobs", "1"]
    result = timeline_tables.main(["patrol", *small, "--json"])

    assert json.loads(capsys.readouterr().out) == result
    resolved = {row["controller"]: row["resolved"]["mean"] for row in result["rows"]}
    assert list(resolved) == ["learned", "loop", "greedy", "greedy loop"]
    assert resolved["greedy"] > resolved["loop"]


@pytest.mark.slow
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
