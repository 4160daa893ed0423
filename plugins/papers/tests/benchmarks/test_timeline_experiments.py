"""The experiments with explicit time: what they measure, what they save, and that a run can use what was saved."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import deliberation_table
import kitchen_table
import machine_table
import patrol_table
import pytest
from deliberation_table import measure_deliberation
from kitchen_table import PLAYERS, measure_kitchen, polls, sight_delays
from patrol_table import measure_patrol

from agentfw import Engagement, Episode, PolicyAgent, Task
from agentfw.interfaces import parse_interface
from agentfw_papers.tables.qtable import QTablePolicy, QTableSettings
from agentfw_papers.tables.table_training import play
from agentfw_papers.worlds.deliberation.environment import Deliberation
from agentfw_papers.worlds.kitchen.environment import Kitchen
from agentfw_papers.worlds.kitchen.kitchen_settings import KitchenSettings
from agentfw_papers.worlds.kitchen.rule_policy import KitchenController, KitchenControllerSettings

pytestmark = pytest.mark.nightly

SMALL = ("--training", "300", "--episodes", "40", "--jobs", "1")


def test_a_saved_table_can_be_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = ("--tables", str(tmp_path / "tables"), "--pictures", str(tmp_path))

    deliberation_table.main(["--setting", "single", *SMALL, *folders])

    assert "| setting | trained | played | return | success |" in capsys.readouterr().out
    names = {path.name for path in (tmp_path / "tables").iterdir()}
    assert names == {"deliberation-single-event.json", "deliberation-single-step.json"}
    policy = QTablePolicy(QTableSettings(table=str(tmp_path / "tables" / "deliberation-single-event.json")))
    episodes = play(Deliberation, policy, Deliberation().tasks(20, 1, "test"))
    assert all(len(turn.calls) == 1 for episode in episodes for turn in episode.turns[:1])


@pytest.mark.slow
def test_one_seed_gives_the_same_figures() -> None:
    words = ["--setting", "chain", *SMALL, "--json"]

    def rows(*more: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = deliberation_table.main([*words, *more])["rows"]
        return found

    first, again, other = rows(), rows(), rows("--seed", "7")
    assert first == again
    assert first != other
    assert [(row["trained"], row["played"]) for row in first] == [
        ("event", "event"),
        ("event", "step"),
        ("step", "event"),
        ("step", "step"),
    ]


@pytest.mark.slow
def test_processes_of_their_own_give_the_same_figures() -> None:
    size = {"training": 40, "episodes": 10}

    one, two = (measure_deliberation("single", **size, processes=processes) for processes in (1, 2))

    assert one.rows == two.rows


@pytest.mark.slow
def test_a_patrol_in_one_piece_has_no_patches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = ["--depth", "1", "--training", "30", "--episodes", "4", "--jobs", "1"]

    result = patrol_table.main([*size, "--tables", str(tmp_path), "--json"])

    assert json.loads(capsys.readouterr().out) == result
    assert [row["controller"] for row in result["rows"]] == ["learned", "loop", "greedy", "greedy loop"]
    assert (tmp_path / "patrol-1.json").exists()


@pytest.mark.slow
def test_a_patrol_of_modules_has_the_same_table() -> None:
    plain, composed = (
        measure_patrol(2, training=30, episodes=10, modules=modules, processes=1) for modules in (False, True)
    )

    assert composed.rows == plain.rows
    assert composed.table.to_record() == plain.table.to_record()


@pytest.mark.slow
def test_a_clock_teaches_when_to_think_less() -> None:
    found = measure_deliberation("single", training=3000, episodes=600, processes=1)
    rows = {(row.trained, row.played): row.figures for row in found.rows}
    assert rows["event", "event"]["timeout"].estimate == 0
    assert 0.15 < rows["event", "event"]["deepest"].estimate < 0.27
    assert rows["step", "event"]["timeout"].estimate > 0.7
    assert rows["step", "event"]["return"].high < 0 < rows["event", "event"]["return"].low
    assert rows["step", "step"]["return"].estimate > rows["event", "step"]["return"].estimate
    assert found.picture().to_svg().count("<polyline") == 2


@pytest.mark.slow
def test_a_patrol_with_phases_ranks_its_controllers() -> None:
    found = measure_patrol(2, training=400, episodes=60, processes=1)
    returns = {row.controller: row.figures["return"].estimate for row in found.rows}
    assert returns["patchpro"] > returns["patch"] > returns["loop"]
    assert returns["learned"] > returns["greedy loop"]


def kept(interface: str, seed: int = 3, *, bounded: bool = False, **settings: Any) -> Episode:
    agent = PolicyAgent(KitchenController(KitchenControllerSettings(bounded=bounded)), window=1)
    kitchen = Kitchen(KitchenSettings.model_validate(settings))
    return asyncio.run(Engagement(kitchen, agent, parse_interface(interface)).run(Task(0, seed=seed)))


def test_signals_are_seen_at_once_at_a_poll_or_when_the_tutor_is_done() -> None:
    at_once, polled, late = (sight_delays(kept(name)) for name in ("event_driven", "polling:40", "step_loop"))
    assert set(at_once) == {0}
    assert 0 < max(polled) <= 40
    assert max(late) > 40


def test_polls_are_counted_while_the_tutor_explains() -> None:
    episode = kept("polling:40", variant="one", lesson="long")
    tutored = sum(turn.count for turn in episode.turns if turn.seat == "tutor")
    assert abs(polls(episode, 40) - tutored / 40) < 2
    assert polls(episode, 10**9) == 0


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["one", "multi"])
def test_the_experiment_plays_every_cell_under_every_interface(variant: str) -> None:
    table = measure_kitchen(variant, structures=1, processes=1)
    rows = {(row.family, row.player): row for row in table.rows}
    families = {family for family, _ in rows}
    assert table.kitchens == (16 if variant == "one" else 54)
    assert len(families) == (5 if variant == "one" else 4)
    assert len(rows) == len(families) * len(PLAYERS)
    loop, best = rows["", "step_loop"], rows["", "event_driven"]
    assert loop.figures["utility"].estimate < best.figures["utility"].estimate
    assert loop.difference is not None
    gap = loop.figures["utility"].estimate - best.figures["utility"].estimate
    assert loop.difference.difference.estimate == pytest.approx(gap)
    assert best.difference is None
    polling = rows["", "polling:40"].figures
    assert polling["charged"].estimate < polling["utility"].estimate


@pytest.mark.slow
def test_the_table_says_what_a_clock_teaches(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small = ["--setting", "single", "--training", "1500", "--episodes", "150", "--jobs", "1"]
    result = deliberation_table.main([*small, "--pictures", str(tmp_path), "--json"])
    assert json.loads(capsys.readouterr().out) == result
    returns = {(row["trained"], row["played"]): row["return"]["mean"] for row in result["rows"]}
    assert returns["event", "event"] > returns["step", "event"]
    assert (tmp_path / "deliberation-single.svg").exists()
    deliberation_table.main(small)
    assert "(+0.800)" in capsys.readouterr().out


@pytest.mark.slow
def test_a_patrol_that_hears_of_alarms_at_once_does_better(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--depth", "1", "--training", "60", "--episodes", "8", "--jobs", "1"]
    result = patrol_table.main([*small, "--json"])
    assert json.loads(capsys.readouterr().out) == result
    resolved = {row["controller"]: row["resolved"]["mean"] for row in result["rows"]}
    assert resolved["greedy"] > resolved["loop"]
    patrol_table.main(small)
    assert "(51.5%)" in capsys.readouterr().out


@pytest.mark.slow
def test_a_cook_who_hears_of_signals_at_once_serves_more(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--variant", "one", "--structures", "1", "--jobs", "1"]
    result = kitchen_table.main([*small, "--json"])
    assert json.loads(capsys.readouterr().out) == result
    means = {row["player"]: row["utility"]["mean"] for row in result["tables"][0]["rows"] if not row["family"]}
    assert means["step_loop"] < means["event_driven"]
    kitchen_table.main(small)
    assert "the paper's order" in capsys.readouterr().out


@pytest.mark.slow
def test_a_table_of_beliefs_does_better_than_one_of_noises(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--training", "150", "--episodes", "40", "--jobs", "1"]

    result = machine_table.main([*words, "--json"])

    assert json.loads(capsys.readouterr().out) == result
    rows = {row["keeper"]: row for row in result["rows"]}
    assert rows["table of beliefs"]["return"]["low"] > rows["table of noises"]["return"]["high"]
    assert rows["plan"]["promised"] > rows["plan, polled every 20"]["promised"]
    machine_table.main(words)
    assert "| plan, polled every 5 |" in capsys.readouterr().out
