"""The files of a run are what the documentation says, and every way to read them tells the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Agentfw

import agentfw as framework
from agentfw import Episode
from agentfw.runs import RunFolder, find_run, list_runs

RUN = ("run", "guessing", "--policy", "hashing", "--episodes", "3")


def read(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture
def run(agentfw: Agentfw) -> Path:
    assert agentfw(*RUN).code == 0
    (folder,) = Path("runs").iterdir()
    return folder


def test_episodes_are_read_as_they_were_written(run: Path) -> None:
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
        assert line["utility"] == episode.utility
        assert line["outcome"] == episode.outcome


def test_figures_are_the_means_of_the_lines(agentfw: Agentfw, run: Path) -> None:
    lines = read(run / "metrics.jsonl")
    mean = sum(line["utility"] for line in lines) / len(lines)

    summary = json.loads((run / "summary.json").read_text("utf-8"))
    shown = agentfw("runs", "show", run.name, "--json").json
    headline = sum(line["outcome"]["error"] for line in lines) / len(lines)
    loaded = framework.load(run.name)

    assert [line["episode"] for line in lines] == ["00000-0", "00001-0", "00002-0"]
    assert loaded.figures["utility"].estimate == pytest.approx(mean)
    assert loaded.figures["utility"].count == 3
    assert summary["figures"]["utility"]["mean"] == pytest.approx(mean)
    assert (shown["headline"], shown["mean"]) == ("error", pytest.approx(headline))
    assert (shown["done"], shown["state"]) == (3, "done")


def test_a_run_is_found_by_its_path_its_name_its_end_and_as_the_last(run: Path) -> None:
    found = [find_run(Path("runs"), name).id for name in (str(run), run.name, run.name[-8:], "last")]

    assert found == [run.name] * 4
    assert [folder.id for folder in list_runs(Path("runs"))] == [run.name]


def test_a_report_is_written_again_from_the_files(agentfw: Agentfw, run: Path) -> None:
    page = (run / "report.html").read_text("utf-8")
    (run / "report.html").unlink()
    (run / "curve.svg").unlink()

    answer = agentfw("report", run.name)

    assert answer.code == 0, answer.err
    assert (run / "curve.svg").read_text("utf-8").startswith("<svg")
    again = (run / "report.html").read_text("utf-8")
    assert run.name in again
    assert again.count("<tr") == page.count("<tr")


def test_a_line_that_was_cut_short_is_set_aside_and_played_again(agentfw: Agentfw, run: Path) -> None:
    whole = (run / "episodes.jsonl").read_bytes()
    metrics = read(run / "metrics.jsonl")
    (run / "summary.json").unlink()
    (run / "episodes.jsonl").write_bytes(whole[:-40])
    lines = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    cut = json.loads(whole.splitlines()[-1])["task"]["index"]
    (run / "metrics.jsonl").write_bytes(b"".join(one for one in lines if f"0000{cut}-0".encode() not in one))

    resumed = agentfw("runs", "resume", run.name)

    assert resumed.code == 0, resumed.err
    assert (run / "episodes.jsonl").read_bytes() == whole
    assert sorted(line["episode"] for line in read(run / "metrics.jsonl")) == sorted(one["episode"] for one in metrics)
    assert list(run.glob("*.torn"))
