"""With `staleness`, the policy plays on while the learner works in another process, and no turn is too old."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from agentfw.engine import LocalEngine, Remote
from agentfw.errors import AgentfwError, PluginError
from agentfw.runs.learning import RemoteLearner
from agentfw.runs.observers import Observer
from agentfw.runs.records.folder import RunFolder

PAUSED = {"name": "biased", "settings": {"pause": 0.01}}


def ages(folder: RunFolder) -> dict[int, set[int]]:
    """By how many updates the versions of each update's turns were behind."""
    made = {str(line["version"]): int(line["update"]) for line in folder.updates()}
    return {
        number: {
            number - 1 - made.get(turn.version, 0)
            for episode in folder.rollouts(number).episodes()
            for turn in episode.turns
        }
        for number in range(1, folder.total + 1)
    }


class Phases(Observer):
    """Notes which updates are in which phase."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int]] = []

    def phase(self, name: str, update: int) -> None:
        self.begun.append((name, update))


def test_rollouts_are_played_ahead_and_no_turn_is_older_than_allowed(trainings: Any, tmp_path: Path) -> None:
    phases = Phases()

    # The learner takes longer than the policy, however busy the machine is.
    learner = {"name": "bias", "settings": {"pause": 0.5}}
    folder = trainings.train(tmp_path, phases, staleness=2, updates=6, learner=learner).folder

    found = ages(folder)
    assert set().union(*found.values()) <= {0, 1, 2}
    assert phases.begun.index(("play", 3)) < phases.begun.index(("learn", 2))
    assert phases.begun.index(("learn", 1)) < phases.begun.index(("play", 4)), "never more than two ahead"
    means = [line["rollouts"]["age"] for line in folder.updates()]
    assert any(means)
    assert max(means) <= 2
    assert all(line["served"]["proven"] == 1 for line in folder.updates())
    # Evaluations play the newest version while rollouts go on.
    versions = {
        number: {turn.version for episode in records.episodes() for turn in episode.turns}
        for number, records in folder.evaluations().items()
    }
    assert versions == {0: {"base"}, 2: {"bias@2"}, 4: {"bias@4"}, 6: {"bias@6"}}


@pytest.fixture
def from_base(bandit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The learner says in its settings that training starts from the policy's base."""
    monkeypatch.setattr(bandit.BiasSettings, "starts_from_base", True, raising=False)


@pytest.mark.usefixtures("from_base")
def test_it_plays_while_the_learner_is_loaded(trainings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plays = threading.Event()
    open_ = RemoteLearner.open

    def open_late(self: RemoteLearner, folder: Path) -> None:
        assert plays.wait(300), "no rollout begins before the learner is there"
        open_(self, folder)

    class Watch(Observer):
        def phase(self, name: str, update: int) -> None:
            if name == "play":
                plays.set()

    monkeypatch.setattr(RemoteLearner, "open", open_late)

    folder = trainings.train(tmp_path, Watch(), staleness=1, updates=2).folder

    assert [line["version"] for line in folder.updates()] == ["bias@1", "bias@2"]
    assert all(line["served"]["proven"] == 1 for line in folder.updates())


@pytest.mark.usefixtures("from_base")
def test_a_learner_that_cannot_be_loaded_ends_the_training_before_the_evaluation_is_over(
    trainings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(self: RemoteLearner, folder: Path) -> None:
        raise AgentfwError("there is no such model")

    monkeypatch.setattr(RemoteLearner, "open", fails)
    training = trainings.create(tmp_path, staleness=1, policy={"name": "biased", "settings": {"pause": 30}})

    with pytest.raises(AgentfwError, match="there is no such model"):
        asyncio.run(training.execute())

    assert training.folder.evaluation(0).count() == 0


def test_a_learner_that_fails_in_its_process_is_named(trainings: Any, tmp_path: Path) -> None:
    learner = {"name": "bias", "settings": {"fault": "version"}}
    training = trainings.create(tmp_path, staleness=1, updates=2, learner=learner)

    with pytest.raises(PluginError, match=r'learner "bias" of .* returned no new version'):
        asyncio.run(training.execute())


def test_a_training_resumes_after_the_learners_process_has_died(
    trainings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Remote] = []
    start = LocalEngine.start

    def noted(self: LocalEngine, *given: Any, **named: Any) -> Remote:
        started.append(start(self, *given, **named))
        return started[-1]

    monkeypatch.setattr(LocalEngine, "start", noted)
    training = trainings.create(tmp_path, staleness=1, policy=PAUSED)

    class Kill(Observer):
        def updated(self, line: Any) -> None:
            if line["update"] == 1:
                started[0].kill()

    with pytest.raises(AgentfwError, match='the process of the learner "bias" was killed by signal 9'):
        asyncio.run(training.execute(Kill()))
    trainings.resume(training.folder)

    versions = [line["version"] for line in training.folder.updates()]
    assert versions == ["bias@1", "bias@2", "bias@3", "bias@4"], "a new learner would count from 1 again"
