"""One seed gives one run, whatever disturbs it, and what a plugin does wrong is told as its error."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from offering import offering

from agentfw.errors import PluginError
from agentfw.runs.records.call_record import read_calls
from agentfw.runs.records.folder import RunFolder
from agentfw.runs.records.summary import Summary, beside
from agentfw.runs.results.run_charts import best_player
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import parse_spec
from agentfw.seeds import Seeds
from agentfw.testing import fresh_host
from agentfw.tracker import Tracker

FILES = ("metrics", "episodes")


@given(st.integers(), st.lists(st.text(max_size=4), max_size=4), st.lists(st.text(max_size=4), max_size=4))
def test_different_paths_have_different_seeds(root: int, first: list[str], second: list[str]) -> None:
    """Also ("ab", "c") and ("a", "bc"), and a path and its beginning."""
    assert (Seeds(root).integer(*first) == Seeds(root).integer(*second)) == (first == second)


def test_a_seed_is_the_same_on_every_machine_and_in_every_version() -> None:
    """Written down: if these change, every run that was ever made changes with them."""
    assert Seeds(7).integer() == 4359823973405836615
    assert Seeds(7).child("episode", 3).random("arrivals").random() == 0.9554756311785175
    assert Seeds(7).numpy("weights").integers(1000) == 779


def test_without_a_memory_it_does_not_matter_how_many_play_at_once(laboratory: Any, tmp_path: Path) -> None:
    one, some, all_ = (laboratory.play(tmp_path, samples=2, concurrency=count).folder for count in (1, 3, 100))

    assert laboratory.records(one) == laboratory.records(some) == laboratory.records(all_)


def test_a_batch_sees_the_memory_of_before_which_learns_in_the_order_of_tasks(laboratory: Any, tmp_path: Path) -> None:
    folder = laboratory.play(tmp_path, memories=["scratch"], episodes=6, concurrency=3).folder

    ends = [
        {line for message in episode.messages for line in message.content.splitlines() if "chain" in line}
        for episode in sorted(folder.episodes(), key=lambda episode: episode.id)
    ]

    assert ends[0] == ends[1] == ends[2] == {"- the chain ends in nothing"}
    assert ends[3] == ends[4] == ends[5] != ends[0]
    learned = [record["episode"] for record in folder.result().concluded()]
    assert learned == sorted(learned)


def test_samples_of_a_task_share_their_world_and_not_their_choices(laboratory: Any, tmp_path: Path) -> None:
    folder = laboratory.play(tmp_path, samples=2, episodes=1).folder
    first, second = folder.episodes()

    hints = [
        [event.data["hint"] for event in episode.events if event.kind == "observation"] for episode in (first, second)
    ]
    answers = [[turn.text for turn in episode.turns] for episode in (first, second)]

    assert hints[0] == hints[1]
    assert answers[0] != answers[1]


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_that_was_killed_between_two_lines_records_learns_and_counts_the_rest_once(
    laboratory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    """What the judge can't say any more of a group leaves out no more than the rest of it."""
    folder = laboratory.play(tmp_path, samples=3, episodes=3, rewards=["rank"], memories=["scratch"]).folder
    expected, (metrics, episodes) = laboratory.records(folder), (folder.path / f"{name}.jsonl" for name in FILES)
    metrics.write_bytes(b"".join(metrics.read_bytes().splitlines(keepends=True)[:4]))
    # Of two groups, in another order than the one in which they were scored and learned from.
    episodes.write_bytes(b"".join(episodes.read_bytes().splitlines(keepends=True)[5::-1]))
    (folder.path / "summary.json").unlink()
    again = Run.open(RunFolder.open(folder.path), laboratory.host(), {"max_failed": 0.7})
    if fails:
        monkeypatch.setattr(importlib.import_module("agentfw_laboratory.rewards").Rank, "score", lambda *given: None)

    asyncio.run(again.execute())

    found = laboratory.records(folder)
    assert found[1] == expected[1][: 4 if fails else 9]
    assert fails or found[0] == expected[0]
    assert [line["episode"] for line in folder.failed()][:2] == (["00001-1", "00001-2"] if fails else [])
    calls = {row["kind"]: row["calls"] for row in read_calls(folder.path)}
    assert calls["policy"] >= 9 * 5 + 3 * 5, "also those of the execution before: what wasn't on disk is asked again"


class Steps(Tracker):
    seen: ClassVar[list[tuple[int, bool]]] = []

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.seen.append((step, "reward" in metrics))


class Away(Steps):
    seen: ClassVar[list[tuple[int, bool]]] = []

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        super().log(step, metrics)
        raise OSError("away")


def test_each_sample_is_a_step_and_a_tracker_that_fails_is_asked_no_more_and_told(tmp_path: Path) -> None:
    host = fresh_host(offering(tracker={"away": Away, "steps": Steps}), builtins=True)
    spec = {"environment": "inbox", "policy": "scripted", "episodes": 2, "samples": 2, "trackers": ["away", "steps"]}

    asyncio.run(Run.create(parse_spec({**spec, "rewards": ["feedback"]}), host, tmp_path).execute())

    assert sorted(Steps.seen) == [(step, False) for step in range(4)], "nobody has rated them"
    assert len(Away.seen) == 1
    (note,) = [note for note in host.notes if "OSError: away" in note]
    assert note.endswith("the run folder has what it missed")


def test_the_reward_is_the_weighted_sum_of_what_the_models_say(laboratory: Any, tmp_path: Path) -> None:
    rewards = [{"name": "rank", "weight": 2}, {"name": "utility", "weight": "round:0.5->0.5"}]
    folder = laboratory.play(tmp_path, samples=2, episodes=2, rewards=rewards).folder
    episodes = {episode.id: episode for episode in folder.episodes()}

    for record in folder.metrics():
        episode = episodes[record["episode"]]
        group = [other.utility for other in episodes.values() if other.task.index == episode.task.index]
        rank = episode.utility - sum(group) / 2 + sum(episode.series("error"))
        assert record["reward"] == pytest.approx(2 * rank + 0.5 * episode.utility)


def test_a_weight_over_the_rounds_is_that_of_each_scores_own_round(laboratory: Any, tmp_path: Path) -> None:
    folder = laboratory.play(tmp_path, rewards=[{"name": "rank", "weight": "round:0->1"}]).folder

    rewards = {record["episode"]: record["reward"] for record in folder.metrics()}
    for episode in folder.episodes():
        by_hand = sum(one.value * one.round / episode.rounds for one in episode.measures)
        assert rewards[episode.id] == pytest.approx(by_hand)


def test_without_reward_models_the_reward_is_what_the_environment_paid_and_nothing_unmeasured_is_in_a_mean(
    laboratory: Any, tmp_path: Path
) -> None:
    folder = laboratory.play(tmp_path, environment={"name": "guessing", "settings": {"outcome": "unmeasured"}}).folder

    assert [record["reward"] for record in folder.metrics()] == [record["utility"] for record in folder.metrics()]
    assert "error" in folder.summary()["figures"]
    assert "best" not in folder.summary()["figures"]


def test_references_stand_beside_the_figures(laboratory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guessing = importlib.import_module("agentfw_laboratory.guessing").Guessing
    asked: list[str] = []

    def references(environment: Any, task: Any) -> dict[str, dict[str, float]]:
        asked.append(task.id)
        return {"seven": {"error": 0.25 + 0.5 * (task.index % 2)}, "five": {"error": 0.25}}

    monkeypatch.setattr(guessing, "references", references)

    folder = laboratory.play(tmp_path, episodes=4, samples=2).folder

    assert asked == ["00000-0", "00001-0", "00002-0", "00003-0"], "a task is asked about once, however many samples"
    record = folder.summary()
    assert record["references"]["seven"]["error"]["mean"] == 0.5
    summary = Summary.from_record(record)
    assert summary.to_record() == record
    assert [who for who, _ in beside(summary, folder)] == ["hashing", "five", "seven"]
    assert best_player(folder) == ("five", 0.25)


@pytest.mark.parametrize("value", [float("inf"), 1e200, "much"])
def test_an_outcome_that_is_no_figure_is_the_plugins_fault(
    laboratory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    guessing = importlib.import_module("agentfw_laboratory.guessing").Guessing
    monkeypatch.setattr(guessing, "_outcome", lambda environment: {"error": value})

    with pytest.raises(PluginError, match='as "error" of episode 00000-0'):
        laboratory.play(tmp_path, episodes=1)


@pytest.mark.parametrize("figures", [{"error": float("nan")}, None])
def test_bad_references_are_the_plugins_fault_and_the_episodes_are_kept(
    laboratory: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figures: Any
) -> None:
    guessing = importlib.import_module("agentfw_laboratory.guessing").Guessing
    monkeypatch.setattr(guessing, "references", lambda environment, task: {"seven": figures})

    with pytest.raises(PluginError, match=r"failed in references\(\), episode"):
        laboratory.play(tmp_path, episodes=2)

    (path,) = tmp_path.iterdir()
    assert len(RunFolder.open(path).metrics()) == 2


def test_what_a_run_cost_is_summed_up_as_far_as_it_is_known(laboratory: Any, tmp_path: Path) -> None:
    run = laboratory.play(tmp_path, episodes=3)

    turns = [turn for episode in run.folder.episodes() for turn in episode.turns]
    usage = run.folder.summary()["usage"]
    assert usage["prompt"] == sum(turn.usage.prompt for turn in turns) > 0
    assert usage["sampled"] == sum(len(turn.token_ids) for turn in turns)
    assert usage["cached"] is None, "nobody has said it"
    scripted = laboratory.play(tmp_path, environment="inbox", policy="scripted", episodes=1)
    told = scripted.folder.summary()["usage"]
    assert not any(told.values()), "a program has no tokens and costs nothing"
    assert told["prompt"] is None
