"""A training goes on with other settings: in place where results stay as they were a fork."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import pytest

from agentfw import Settings
from agentfw.boundary.settings_input import operational_keys
from agentfw.episode import Task
from agentfw.errors import AgentfwError, UsageError
from agentfw.runs.execution import Curriculum
from agentfw.runs.observers import Observer
from agentfw.runs.records.folder import RunFolder
from agentfw.runs.records.play_records import State
from agentfw.runs.results.reproduction import play_again
from agentfw.runs.run import Run
from agentfw.seeds import Seeds
from agentfw.settings import OPERATIONAL, Operational

MEMORY = {
    "memories": ["scratch"],
    "memories_learn": True,
    "concurrency": 4,
    "rewards": [{"name": "utility", "weight": "ramp:1->3"}],
}


class Stop(Observer):
    """Stops a training in the middle of the rollouts of update 3."""

    def __init__(self) -> None:
        self.updates = 0

    def updated(self, line: Mapping[str, Any]) -> None:
        self.updates = line["update"]

    def concluded(self, episode: Any, record: Mapping[str, Any], done: int) -> None:
        if self.updates == 2 and episode.task.split == "train" and done > 4:
            raise AgentfwError("stopped")


@pytest.fixture
def stopped(trainings: Any, tmp_path: Path) -> Run:
    """A training of four updates that was stopped after two."""
    training: Run = trainings.create(tmp_path / "stopped", **MEMORY)
    with pytest.raises(AgentfwError, match="stopped"):
        asyncio.run(training.execute(Stop()))
    assert State.read(training.folder.path).update == 2
    return training


def resumed(trainings: Any, run: Run, changes: Mapping[str, Any]) -> Run:
    again = Run.open(RunFolder.open(run.folder.path), trainings.host(), changes)
    asyncio.run(again.execute())
    return again


def first(left: Mapping[str, Any], updates: int) -> dict[str, Any]:
    """What a training has left of its first updates."""
    return {
        name: some for name, some in left.items() if name.split()[0] == "rollouts" and int(name.split()[1]) <= updates
    }


def test_a_training_that_is_done_or_stopped_may_be_given_more_updates_which_change_nothing_of_those_that_were_planned(
    trainings: Any, stopped: Run, tmp_path: Path
) -> None:
    done = trainings.train(tmp_path / "whole", **MEMORY)
    before = trainings.left(done.folder)

    late = resumed(trainings, resumed(trainings, done, {"updates": 5}), {"updates": 6}).folder
    early = resumed(trainings, stopped, {"updates": 6}).folder

    after = trainings.left(late)
    assert late.planned_updates == len(late.updates()) == 6
    assert first(after, 4) == first(before, 4)
    assert after["updates"][:4] == before["updates"]
    assert first(trainings.left(early), 6) == first(after, 6)
    ids = [episode.id for number in range(1, 7) for episode in late.rollouts(number).episodes()]
    assert len(ids) == len(set(ids)), "a memory tells episodes apart by their ids"
    scores = [score for number in (5, 6) for record in late.rollouts(number).metrics() for score in record["scores"]]
    assert {score[5] for score in scores} == {3.0}, "a ramp that was at its end stays there"


def test_what_was_changed_holds_and_the_first_settings_stay_readable(trainings: Any, stopped: Run) -> None:
    changes = {"updates": 5, "deadline": 60, "learner": {}}
    Run.open(RunFolder.open(stopped.folder.path), trainings.host(), changes)
    assert RunFolder.open(stopped.folder.path).planned_updates == 4, "nothing changes before it is executed"
    Run.open(stopped.folder, trainings.host(), {"updates": 4})  # the same is no less
    with pytest.raises(UsageError, match="updates is 4 and can only be raised, not set to 3"):
        Run.open(stopped.folder, trainings.host(), {"updates": 3})

    resumed(trainings, stopped, changes)

    about = RunFolder.open(stopped.folder.path).about
    assert (about["spec"]["updates"], about["spec"]["deadline"]) == (5, 60)
    assert (about["began_with"]["updates"], about["began_with"]["deadline"]) == (4, 600)
    assert (
        play_again(RunFolder.open(stopped.folder.path), trainings.host(), stopped.folder.path.parent, {}).spec.updates
        == 4
    )
    assert Run.open(RunFolder.open(stopped.folder.path), trainings.host()).spec.deadline == 60


def test_no_episode_comes_twice_also_where_groups_are_replaced_and_updates_are_added() -> None:
    plan = Curriculum([Task(index, seed=index) for index in range(4)], 2, Seeds(7), updates=20)

    played = [[*plan.planned(update, 3), *plan.further(update, 0, 9, 3)] for update in range(1, 61)]

    assert len({task.id for tasks in played for task in tasks}) == 60 * 11 * 3
    assert [task.sample for task in plan.further(20, 4, 1, 3)] == [147, 148, 149], "as it was recorded before"
    planned, others = ({task.index for task in some} for some in (plan.planned(3, 1), plan.further(3, 0, 2, 1)))
    assert planned | others == {0, 1, 2, 3}, "other tasks come first"
    assert len({(*(task.index for task in plan.of(update)),) for update in range(1, 61, 2)}) > 1, "passes differ"


class Shared(Settings):
    parts: Annotated[int, Operational(unless=lambda settings: settings.rough)] = 1
    rough: bool = False
    address: Annotated[str, OPERATIONAL] = ""


def test_a_setting_may_change_results_beside_others() -> None:
    assert set(operational_keys(Shared())) == {"parts", "address"}
    assert set(operational_keys(Shared(rough=True))) == {"address"}
