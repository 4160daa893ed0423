"""A training makes a policy better, from what it says it learns from, and one seed gives one policy."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from agentfw.episode import Episode
from agentfw.errors import RunFolderError
from agentfw.runs import RunFolder
from agentfw.runs.records.summary import WHY_NO_LEARNING, Summary, change, compare_runs
from agentfw.runs.results.run_report import write_report
from agentfw.runs.spec.start import find_training
from agentfw_cli.progress import progress_of


def versions_of(episodes: Iterable[Episode]) -> set[str]:
    return {turn.version for episode in episodes for turn in episode.turns}


def test_a_policy_learns_what_is_liked(trainings: Any, tmp_path: Path) -> None:
    training = trainings.train(tmp_path, updates=12, tasks=4, evaluation={"every": 6, "tasks": 20})

    stages = training.folder.stages()
    missed = {number: sum(each["outcome"]["missed"] for each in records) / 20 for number, records in stages.items()}
    assert list(missed) == [0, 6, 12]
    assert missed[0] == pytest.approx(5 / 6, abs=0.1), "before it has learned, it says any of six words"
    assert missed[12] < 0.3
    difference = change(training.folder)
    assert difference is not None
    assert difference.difference.high < 0


def test_every_evaluation_plays_the_same_with_the_newest_version(
    trainings: Any, bandit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, before = set[tuple[str, float | None]](), bandit.Biased.generate

    async def generate(self: Any, request: Any) -> Any:
        asked.add((request.task.split, request.sampling.temperature))
        return await before(self, request)

    monkeypatch.setattr(bandit.Biased, "generate", generate)
    evaluation = {"every": 2, "tasks": 6, "sampling": {"temperature": 0.5}}
    folder = trainings.train(tmp_path, keep=3, evaluation=evaluation).folder

    played = [list(records.episodes()) for records in folder.evaluations().values()]
    tasks = [sorted((episode.task.id, episode.task.seed) for episode in episodes) for episodes in played]
    assert tasks[0] == tasks[1] == tasks[2]
    assert [versions_of(episodes) for episodes in played] == [{"base"}, {"bias@2"}, {"bias@4"}]
    assert asked == {("train", None), ("validation", 0.5)}
    means = [row.estimate for row in compare_runs([folder] * 2, ["missed"], [0, 4])[0].intervals]
    assert means == pytest.approx([fmean(line["outcome"]["missed"] for line in folder.stages()[at]) for at in (0, 4)])
    for kept in ("learner", "states"):
        assert sorted(path.stem for path in (folder.path / kept).iterdir()) == ["00002", "00003", "00004"]
    last = folder.evaluation(4).path / "metrics.jsonl"
    last.write_bytes(b"".join(last.read_bytes().splitlines(keepends=True)[:-1]))
    assert (list(folder.evaluations()), folder.result().path.name) == ([0, 2], "00002"), "the last one lacks an episode"


def test_policy_and_learner_never_work_at_once(
    trainings: Any, bandit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One GPU has memory for one: the learner rests while episodes are played, and the policy while it learns."""
    seen: list[tuple[str, bool, bool]] = []
    awake = {bandit.Biased: True, bandit.Bias: True}

    def turned(kind: Any, up: bool) -> Any:
        def now(self: Any) -> None:
            awake[kind] = up

        async def later(self: Any) -> None:
            awake[kind] = up

        return later if kind is bandit.Biased else now

    def watched(kind: Any, name: str) -> Any:
        before = getattr(kind, name)

        def call(self: Any, *given: Any, **named: Any) -> Any:
            seen.append((name, awake[bandit.Biased], awake[bandit.Bias]))
            assert awake[kind], f"{name} was asked for while it rested"
            return before(self, *given, **named)

        return call

    for kind, names in ((bandit.Biased, ("generate", "publish")), (bandit.Bias, ("update", "logprobs"))):
        monkeypatch.setattr(kind, "rest", turned(kind, False), raising=False)
        monkeypatch.setattr(kind, "wake", turned(kind, True), raising=False)
        for name in names:
            monkeypatch.setattr(kind, name, watched(kind, name))

    trainings.resume(trainings.train(tmp_path, updates=2).folder)

    assert {name for name, _, _ in seen} == {"generate", "publish", "update", "logprobs"}
    assert not any(learner for name, _, learner in seen if name in ("generate", "publish"))
    assert not any(policy for name, policy, _ in seen if name == "update")


@pytest.mark.parametrize("settings", [{"kl": 0.04}, {"kl": 0.0, "skip": True}])
def test_groups_without_a_difference_are_kept_unless_the_optimizer_skips_them(
    trainings: Any, bandit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    reached: list[int] = []
    before = bandit.Bias.update

    def update(self: Any, batch: Any) -> Any:
        reached.append(len({episode.task.index for episode in batch.episodes}))
        return before(self, batch)

    monkeypatch.setattr(bandit.Bias, "update", update)
    folder = trainings.train(tmp_path, samples=2, tasks=5, optimizer={"name": "grpo", "settings": settings}).folder

    figures = [line["rollouts"] for line in folder.updates()]
    alike = [line["groups_alike"] for line in figures]
    assert any(alike)
    assert reached == [5 - (count if settings.get("skip") else 0) for count in alike]
    assert [line["groups_learned"] for line in figures] == [5 - count for count in alike]


def test_groups_that_say_nothing_are_replaced_also_after_it_was_cut_off(trainings: Any, tmp_path: Path) -> None:
    several = {"samples": 2, "tasks": 5, "updates": 1}
    dapo = {"name": "dapo", "settings": {"resample": 20}}
    folder = trainings.train(tmp_path, **several, optimizer=dapo).folder
    expected = trainings.left(folder)
    (figures,) = (line["rollouts"] for line in folder.updates())
    assert figures["groups_learned"] == 5 < figures["groups"]
    ids = [episode.id for episode in folder.rollouts(1).episodes()]
    assert len(set(ids)) == len(ids), "no two episodes of a training have one id"
    rollouts = folder.rollouts(1).path
    episodes, metrics = (
        (rollouts / f"{name}.jsonl").read_text("utf-8").splitlines(True) for name in ("episodes", "metrics")
    )
    assert len(metrics) > 2 * 5 + 3

    # All of the planned groups are concluded, one of the others too, and one is played but not scored.
    concluded = {json.loads(line)["episode"] for line in metrics[:12]}
    lines = dict(zip([episode.id for episode in folder.rollouts(1).episodes()], episodes, strict=True))
    played = [line for name, line in lines.items() if name in concluded]
    extra = [line for name, line in lines.items() if name not in concluded][:1]
    (rollouts / "metrics.jsonl").write_text("".join(metrics[:12]))
    (rollouts / "episodes.jsonl").write_text("".join(played + extra))
    for name in ("state.json", "updates.jsonl", "summary.json"):
        (folder.path / name).unlink()
    shutil.rmtree(folder.path / "states")
    shutil.rmtree(folder.path / "evaluations" / "00001")
    trainings.resume(folder)

    assert trainings.left(folder) == expected


def test_weights_follow_the_training_and_optimizers_see_them(
    trainings: Any, bandit: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[float, float]] = []
    before = bandit.Centred.advantages

    def advantages(self: Any, groups: Any) -> Any:
        for scored in (scored for group in groups for scored in group):
            (score,) = scored.scores
            assert score.value == scored.reward
            if scored.episode.utility:
                seen.append((self.batches, score.value / scored.episode.utility))
        return before(self, groups)

    monkeypatch.setattr(bandit.Centred, "advantages", advantages)
    folder = trainings.train(tmp_path, rewards=[{"name": "utility", "weight": "stages:1,3"}]).folder

    assert set(seen) == {(0, 1), (1, 1), (2, 3), (3, 3)}
    for records in folder.evaluations().values():
        assert all(record["reward"] == 3 * record["utility"] for record in records.metrics()), "always those of the end"


NOTHING = "- the chain ends in nothing"


def chain_ends(records: Any) -> set[str]:
    """What the episodes were told of the memory `scratch`."""
    said = [message.content for episode in records.episodes() for message in episode.messages]
    return {line for content in said for line in content.splitlines() if "chain" in line}


def test_memories_bring_what_they_have_and_learn_nothing(trainings: Any, tmp_path: Path) -> None:
    folder = trainings.train(tmp_path, memories=["scratch"]).folder

    assert {end for number in range(1, 5) for end in chain_ends(folder.rollouts(number))} == {NOTHING}


def test_memories_that_learn_learn_from_rollouts_and_not_from_evaluations(trainings: Any, tmp_path: Path) -> None:
    folder = trainings.train(tmp_path, memories=["scratch"], memories_learn=True, concurrency=2).folder

    first, middle, last = (chain_ends(folder.evaluation(number)) for number in (0, 2, 4))
    learned = [chain_ends(folder.rollouts(number)) for number in (1, 2, 3, 4)]
    assert first == {NOTHING}
    assert (len(middle), len(last)) == (1, 1), "it is as it was before the evaluation, to the end of it"
    assert len({*first, *middle, *last}) == 3
    assert [len(each) for each in learned] == [3, 3, 3, 3], "after each group"
    assert middle <= learned[2], "the third update begins with what the evaluation saw"


# -- where nothing is learned ------------------------------------------------------------------------------------------


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


REWARDS = """
def juicy(completions, n, **columns):
    return [None if of % 2 or of == 8 else 4.0 + ("juice" in said) for of, said in zip(n, completions)]

def alike(completions, **columns):
    return [5.0] * len(completions)
"""


@pytest.mark.parametrize("reward", ["juicy", "alike"])
def test_single_answers_that_nobody_has_rated_or_all_alike_teach_nothing(
    trainings: Any, tmp_path: Path, reward: str
) -> None:
    """Of ten tasks, those with an even number are rated, but for the one that is held out; or all get the same."""
    (tmp_path / "rewards.py").write_text(REWARDS)
    (tmp_path / "tasks.jsonl").write_text("".join(f'{{"prompt": "Which?", "n": {n}}}\n' for n in range(10)))
    asked = {"name": "questions", "settings": {"tasks": str(tmp_path / "tasks.jsonl")}}
    values = {"environment": asked, "rewards": [f"{tmp_path / 'rewards.py'}:{reward}"], "optimizer": "reinforce"}
    training = trainings.create(tmp_path, **values, samples=1, tasks=8, evaluation={"every": 2, "tasks": 1}, updates=2)
    told: list[str] = []
    asyncio.run(training.execute(progress_of(training.info, lambda line, style: told.append(line))))

    folder = training.folder
    worth = [json.loads((folder.rollouts(number).path / "advantages.json").read_text()) for number in (1, 2)]
    if reward == "alike":
        assert [line["rollouts"]["groups_learned"] for line in folder.updates()] == [0, 0]
        return
    assert [{int(name[:5]) % 2 for name in each} for each in worth] == [{0}, {0}]
    for line in folder.updates():
        assert 4 <= line["rollouts"]["reward"] == line["rollouts"]["reward/juicy"] <= 5
    assert "2/2   reward not measured" in told
    assert "nothing to show yet" in reported(training), "no evaluation was rated"


def test_an_optimizer_that_gives_no_advantage_is_told_from_equal_rewards(trainings: Any, tmp_path: Path) -> None:
    training = trainings.train(tmp_path, optimizer={"name": "centred", "settings": {"fault": "nothing"}}, updates=1)

    assert "nothing learned: the optimizer gave 3 groups no advantage" in shown(training)[-1]
    summary = Summary.from_record(training.folder.summary())
    assert (summary.updates, summary.version, summary.adapter) == (1, "", ""), "there is no version"
    assert summary.figures == summary.before
    with pytest.raises(RunFolderError, match="has a version yet"):
        find_training(tmp_path, "last")
    assert list((training.folder.path / "learner").iterdir()) == []


def test_a_training_that_learns_tells_what_its_rewards_are_made_of(trainings: Any, tmp_path: Path) -> None:
    rewards = [{"name": "utility", "weight": 2.0}, {"name": "format", "weight": 0.5}]
    training = trainings.train(tmp_path, tasks=5, rewards=rewards, updates=2)

    assert all(line["rollouts"]["groups_learned"] for line in training.folder.updates())
    assert not {"utility", "format"} & training.folder.evaluation(0).metrics()[0]["outcome"].keys()
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
