"""What a command says is going on: on the live display at every moment, and elsewhere every ten seconds."""

from __future__ import annotations

import asyncio
import importlib
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import SITE, Agentfw

from agentfw.episode import Episode, Task, Usage
from agentfw.optimizer import Scored
from agentfw.runs import write_report
from agentfw.runs.execution import sampled_answers
from agentfw_cli.progress import progress_of


@pytest.fixture
def trainings(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SITE))
    return importlib.import_module("agentfw_laboratory.training")


def test_what_goes_on_at_the_same_time_is_counted_apart_and_shown_until_it_ends(trainings: Any, tmp_path: Path) -> None:
    progress = progress_of(trainings.create(tmp_path, staleness=1, tasks=2).info)
    evaluated = Episode(Task(0, 7, split=progress.run.spec.evaluation.split))

    progress.phase("play", 2)
    progress.plays(8, 3)
    progress.phase("evaluate", 1)
    progress.plays(6, 0)
    progress.concluded(evaluated, {}, 1)
    playing, evaluating = progress.status()
    progress.phase_ended("evaluate", 1)
    progress.phase("learn", 1)
    progress.learns(3, 12, 1536.0)
    *_, learning = progress.status()
    progress.phase_ended("play", 2)
    progress.learns(12, 12, 1536.0)
    (done,) = progress.status()

    assert playing.startswith("playing, update 2 ")
    assert "3/8 episodes" in playing
    assert evaluating.startswith("evaluating after 1 updates ")
    assert "1/6 episodes" in evaluating
    assert learning.startswith("learning, update 1 ")
    assert "3/12 pieces   about " in learning
    assert learning.endswith(" left   1.5 GiB")
    assert done.startswith("learning, update 1 ")
    assert "left" not in done


@pytest.mark.parametrize(("cost", "told"), [(0.0, ""), (None, "tokens 110")], ids=["of one's own", "foreign"])
def test_tokens_are_told_where_they_may_cost(trainings: Any, tmp_path: Path, cost: float | None, told: str) -> None:
    progress = progress_of(trainings.create(tmp_path).info)

    progress.spent(Usage(prompt=100, cached=0, sampled=10, cost=cost), Usage(0, 0, 0))

    assert progress.spending()[:10] == told


def told(training: Any, **options: Any) -> list[str]:
    lines: list[str] = []
    progress = progress_of(training.info, lambda line, style: lines.append(line), **options)
    asyncio.run(training.execute(progress))
    return lines


def test_a_training_tells_how_long_answers_are_what_teaches_nothing_and_is_left(trainings: Any, tmp_path: Path) -> None:
    training = trainings.create(tmp_path)

    first, *_, last = [line for line in told(training) if "reward" in line and "/4 " in line]

    lines = training.folder.updates()
    turns = [turn for episode in training.folder.rollouts(1).episodes() for turn in episode.turns]
    assert lines[0]["rollouts"]["answer_tokens"] == pytest.approx(sum(turn.count for turn in turns) / len(turns))
    assert lines[0]["rollouts"]["answer_tokens_most"] == max(turn.count for turn in turns)
    assert lines[0]["rollouts"]["cut_off"] == sum(turn.finish == "length" for turn in turns) / len(turns)
    figures = [line["rollouts"] for line in lines]
    assert [each["without_signal"] for each in figures] == [1 - each["groups_learned"] / 3 for each in figures]
    assert all(word in first for word in ("answer tokens ", "cut off ", "without signal ", " left"))
    assert " left" not in last, "nothing is left"


def test_three_answers_of_each_update_are_told_when_asked_for(trainings: Any, tmp_path: Path) -> None:
    training = trainings.create(tmp_path)

    lines = told(training, samples=True)

    for update in training.folder.updates():
        ends = {one.id: one.turns[-1].text for one in training.folder.rollouts(update["update"]).episodes()}
        assert all(each["answer"] == ends[each["episode"]] for each in update["samples"]), "the last of each"
        rewards = sorted(record["reward"] for record in training.folder.rollouts(update["update"]).metrics())[::-1]
        best, median, worst = update["samples"]
        told_of = [(each["which"], each["reward"]) for each in (best, median, worst)]
        assert told_of == [("best", rewards[0]), ("median", rewards[len(rewards) // 2]), ("worst", rewards[-1])]
        assert f"best, reward {best['reward']:.3g}: {' '.join(best['answer'].split())}" in lines
    scored = [Scored(Episode(Task(0, 7)), (), reward, unrated=not reward) for reward in (0.0, -1.0, -2.0)]
    assert [each["reward"] for each in sampled_answers([scored])] == [-1, -2, -2], "what nobody rated isn't the best"
    page = write_report(training.folder)[0].read_text()
    assert "Sampled answers" in page
    assert f"median, reward {median['reward']:.3g}, episode {median['episode']}" in page


def test_a_command_gives_a_sign_of_life(agentfw: Agentfw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentfw.printing.out._EVERY_ELSEWHERE", 0.0005)  # ten seconds are over at once

    answer = agentfw("run", "inbox", "--policy", "random", "--episodes", "2")

    line = re.compile(r"   \d+ s$", re.M)
    assert answer.code == 0, answer.err
    assert line.search(answer.err)
    assert not line.search(answer.out)
    assert "\r" not in answer.err
