"""The files of a run are what the documentation says, and every way to read them tells the same."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from command_line import Agentfw

import agentfw as framework
from agentfw import Episode
from agentfw.runs import RunFolder, figure_text, find_run, list_runs


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


@pytest.mark.slow
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
