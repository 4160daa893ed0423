"""What can't be trained is told before any work begins; what fails on the way names its culprit in time."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agentfw.errors import (
    AgentfwError,
    SettingsError,
    UnknownNameError,
    UsageError,
)
from agentfw.runs.records.play_records import State


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({"policy": "unpublishable"}, UsageError, 'the policy "unpublishable" can\'t load a new version'),
        ({"teacher": "scripted"}, UsageError, '"centred" learns from samples of the policy itself'),
        ({"optimizer": "bias"}, UnknownNameError, 'no optimizer is called "bias"'),
        ({"updates": 0}, SettingsError, "spec.updates: must be at least 1"),
        ({"evaluation": {"split": "train"}}, SettingsError, "spec.evaluation.split: can't be train"),
        ({"learner": {"name": "bias", "settings": {"rate": -1}}}, SettingsError, "learner.rate: must be more than 0"),
        ({"episodes": 4}, SettingsError, "spec: episodes: not valid in a training"),
        ({"sampling": {"temperature": 0.0}}, UsageError, "at temperature 0"),
        ({"sampling": {"top_p": 0.9}}, UsageError, "with top_p 0.9"),
    ],
)
def test_what_cannot_be_trained_is_told_before_there_is_a_folder(
    values: dict[str, Any], error: type[AgentfwError], words: str, trainings: Any, tmp_path: Path
) -> None:
    with pytest.raises(error) as caught:
        trainings.create(tmp_path / "runs", **values)

    assert words in str(caught.value)
    assert caught.value.fix
    assert not (tmp_path / "runs").exists()


def test_too_few_tasks_are_told_before_there_is_a_folder(
    trainings: Any, bandit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bandit.Bandit.tasks
    monkeypatch.setattr(bandit.Bandit, "tasks", lambda self, count, seed, split: before(self, 2, seed, split))

    with pytest.raises(UsageError, match="needs 3 tasks, but the split has 2"):
        trainings.create(tmp_path / "runs")

    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"samples": 1, "optimizer": "grpo"}, "nothing to compare an episode with: samples is 1"),
        ({"policy": {"name": "biased", "settings": {"fault": "base"}}}, "still serves its base model"),
        ({"learner": {"name": "bias", "settings": {"fault": "memory"}}}, "out of memory"),
    ],
)
def test_an_update_that_can_not_be_made_or_is_not_served_does_not_count(
    trainings: Any, tmp_path: Path, values: dict[str, Any], words: str
) -> None:
    training = trainings.create(tmp_path, **values)

    with pytest.raises(AgentfwError, match=words):
        asyncio.run(training.execute())

    assert State.read(training.folder.path).update == 0


def test_a_kill_between_state_and_figures_loses_no_line(trainings: Any, tmp_path: Path) -> None:
    folder = trainings.train(tmp_path).folder
    expected = folder.updates()
    file = folder.path / "updates.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    (folder.path / "summary.json").unlink()

    trainings.resume(folder)

    assert folder.updates() == expected
    assert json.loads((folder.path / "state.json").read_text())["line"] == expected[-1]


def test_samples_at_the_policys_own_temperature_0_are_refused_at_the_first_turn(
    trainings: Any, bandit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = bandit.Biased.generate

    async def greedy(self: Any, request: Any) -> Any:
        generation = await answer(self, request)
        generation.temperature = 0.0
        return generation

    monkeypatch.setattr(bandit.Biased, "generate", greedy)
    training = trainings.create(tmp_path, updates=1)

    with pytest.raises(UsageError, match=r'turn 0 of episode .* by "biased" is sampled at temperature 0'):
        asyncio.run(training.execute())

    assert list(training.folder.rollouts(1).episodes()) == []


def test_neither_optimizer_nor_learner_can_change_what_was_recorded(
    trainings: Any, bandit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advantages, update = bandit.Centred.advantages, bandit.Bias.update

    def damage(episodes: Any) -> None:
        for episode in episodes:
            episode.turns.clear()
            episode.outcome["utility"] = 1e9

    def damaging(self: Any, groups: Any) -> Any:
        found = list(advantages(self, groups))
        damage(scored.episode for group in groups for scored in group)
        return found

    def damaging_too(self: Any, batch: Any) -> Any:
        found = update(self, batch)
        damage(batch.episodes)
        return found

    honest = trainings.train(tmp_path / "honest")
    monkeypatch.setattr(bandit.Centred, "advantages", damaging)
    monkeypatch.setattr(bandit.Bias, "update", damaging_too)
    damaged = trainings.train(tmp_path / "damaged")

    assert trainings.left(damaged.folder) == trainings.left(honest.folder)
