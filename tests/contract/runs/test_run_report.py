"""What a run leaves: a report that is harmless whatever a model has said, and files that tell the same however read."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from command_line import SITE, Agentfw

import agentfw as framework
from agentfw import Episode
from agentfw.errors import UsageError
from agentfw.runs import RunFolder, figure_text, find_run, list_runs, timeline_picture, write_report

from .conftest import number_labels, training_notes


@pytest.fixture
def laboratory(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SITE))
    return importlib.import_module("agentfw_laboratory.playing")


def report(folder: Any) -> str:
    page, picture = write_report(folder)
    assert picture.read_text("utf-8").startswith("<svg")
    return page.read_text("utf-8")


def test_one_episode_is_enough_and_rounds_make_the_curve(
    laboratory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    players = {"always 0": {"error": 0.5}, "always 4": {"error": 0.25}}
    guessing = importlib.import_module("agentfw_laboratory.guessing")
    monkeypatch.setattr(guessing.Guessing, "references", lambda self, task: players)
    folder = laboratory.play(tmp_path, episodes=1, environment={"name": "guessing", "settings": {"rounds": 8}}).folder
    page = report(folder)

    (episode,) = folder.episodes()
    last = f"error, 8: {number_labels([fmean(episode.series('error')[-2:])])[0]}"
    assert last in (folder.path / "curve.svg").read_text("utf-8"), "the mean of the last 2 rounds"
    assert not re.search(r"\bnan\b", page.partition("<script>")[0], re.I)
    assert "one episode; the best simple player, always 4: 0.250" in page
    assert "100% were carried out" in page
    assert ", 1 episode<" in page
    assert "Error by round" in page
    assert "The lower the error, the better." in page


def test_without_rounds_the_episodes_make_the_curve_of_headline_or_utility(laboratory: Any, tmp_path: Path) -> None:
    folder = laboratory.play(tmp_path, environment="inbox", policy="scripted").folder

    page = report(folder)

    assert "Balanced by episode" in page
    assert "<td>reward = utility</td>" in page, "figures that are the same are one row"
    assert "utility: what the episode was worth" in page

    file = folder.path / "run.json"
    file.write_text(file.read_text().replace('"headline": "balanced"', '"headline": "glory"'))

    assert "Utility by episode" in report(type(folder).open(folder.path)), "nobody measured the headline"


def test_what_a_world_says_is_shown_and_never_obeyed(laboratory: Any, tmp_path: Path) -> None:
    environment = {"name": "guessing", "settings": {"odd": True}}
    page = report(laboratory.play(tmp_path, environment=environment, episodes=3).folder)

    assert "&lt;b&gt;bold&lt;/b&gt; &amp; � nothing 🍵 � half a pair" in page
    assert "\x00" not in page
    assert page.count("<script") == 1
    assert "http://" not in page.replace("http://www.w3.org/", "")
    assert "https://" not in page


def test_a_run_that_was_broken_off_has_a_report_of_what_there_is(laboratory: Any, tmp_path: Path) -> None:
    run = laboratory.play(tmp_path, episodes=5)
    (run.folder.path / "summary.json").unlink()
    file = run.folder.path / "metrics.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:3]) + b'{"epi')

    assert "3 of 5 episodes" in report(run.folder)
    file.write_bytes(b"")
    with pytest.raises(UsageError, match="has no finished episode yet"):
        write_report(run.folder)


def test_the_timeline_shows_what_was_put_aside(laboratory: Any, tmp_path: Path) -> None:
    folder = laboratory.play(tmp_path, environment="inbox", policy="scripted", episodes=1).folder
    (episode,) = folder.episodes()

    drawn = timeline_picture(episode).to_svg()

    for words in ("becomes known", "is done", "write", "handle email", "put aside"):
        assert words in drawn


def test_of_each_group_the_worst_the_median_and_the_best_are_shown(laboratory: Any, tmp_path: Path) -> None:
    folder = laboratory.play(tmp_path, episodes=6, samples=4).folder

    page = report(folder)

    rewards: dict[str, list[tuple[float, str]]] = {}
    for record in folder.metrics():
        group = rewards.setdefault(record["episode"].partition("-")[0], [])
        group.append((record["reward"], record["episode"]))
    shown = [name for group in rewards.values() for _, name in group if f"Episode {name}</span>" in page]
    assert len(shown) == 4 * 3
    ordered = sorted(map(sorted, rewards.values()), key=lambda group: group[0][0] - group[-1][0])
    assert {name for group in ordered[:4] for _, name in (group[0], group[-1])} <= set(shown), "where they differ most"


def test_a_training_says_where_its_time_went(laboratory: Any, tmp_path: Path) -> None:
    trained = framework.train(
        "bandit", policy="biased", learner="bias", optimizer="centred", updates=2, settings={"tasks": 4}, runs=tmp_path
    )
    page = report(trained.folder)

    # What an optimizer says is told if it says so after each update.
    line = {**trained.folder.updates()[0], "note": "wait"}
    assert "wait" in training_notes([line, line])
    assert training_notes([line, {**line, "note": ""}]) == training_notes(trained.folder.updates())
    for phase in ("playing", "learning", "publishing", "evaluating"):
        assert f"<td>{phase}</td>" in page
    assert "waiting for rollouts" not in page


# -- what is read back -------------------------------------------------------------------------------------------------


def read(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def run(agentfw: Agentfw, quick: tuple[str, ...]) -> Path:
    assert agentfw(*quick).code == 0
    (folder,) = Path("runs").iterdir()
    return folder


def test_episodes_are_read_as_they_were_written_whatever_the_run_is_called(run: Path) -> None:
    lines = read(run / "episodes.jsonl")

    loaded = framework.load(run.name).episodes
    opened = list(RunFolder.open(run).episodes())

    assert sorted(episode.id for episode in loaded) == ["00000-0", "00001-0", "00002-0"]
    assert [Episode.from_record(line) for line in lines] == opened
    for line, episode in zip(lines, opened, strict=True):
        assert [tuple(event[:4]) for event in line["events"]] == [
            (event.time, event.kind, event.name, event.data) for event in episode.events
        ]
        assert [turn["text"] for turn in line["turns"]] == [turn.text for turn in episode.turns]
        assert [message[:2] for message in line["messages"]] == [[one.role, one.content] for one in episode.messages]
        assert (line["utility"], line["outcome"]) == (episode.utility, episode.outcome)
    found = [find_run(Path("runs"), name).id for name in (str(run), run.name, run.name[-8:], "last")]
    assert found == [run.name] * 4
    assert [folder.id for folder in list_runs(Path("runs"))] == [run.name]


def test_a_figure_is_the_mean_of_its_lines_in_table_notebook_report_json_and_view(agentfw: Agentfw, run: Path) -> None:
    lines = read(run / "metrics.jsonl")
    shown = agentfw("runs", "show", run.name, "--json").json
    loaded = framework.load(run.name)
    length = fmean(fmean(turn.count for turn in episode.turns) for episode in loaded.episodes)

    assert [line["episode"] for line in lines] == ["00000-0", "00001-0", "00002-0"]
    assert loaded.figures["utility"].estimate == pytest.approx(fmean(line["utility"] for line in lines))
    assert (shown["headline"], shown["done"], shown["state"]) == ("error", 3, "done")
    assert shown["mean"] == pytest.approx(fmean(line["outcome"]["error"] for line in lines))
    for figures in (shown["summary"]["figures"], json.loads((run / "summary.json").read_text("utf-8"))["figures"]):
        assert (figures["answer_tokens"]["mean"], figures["answer_tokens"]["count"]) == (pytest.approx(length), 3)
    title = "answer length (tokens)"
    table = " ".join(agentfw("runs", "show", run.name).out.split())
    assert f"{title} {figure_text('answer_tokens', length)} " in table
    assert f"<th>{title}</th>" in loaded._repr_html_()
    page = (run / "report.html").read_text("utf-8")
    assert page.count(title) == 3, "explained, among the figures, and as a column of the episodes"
    assert agentfw("view", run.name, "--bundle", "site").code == 0
    assert f">{title}</th>" in Path("site", "index.html").read_text("utf-8")
