"""A training that learns nothing doesn't look like one that learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentfw.runs import RunFolder
from agentfw.runs.records.summary import WHY_NO_LEARNING, Summary
from agentfw.runs.results.run_report import write_report
from agentfw_cli.progress import progress_of

EQUAL = {"environment": {"name": "bandit", "settings": {"favourite": "wine"}}, "updates": 2}
"""A world that pays for a word that nobody says."""


def shown(training: Any) -> list[str]:
    """What the screen says of each update."""
    told: list[str] = []
    progress = progress_of(training.info, lambda line, style: told.append(line))
    for line in training.folder.updates():
        progress.updated(line)
    return told


def reported(training: Any) -> str:
    folder: RunFolder = training.folder
    write_report(folder)
    return (folder.path / "report.html").read_text("utf-8")


def test_equal_rewards_are_told_on_the_screen_and_in_the_report(trainings: Any, tmp_path: Path) -> None:
    training = trainings.train(tmp_path, **EQUAL)

    lines = training.folder.updates()
    assert [line["rollouts"]["groups_learned"] for line in lines] == [0, 0]
    assert [line["version"] for line in lines] == ["", ""]
    assert [words for words in shown(training) if "nothing learned" in words] == [
        f"nothing learned: all rewards of 3 groups are equal. {WHY_NO_LEARNING}",
        "nothing learned: all rewards of 3 groups are equal",
    ]
    assert "2 of 2 updates: nothing learned: all rewards of 3 groups are equal." in reported(training)


def test_an_optimizer_that_gives_no_advantage_is_told_from_equal_rewards(trainings: Any, tmp_path: Path) -> None:
    training = trainings.train(tmp_path, optimizer={"name": "centred", "settings": {"fault": "nothing"}}, updates=1)

    assert "nothing learned: the optimizer gave 3 groups no advantage" in shown(training)[-1]
    summary = Summary.from_record(training.folder.summary())
    assert (summary.updates, summary.version, summary.adapter) == (1, "", ""), "there is no version"
    assert summary.figures == summary.before
    assert list((training.folder.path / "learner").iterdir()) == []


def test_a_training_that_learns_says_nothing_of_it_and_what_its_rewards_are_made_of(
    trainings: Any, tmp_path: Path
) -> None:
    rewards = [{"name": "utility", "weight": 2.0}, {"name": "format", "weight": 0.5}]
    training = trainings.train(tmp_path, tasks=5, rewards=rewards, updates=2)

    assert all(line["rollouts"]["groups_learned"] for line in training.folder.updates())
    assert not any("learned" in words for words in shown(training))
    assert "nothing learned" not in reported(training)
    for line in training.folder.updates():
        figures = line["rollouts"]
        assert figures["reward/utility"] > 0
        assert figures["reward/format"] == pytest.approx(1.5), "half a point in each of three rounds"
        assert figures["reward"] == pytest.approx(figures["reward/utility"] + figures["reward/format"])
        assert f"reward {figures['reward']:.3g} (utility {figures['reward/utility']:.3g}, format 1.5)   " in "".join(
            shown(training)
        )
