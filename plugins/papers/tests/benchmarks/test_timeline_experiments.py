"""The experiments with explicit time: what they measure, what they save, and that a run can use what was saved."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import deliberation_table
import pytest
from deliberation_table import measure_deliberation
from kitchen_table import PLAYERS, measure_kitchen, sight_delays

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
def test_a_clock_teaches_when_to_think_less() -> None:
    found = measure_deliberation("single", training=3000, episodes=600, processes=1)
    rows = {(row.trained, row.played): row.figures for row in found.rows}
    assert rows["event", "event"]["timeout"].estimate == 0
    assert 0.15 < rows["event", "event"]["deepest"].estimate < 0.27
    assert rows["step", "event"]["timeout"].estimate > 0.7
    assert rows["step", "event"]["return"].high < 0 < rows["event", "event"]["return"].low
    assert rows["step", "step"]["return"].estimate > rows["event", "step"]["return"].estimate
    assert found.picture().to_svg().count("<polyline") == 2


def kept(interface: str, seed: int = 3, *, bounded: bool = False, **settings: Any) -> Episode:
    agent = PolicyAgent(KitchenController(KitchenControllerSettings(bounded=bounded)), window=1)
    kitchen = Kitchen(KitchenSettings.model_validate(settings))
    return asyncio.run(Engagement(kitchen, agent, parse_interface(interface)).run(Task(0, seed=seed)))


def test_signals_are_seen_at_once_at_a_poll_or_when_the_tutor_is_done() -> None:
    at_once, polled, late = (sight_delays(kept(name)) for name in ("event_driven", "polling:40", "step_loop"))
    assert set(at_once) == {0}
    assert 0 < max(polled) <= 40
    assert max(late) > 40


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
