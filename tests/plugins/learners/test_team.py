"""A learner with several processes: the same update as with one, whatever happens to the others."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

from agentfw.engine import LocalEngine
from agentfw.errors import AgentfwError
from agentfw.learner import Batch, Update
from agentfw.optimizer import Loss
from agentfw_plugins.learners.settings import LoraSettings, SftSettings
from agentfw_plugins.learners.token_tree import TurnTokens, choose_size, pack

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from safetensors.torch import load_file  # noqa: E402

from agentfw_plugins.learners.lora import LoraLearner  # noqa: E402
from agentfw_plugins.learners.sft import SftLearner  # noqa: E402

MakeBatch = Callable[..., Batch]
Make = Callable[..., LoraLearner]
CLIPPED = Loss(kl=0.05, importance_cap=5.0, aggregation="episode_mean")


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    engine = LocalEngine()
    yield engine
    engine.close()


@pytest.fixture
def learner_of(small_model: Path, engine: LocalEngine) -> Iterator[Make]:
    made: list[LoraLearner] = []

    def make(**changes: Any) -> LoraLearner:
        values = {"model": str(small_model), "learning_rate": 1e-2, "tokens": 48, "steps": 2, **changes}
        made.append(LoraLearner(LoraSettings(**values), engine))
        return made[-1]

    yield make
    for learner in made:
        learner.close()


def episodes(seed: int, count: int = 8) -> list[Any]:
    """Episodes of a few tasks, each of one turn, with prompts and answers of several lengths."""
    draw = numpy.random.default_rng(seed)
    return [
        [(tuple(draw.integers(5, 50, 20 + number % 3)), tuple(draw.integers(5, 50, 4 + number % 5)), float(value))]
        for number, value in enumerate(draw.normal(size=count))
    ]


def learned(learner: LoraLearner, make_batch: MakeBatch, updates: int = 3, loss: Loss = CLIPPED) -> list[Update]:
    return [learner.update(make_batch(*episodes(number), loss=loss, tasks=4)) for number in range(updates)]


def weights(update: Update) -> dict[str, Any]:
    return dict(load_file(next(update.adapter.glob("*.safetensors"))))


TIMES = {"seconds", "tokens_per_second", "peak_memory_mb", "workers_used", "workers_lost"}


def assert_equal(one: list[Update], other: list[Update]) -> None:
    for first, second in zip(one, other, strict=True):
        mine, theirs = weights(first), weights(second)
        assert all(torch.equal(mine[name], theirs[name]) for name in mine.keys() | theirs.keys())
        figures = [{name: value for name, value in each.metrics.items() if name not in TIMES} for each in one[:1]]
        assert figures == [
            {name: value for name, value in each.metrics.items() if name not in TIMES} for each in other[:1]
        ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{"workers": 2}, {"workers": 3, "minibatches": 2}, {"workers": 2, "weights": "all", "learning_rate": 1e-3}],
)
def test_updates_are_those_of_one_process_to_the_last_bit(
    learner_of: Make, make_batch: MakeBatch, changes: dict[str, Any]
) -> None:
    alone = {name: value for name, value in changes.items() if name != "workers"}

    together = learned(learner_of(**changes), make_batch)

    assert together[-1].metrics["workers_used"] == changes["workers"]
    assert_equal(together, learned(learner_of(**alone), make_batch))


@pytest.mark.slow
def test_a_worker_that_is_killed_during_updates_changes_nothing(
    learner_of: Make, make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = learner_of(workers=2)
    learned(learner, make_batch, updates=1)
    team = learner._team
    assert team is not None
    worker = team.workers[0]
    submit = type(worker).submit

    def kill_then_submit(self: Any, method: str, *arguments: Any) -> Any:
        answer = submit(self, method, *arguments)
        if self is worker and method == "gradient":
            os.kill(self._process.pid, signal.SIGKILL)
        return answer

    monkeypatch.setattr(type(worker), "submit", kill_then_submit)
    learner = _again(learner_of, team)
    together = learned(learner, make_batch)

    assert [update.metrics["workers_lost"] for update in together] == [1.0, 0.0, 0.0]
    assert together[-1].metrics["workers_used"] == 2
    assert_equal(together, learned(learner_of(), make_batch))


def _again(learner_of: Make, team: Any) -> LoraLearner:
    """A new learner with the workers that are there."""
    learner = learner_of(workers=2)
    learner._team = team
    return learner


@pytest.mark.slow
def test_a_worker_that_hangs_is_given_up_and_its_piece_computed_again(
    learner_of: Make, make_batch: MakeBatch, caplog: pytest.LogCaptureFixture
) -> None:
    learner = learner_of(workers=2)
    learned(learner, make_batch, updates=1)
    team = learner._team
    assert team is not None
    os.kill(team.workers[0]._process.pid, signal.SIGSTOP)  # type: ignore[attr-defined]
    team.settings = team.settings.model_copy(update={"worker_patience": 1.0})

    update = learner.update(make_batch(*episodes(1), loss=CLIPPED, tasks=4))

    assert update.metrics["workers_lost"] == 1
    assert "learner worker 1 was lost with the weights" in caplog.text
    assert "did not answer within 1 s" in caplog.text


@pytest.mark.slow
def test_a_demonstration_is_learned_the_same(small_model: Path, engine: LocalEngine, make_batch: MakeBatch) -> None:
    values = {"model": str(small_model), "learning_rate": 1e-2, "tokens": 48}
    batch = [make_batch(*episodes(5), loss=Loss(name="likelihood"), tasks=4) for _ in range(2)]
    one, two = SftLearner(SftSettings(**values)), SftLearner(SftSettings(**values, workers=2), engine)

    assert_equal([two.update(batch[0])], [one.update(batch[1])])
    two.close()


@pytest.mark.slow
def test_an_error_in_a_piece_ends_the_update_and_the_learner_goes_on(
    learner_of: Make, make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = learner_of(workers=2)
    first = learned(learner, make_batch, updates=1)
    team = learner._team
    assert team is not None
    monkeypatch.setattr(team, "gradients", _fails)
    with pytest.raises(AgentfwError, match="no such piece"):
        learned(learner, make_batch, updates=1)
    monkeypatch.undo()

    second = learner.update(make_batch(*episodes(1), loss=CLIPPED, tasks=4))

    assert_equal([*first, second], learned(learner_of(), make_batch, updates=2))


def _fails(*arguments: Any) -> None:
    raise AgentfwError("no such piece")


def test_fewer_pieces_than_workers_use_fewer_and_say_so(learner_of: Make, make_batch: MakeBatch) -> None:
    learner = learner_of(workers=2, tokens=10_000)

    update = learner.update(make_batch(*episodes(0), loss=CLIPPED, tasks=4))

    assert update.metrics["workers_used"] == 1


def test_trees_for_two_workers_split_the_work_unless_a_shared_prompt_makes_that_dear() -> None:
    apart = [TurnTokens(tuple(range(number, number + 100)), (1, 2)) for number in range(16)]
    shared = [TurnTokens(tuple(range(1000)), (number, *range(20))) for number in range(4)]

    pieces = pack(apart, choose_size(apart, 10_000, workers=2))
    together = pack(shared, choose_size(shared, 10_000, workers=2))

    assert len(pieces) >= 2
    assert max(piece.computed for piece in pieces) <= 0.6 * sum(piece.computed for piece in pieces)
    assert max(piece.computed for piece in together) <= 1080


def test_a_setting_of_zero_workers_is_refused() -> None:
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        LoraSettings(workers=0)
