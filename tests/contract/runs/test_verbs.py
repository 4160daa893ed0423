"""`agentfw.run`, `train` and `load` do what the commands do, and their results show themselves."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import agentfw
from agentfw.errors import SettingsError, UnknownNameError, UsageError
from agentfw.runs import RunResult

SITE = Path(__file__).parents[2] / "site"
QUICK: dict[str, Any] = {"policy": "hashing", "episodes": 3}


@pytest.fixture(autouse=True)
def laboratory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder; the plugin agentfw-laboratory is installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(SITE))


def test_a_run_has_its_figures_its_episodes_and_a_folder() -> None:
    result = agentfw.run("guessing", **QUICK)

    assert len(result.episodes) == 3
    assert all(episode.turns for episode in result.episodes)
    assert result.figures["utility"].count == 3
    assert result.to_record()["figures"]["utility"]["mean"] == result.figures["utility"].estimate
    assert (result.path / "report.html").is_file()


def test_settings_and_several_components_are_chosen_as_on_the_command_line() -> None:
    result = agentfw.run("guessing", reward=["utility", "format=0.5"], settings={"environment.rounds": 2}, **QUICK)

    spec = result.folder.about["spec"]
    assert [(reward["name"], reward["weight"]) for reward in spec["rewards"]] == [("utility", 1.0), ("format", 0.5)]
    assert spec["environment"]["settings"] == {"rounds": 2}


def test_a_run_is_found_again() -> None:
    result = agentfw.run("guessing", **QUICK)

    assert agentfw.load().path == agentfw.load(result.path.name).path == result.path
    assert repr(agentfw.load("last")) == repr(result)


def test_a_result_shows_itself_in_a_terminal_and_in_a_notebook() -> None:
    result = agentfw.run("guessing", **QUICK)

    shown, page = repr(result), result._repr_html_()

    assert "utility" in shown.splitlines()[0]
    assert "hashing" in shown.splitlines()[1]
    assert shown.endswith(str(result.path))
    assert page.startswith("<svg")
    assert "<th>utility</th>" in page


def test_it_runs_where_an_event_loop_runs_already() -> None:
    async def notebook() -> RunResult:
        return agentfw.run("guessing", **QUICK)

    assert len(asyncio.run(notebook()).episodes) == 3


def test_a_training_shows_figures_before_and_after() -> None:
    parts: dict[str, Any] = {"policy": "biased", "learner": "bias", "optimizer": "centred"}
    result = agentfw.train("bandit", updates=2, settings={"tasks": 4}, **parts)

    assert result.summary.updates == 2
    assert result.summary.before
    assert repr(result).split()[:2] == ["before", "after"]


def test_mistakes_are_errors_before_any_work() -> None:
    with pytest.raises(UnknownNameError, match='did you mean "guessing"'):
        agentfw.run("gessing")
    with pytest.raises(SettingsError, match=r"environment\.rounds\.more is below rounds"):
        agentfw.run("guessing", settings={"environment.rounds": 2, "environment.rounds.more": 1})
    with pytest.raises(UsageError, match="a training needs an environment"):
        agentfw.train(optimizer="grpo")
    with pytest.raises(UnknownNameError, match="no run is called"):
        agentfw.load("nothing")

    assert not Path("runs").exists()


@pytest.mark.slow
def test_a_run_is_a_table_of_its_episodes_or_turns(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    result = agentfw.run("inbox", episodes=2, runs=tmp_path)

    episodes, turns = result.frame(), result.frame("turns")

    assert isinstance(episodes, pandas.DataFrame)
    assert list(episodes["episode"]) == ["00000-0", "00001-0"]
    assert list(episodes["balanced"]) == [episode.outcome["balanced"] for episode in result.episodes]
    assert len(turns) == sum(len(episode.turns) for episode in result.episodes)
    assert turns["calls"][0] == '[["write", {}]]'
