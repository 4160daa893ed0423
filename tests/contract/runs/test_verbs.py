"""`agentfw.run`, `train` and `load` do what the commands do, and their results show themselves."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import pytest
from command_line import SITE

import agentfw
from agentfw.errors import PluginError, SettingsError, UnknownNameError, UsageError
from agentfw.runs import RunResult

QUICK: dict[str, Any] = {"policy": "hashing", "episodes": 3}


@pytest.fixture(autouse=True)
def laboratory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder; the plugin agentfw-laboratory is installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(SITE))


def test_a_run_has_figures_episodes_and_a_folder_is_found_again_and_shows_itself() -> None:
    rewards = ["utility", "format=0.5"]
    result = agentfw.run("guessing", reward=rewards, settings={"environment.rounds": 2}, **QUICK)

    shown, page = repr(result), result._repr_html_()

    spec = result.folder.about["spec"]
    assert [(reward["name"], reward["weight"]) for reward in spec["rewards"]] == [("utility", 1.0), ("format", 0.5)]
    assert spec["environment"]["settings"] == {"rounds": 2}
    assert [bool(episode.turns) for episode in result.episodes] == [True] * 3
    assert result.figures["utility"].count == 3
    assert result.to_record()["figures"]["utility"]["mean"] == result.figures["utility"].estimate
    assert (result.path / "report.html").is_file()
    assert agentfw.load().path == agentfw.load(result.path.name).path == result.path
    assert repr(agentfw.load("last")) == shown
    assert "utility" in shown.splitlines()[0]
    assert "hashing" in shown.splitlines()[1]
    assert shown.endswith(str(result.path))
    assert page.startswith("<svg")
    assert "<th>utility</th>" in page


def test_a_run_is_played_again_by_its_name_and_names_may_be_long_in_any_alphabet() -> None:
    def correct(episode: agentfw.Episode) -> float:
        return 1.0

    correct.__name__ = correct.__qualname__ = 120 * "判"
    first = agentfw.run("guessing", reward=correct, **QUICK)

    again = agentfw.run(spec="last", reward=correct)

    assert again.path != first.path
    assert (first.figures["reward"].estimate, len(again.episodes)) == (1.0, 3)


def test_it_runs_where_an_event_loop_runs_already() -> None:
    async def notebook() -> RunResult:
        return agentfw.run("guessing", **QUICK)

    assert len(asyncio.run(notebook()).episodes) == 3


def test_an_interrupted_notebook_ends_its_run_and_keeps_what_was_played() -> None:
    async def interrupts(request: agentfw.Request) -> str:
        if request.task is not None and request.task.index == 1:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            await asyncio.sleep(5.0)
        return ""

    async def notebook() -> None:
        agentfw.run("guessing", policy=interrupts, episodes=3, settings={"concurrency": 1})

    loop = asyncio.new_event_loop()  # not `asyncio.run`, which has a handler of its own for an interrupt
    # A process that was started in the background ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(notebook())
    signal.signal(signal.SIGINT, before)
    loop.close()

    (episodes,) = Path("runs").glob("*/episodes.jsonl")
    assert len(episodes.read_bytes().splitlines()) == 1


def test_a_training_shows_figures_before_and_after() -> None:
    parts: dict[str, Any] = {"policy": "biased", "learner": "bias", "optimizer": "centred"}
    result = agentfw.train("bandit", updates=2, settings={"tasks": 4}, **parts)

    assert result.summary.updates == 2
    assert result.summary.before
    assert repr(result).split()[:2] == ["before", "after"]


def test_mistakes_are_errors_before_any_work() -> None:
    with pytest.raises(UnknownNameError, match='did you mean "guessing"') as caught:
        agentfw.run("gessing")
    with pytest.raises(SettingsError, match=r"environment\.rounds\.more is below rounds"):
        agentfw.run("guessing", settings={"environment.rounds": 2, "environment.rounds.more": 1})
    with pytest.raises(PluginError, match=r"\['hashing', 'biased'\] is no policy"):
        agentfw.run("guessing", policy=["hashing", "biased"])
    with pytest.raises(UsageError, match="a training needs an environment"):
        agentfw.train(optimizer="grpo")
    with pytest.raises(UnknownNameError, match="no run is called"):
        agentfw.load("nothing")

    assert "fix: similar: guessing" in "".join(traceback.format_exception(caught.value))
    assert not Path("runs").exists()


def test_a_run_is_a_table_of_its_episodes_or_turns(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    result = agentfw.run("inbox", episodes=2, runs=tmp_path)

    episodes, turns = result.frame(), result.frame("turns")

    assert isinstance(episodes, pandas.DataFrame)
    assert list(episodes["episode"]) == ["00000-0", "00001-0"]
    assert list(episodes["balanced"]) == [episode.outcome["balanced"] for episode in result.episodes]
    assert len(turns) == sum(len(episode.turns) for episode in result.episodes)
    assert turns["calls"][0] == '[["write", {}]]'


def test_a_table_of_polars_has_what_the_first_episodes_lack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("polars")
    monkeypatch.setitem(sys.modules, "pandas", None)
    result = agentfw.run("inbox", episodes=1, runs=tmp_path)
    file = result.path / "metrics.jsonl"
    line = json.loads(file.read_text())
    lines = [line | {"episode": f"{number:05}-0", "unrated": number < 100} for number in range(101)]
    file.write_text("".join(f"{json.dumps(one)}\n" for one in lines))

    assert result.frame()["reward"].to_list() == [*[None] * 100, line["reward"]]
