"""One episode that fails, or a judge that is down for a moment, doesn't end a run; a fault of all episodes does."""

from __future__ import annotations

import asyncio
import importlib
import itertools
import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import pytest

from agentfw.errors import AgentfwError, EndpointError, RequestRefusedError, UsageError
from agentfw.runs import play
from agentfw.runs.results.run_report import write_report
from agentfw.scores import Score

DOWN = EndpointError("the server answers 503", fix="start it")


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play, "_PAUSE", 0.0)


@pytest.fixture
def failing(bandit: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Let the policy fail in the tasks that `fails` names, at most `times` times each. Returns where it has."""
    answer = bandit.Biased.generate
    failed: list[str] = []

    def arrange(fails: Callable[[Any], bool], *errors: Exception, times: int = 10**6) -> list[str]:
        order = itertools.cycle(errors or [DOWN])

        async def generate(self: Any, request: Any) -> Any:
            name = f"{request.task.split} {request.task.id}"
            if fails(request.task) and failed.count(name) < times:
                failed.append(name)
                raise next(order)
            return await answer(self, request)

        monkeypatch.setattr(bandit.Biased, "generate", generate)
        return failed

    return arrange


def rollout(name: str) -> Callable[[Any], bool]:
    return lambda task: task.split == "train" and task.id == name


def any_rollout(task: Any) -> bool:
    return bool(task.split == "train")


def test_a_server_that_is_down_for_a_moment_changes_nothing(trainings: Any, failing: Any, tmp_path: Path) -> None:
    """It plays on, and where the server stays down and the training stops, all is played when it is up."""
    expected = trainings.left(trainings.train(tmp_path / "a", updates=2).folder)
    failed = failing(lambda task: task.index % 2 == 0, times=2)

    shaken = trainings.train(tmp_path / "b", updates=2)
    failing(any_rollout)
    stopped = trainings.create(tmp_path / "c", updates=2)
    with pytest.raises(EndpointError, match="the server answers 503"):
        asyncio.run(stopped.execute())
    assert stopped.folder.rollouts(1).failed()
    failing(lambda task: False)
    trainings.resume(stopped.folder)

    assert len(failed) > 10
    assert trainings.left(shaken.folder) == trainings.left(stopped.folder) == expected
    assert shaken.folder.summary()["failed"] == {}
    assert stopped.folder.failed() == []


@pytest.mark.parametrize(("error", "tries"), [(DOWN, 3), (RequestRefusedError("the server refuses this text"), 1)])
def test_an_episode_that_keeps_failing_is_left_out_and_counted(
    error: AgentfwError, tries: int, trainings: Any, failing: Any, tmp_path: Path
) -> None:
    failed = failing(rollout("00001-2"), error)

    folder = trainings.train(tmp_path).folder

    assert failed == ["train 00001-2"] * tries
    number = next(number for number in range(1, 5) if folder.rollouts(number).failed())
    ids = {record["episode"] for record in folder.rollouts(number).metrics()}
    assert len(ids) == 3 * 4 - 1
    assert {"00001-0", "00001-1", "00001-3"} < ids
    assert [line["rollouts"]["failed"] for line in folder.updates()] == [int(n == number) for n in range(1, 5)]
    assert folder.updates()[number - 1]["rollouts"]["groups"] == 3, "the rest of its group is learned from"
    assert folder.summary()["failed"] == {error.message: 1}
    page = write_report(folder)[0].read_text("utf-8")
    assert escape(error.message) in page


def test_what_was_left_out_is_not_played_again_at_resumption(trainings: Any, failing: Any, tmp_path: Path) -> None:
    of_a_group = ("00001-1", "00001-2")
    failing(lambda task: any_rollout(task) and task.id in of_a_group, DOWN, UsageError("no such mode"))
    stopped = trainings.create(tmp_path, retries=0, concurrency=1)
    with pytest.raises(UsageError, match="no such mode"):
        asyncio.run(stopped.execute())
    before = [*failing(rollout("00001-1"))]

    trainings.resume(stopped.folder)

    assert failing(rollout("00001-1")) == before == ["train 00001-1", "train 00001-2"]
    assert stopped.folder.summary()["failed"] == {DOWN.message: 1}


def test_a_run_stops_when_too_many_fail_and_says_why(trainings: Any, failing: Any, tmp_path: Path) -> None:
    training = trainings.create(tmp_path, retries=0, max_failed=0.25)
    errors = [AgentfwError(f"episode {number} is too long", fix="shorten it") for number in (17, 18)]
    failing(any_rollout, DOWN, errors[0], DOWN, errors[1])

    with pytest.raises(AgentfwError) as caught:
        asyncio.run(training.execute())

    assert "4 of 12 episodes failed, and max_failed is 0.25" in str(caught.value)
    for reason in ("the server answers 503", "episode 17 is too long"):
        assert re.search(rf"2 x policy \"biased\" of \S+ \S+ failed in generate\(\): {reason}", str(caught.value))
    assert caught.value.fix == "shorten it"


def test_a_fault_that_all_have_stops_a_run_at_the_first_ones(laboratory: Any, failing: Any, tmp_path: Path) -> None:
    bandit = {"environment": "bandit", "policy": "biased", "retries": 0, "max_failed": 0.9}
    for concurrency, fewest in ((1, 2), (3, 3)):
        failed = failing(lambda task: True)
        failed.clear()
        run = laboratory.create(tmp_path, **bandit, episodes=20, concurrency=concurrency)
        with pytest.raises(EndpointError, match="the server answers 503"):
            asyncio.run(run.execute())
        assert fewest <= len(failed) < 15
    failing(lambda task: task.index >= 16)
    run = laboratory.create(tmp_path, **bandit, episodes=20, concurrency=1)
    asyncio.run(run.execute())
    assert len(run.folder.failed()) == 4, "the last ones are no reason to stop"


def test_a_judge_that_is_down_drops_a_group(trainings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rewards = importlib.import_module("agentfw_laboratory.rewards")
    score = rewards.Varied.score
    asked: list[str] = []

    async def judge(self: Any, group: Any) -> Any:
        if group[0].task.split == "train" and group[0].task.index == 1:
            asked.append(group[0].id)
            raise DOWN
        return await score(self, group)

    monkeypatch.setattr(rewards.Varied, "score", judge)
    folder = trainings.train(tmp_path, tasks=5, updates=1, rewards=["varied"]).folder

    assert asked == ["00001-0"] * 3
    assert {line["stage"] for line in folder.rollouts(1).failed()} == {"score"}
    assert len(folder.rollouts(1).failed()) == 4
    assert folder.updates()[0]["rollouts"]["groups"] == 4


def test_an_evaluation_is_complete_without_failed_episodes(trainings: Any, failing: Any, tmp_path: Path) -> None:
    failing(lambda task: task.split == "validation" and task.index == 2)

    folder = trainings.train(tmp_path, updates=2).folder

    assert {number: len(records) for number, records in folder.stages().items()} == {0: 5, 2: 5}
    assert folder.state == "done"


@pytest.mark.parametrize(("value", "tasks"), [(float("nan"), 2), (1e200, 8)])
def test_one_impossible_score_drops_its_group_and_not_the_training(
    trainings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float, tasks: int
) -> None:
    rewards = importlib.import_module("agentfw_laboratory.rewards")

    async def score(self: Any, group: Any) -> Any:
        broken = {episode.id for episode in group if episode.task.split == "train" and episode.id == "00001-2"}
        return [Score(each.id, "faulty", value if each.id in broken else each.utility) for each in group]

    monkeypatch.setattr(rewards.Faulty, "score", score)
    folder = trainings.train(tmp_path, rewards=["faulty"], tasks=tasks, updates=2).folder

    assert [line["stage"] for line in folder.failed()] == ["score"] * 4
    assert sorted(line["rollouts"]["groups"] for line in folder.updates()) == [tasks - 1, tasks]
