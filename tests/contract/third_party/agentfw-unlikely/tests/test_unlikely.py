"""The optimizer keeps its promises, and its loss trains a model: in this process, and in a worker of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agentfw import Episode, Learner, Message, Optimizer, Task, Turn
from agentfw.learner import Batch
from agentfw.optimizer import Scored
from agentfw.testing import contract_tests, fresh_host, made_by

HOST = fresh_host("agentfw_unlikely.plugin", builtins=True)
ANSWERS = {"one guest": ("green tea", 1.0), "two guests": ("black coffee", -1.0)}

test_optimizer = contract_tests("optimizer", made_by(HOST, "optimizer", "unlikely"))


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.nightly)])
def test_good_answers_become_likelier_and_bad_ones_less_likely(small_model: Path, tmp_path: Path, workers: int) -> None:
    settings: dict[str, Any] = {"model": str(small_model), "learning_rate": 1e-2, "device": "cpu", "workers": workers}
    optimizer = HOST.create("optimizer", "unlikely", {})
    learner = HOST.create("learner", "sft", settings)
    assert isinstance(optimizer, Optimizer)
    assert isinstance(learner, Learner)
    episodes = []
    for number, (asked, (answer, _)) in enumerate(ANSWERS.items()):
        episodes.append(Episode(Task(number, 7), messages=[Message("user", asked)]))
        episodes[-1].turns = [Turn(0, 0, 1, shown=(0,), text=answer)]
    groups = [[Scored(episode, (), reward)] for episode, (_, reward) in zip(episodes, ANSWERS.values(), strict=True)]

    learner.open(tmp_path)
    updates = [
        learner.update(Batch(episodes, optimizer.advantages(groups), optimizer.loss(), tmp_path / str(number)))
        for number in range(6)
    ]
    learner.close()

    first, *_, last = [update.metrics for update in updates if update is not None]
    assert last["loss"] < first["loss"]
    assert last["unlikelihood"] < first["unlikelihood"], "the bad answer is less likely than it was"
