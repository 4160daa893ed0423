"""What can't be trained is told before any work begins; what fails on the way names its culprit in time."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw.episode import Task
from agentfw.errors import AgentfwError, PluginError, SettingsError, UnknownNameError, UsageError
from agentfw.runs.execution import Curriculum, QueryCurriculum
from agentfw.runs.learning import finite
from agentfw.runs.records.play_records import State
from agentfw.seeds import Seeds


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


def test_a_policy_that_answers_with_an_older_version_is_named_at_once(
    trainings: Any, bandit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish = bandit.Biased.publish
    monkeypatch.setattr(bandit.Biased, "publish", lambda self, adapter, version: publish(self, adapter, "bias@1"))
    training = trainings.create(tmp_path, evaluation={"every": 9, "tasks": 2})

    with pytest.raises(PluginError, match=r"answered turn 0 of episode .* with bias@1 after bias@2 was published"):
        asyncio.run(training.execute())

    assert State.read(training.folder.path).update == 2


def test_a_kill_between_state_and_figures_loses_no_line(trainings: Any, tmp_path: Path) -> None:
    folder = trainings.train(tmp_path).folder
    expected = folder.updates()
    file = folder.path / "updates.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    (folder.path / "summary.json").unlink()

    trainings.resume(folder)

    assert folder.updates() == expected
    assert json.loads((folder.path / "state.json").read_text())["line"] == expected[-1]


@pytest.mark.parametrize(
    ("values", "changes", "words"),
    [
        ({}, {"temperature": 0.0}, r'turn 0 of episode .* by "biased" is sampled at temperature 0'),
        pytest.param({"staleness": 1}, {"logprobs": ()}, "returns no logprobs"),
    ],
)
def test_samples_that_cannot_be_learned_from_are_refused_at_the_first_turn(
    values: dict[str, Any],
    changes: dict[str, Any],
    words: str,
    trainings: Any,
    bandit: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = bandit.Biased.generate

    async def changed(self: Any, request: Any) -> Any:
        return replace(await answer(self, request), **changes)

    monkeypatch.setattr(bandit.Biased, "generate", changed)
    training = trainings.create(tmp_path, updates=1, **values)

    with pytest.raises(UsageError, match=words):
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


# -- tasks of an update, and its figures -------------------------------------------------------------------------------


def curriculum(count: int, size: int, seed: int = 7) -> Curriculum:
    return Curriculum([Task(index, seed=index) for index in range(count)], size, Seeds(seed), updates=20)


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 20))
def test_an_update_learns_from_different_tasks_and_a_pass_takes_each_once(count: int, size: int, updates: int) -> None:
    if size > count:
        with pytest.raises(UsageError, match=f"needs {size} tasks, but the split has {count}"):
            curriculum(count, size)
        return
    plan = curriculum(count, size)

    taken = [[task.index for task in plan.of(update)] for update in range(1, updates + 1)]

    assert all(len(set(indexes)) == size for indexes in taken)
    first_pass = Counter(index for indexes in taken[: count // size] for index in indexes)
    assert max(first_pass.values()) == 1
    assert taken == [[task.index for task in curriculum(count, size).of(update)] for update in range(1, updates + 1)]


def test_a_figure_that_is_no_number_says_that_the_weights_are_none_either() -> None:
    assert finite({"loss": 1.0}, "the learner") == {"loss": 1.0}
    for value in (float("nan"), float("-inf")):
        with pytest.raises(PluginError, match="the learner reported loss =") as caught:
            finite({"kl": 0.1, "loss": value}, "the learner")
        assert "learning rate" in caught.value.fix


def of_queries(updates: int = 20, samples: int = 3) -> QueryCurriculum:
    """Four queries, each of which ten users have, and one that only two have."""
    users = [(f"query {query}", f"user {user}") for query in range(4) for user in range(10)]
    users += [("rare", "user 1"), ("rare", "user 2")]
    tasks = [Task(index, 7, user, query=query) for index, (query, user) in enumerate(users)]
    return QueryCurriculum(tasks, 6, Seeds(7), samples=samples, updates=updates)


def test_a_group_of_a_query_has_different_users_and_no_episode_comes_twice() -> None:
    plan = of_queries()

    planned = [plan.planned(update, 3) for update in range(1, 21)]

    for tasks in planned:
        groups = [[task for task in tasks if task.group == number] for number in (0, 1)]
        assert [len({task.user for task in group}) for group in groups] == [3, 3]
        assert [len({task.query for task in group}) for group in groups] == [1, 1]
    assert len({task.id for tasks in planned for task in tasks}) == 20 * 6
    for samples in (2, 3):
        known = {task.query for update in range(1, 21) for task in of_queries(samples=samples).planned(update, samples)}
        assert ("rare" in known) == (samples == 2), "two users have it"
    assert planned == [of_queries().planned(update, 3) for update in range(1, 21)]


def test_too_few_users_of_a_query_are_an_error_before_anything_is_played() -> None:
    with pytest.raises(UsageError, match="2 queries that 3 users have, but the first 9 tasks have 0"):
        QueryCurriculum([Task(index, 7, f"user {index}") for index in range(9)], 6, Seeds(7), samples=3, updates=2)
