"""Differences are taken task by task, and only where the tasks are the same."""

from __future__ import annotations

import importlib
import math
from pathlib import Path
from typing import Any

import pytest

from agentfw.runs import encoded, read_journal
from agentfw.runs.records.summary import compare_runs
from agentfw.runs.results.reproduction import compare_records


def test_the_headline_comes_first_and_the_first_run_has_no_difference(laboratory: Any, tmp_path: Path) -> None:
    first = laboratory.play(tmp_path, episodes=8).folder
    second = laboratory.play(tmp_path, episodes=8, memories=["scratch"]).folder

    rows = compare_runs([first, second])

    assert [row.figure for row in rows] == ["error", "reward", "utility", "best", "answer_tokens"]
    for row in rows:
        assert row.differences[0] is None
        assert row.runs == (first.id, second.id)


def test_the_difference_is_that_of_shared_tasks_only(laboratory: Any, tmp_path: Path) -> None:
    short = laboratory.play(tmp_path, episodes=3).folder
    long = laboratory.play(tmp_path, episodes=6, memories=["scratch"], concurrency=1).folder
    errors = [[record["outcome"]["error"] for record in folder.metrics()] for folder in (short, long)]
    by_hand = [theirs - ours for ours, theirs in zip(errors[0], errors[1], strict=False)]

    (row,) = compare_runs([short, long], ["error"])
    more = laboratory.play(tmp_path, episodes=4).folder
    assert [compare_records(*two).first for two in ((short, more), (more, short))] == [
        "",
        "episode 00003-0 isn't there",
    ]

    first, *others = read_journal(more.path / "metrics.jsonl")
    del first["outcome"]
    for run, reward in ((short, 1.0), (more, 2.0)):  # what wasn't measured is the same in both
        lines = [{"outcome": {"alike": math.nan}, **first, "reward": reward}, *others]
        (run.path / "metrics.jsonl").write_bytes(b"".join(map(encoded, lines)))
    assert compare_records(short, more).first == f"figures of {first['episode']}: reward"

    assert row.differences[1] is not None
    assert row.differences[1].difference.count == 3
    assert row.differences[1].difference.estimate == pytest.approx(sum(by_hand) / 3)


def test_tasks_that_share_a_seed_stay_apart(laboratory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set may give every task the same seed; none may get lost in the comparison."""
    from agentfw.episode import Task

    guessing = importlib.import_module("agentfw_laboratory.guessing")
    monkeypatch.setattr(
        guessing.Guessing, "tasks", lambda self, count, seed, split: [Task(i, 1) for i in range(count)], raising=False
    )

    (row,) = compare_runs([laboratory.play(tmp_path).folder for _ in range(2)], ["error"])

    assert row.intervals[0].count == 4


def test_no_task_of_one_environment_is_that_of_another(laboratory: Any, tmp_path: Path) -> None:
    guessing = laboratory.play(tmp_path).folder
    bandit = laboratory.play(tmp_path, environment="bandit", policy="biased").folder

    (row,) = compare_runs([guessing, bandit], ["reward"])

    assert row.differences == (None, None)
