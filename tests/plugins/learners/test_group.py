"""A learner with several processes: the same update as with one but for rounding, whatever happens to the others."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy
import pytest

from agentfw.errors import AgentfwError
from agentfw.learner import Batch, Update
from agentfw.optimizer import Loss
from agentfw_plugins.learners.token_tree import Forest, TurnTokens

from .conftest import updated

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from safetensors.torch import load_file  # noqa: E402

from agentfw_plugins.learners.model_learner import LoraLearner  # noqa: E402

MakeBatch = Callable[..., Batch]
Make = Callable[..., LoraLearner]
CLIPPED = Loss(kl=0.05, importance_cap=5.0, aggregation="episode_mean")
TIMES = {"seconds", "tokens_per_second", "peak_memory_mb", "tokens_computed"}


@pytest.fixture
def in_pieces(learner_of: Make) -> Make:
    return lambda **changes: learner_of(tokens=48, **changes)


def episodes(seed: int, count: int = 6) -> list[Any]:
    """Episodes of a few tasks, each of one turn, with prompts and answers of several lengths."""
    draw = numpy.random.default_rng(seed)

    def ids(length: int) -> tuple[int, ...]:
        return tuple(draw.integers(5, 50, length).tolist())

    return [
        [(ids(20 + number % 3), ids(4 + number % 5), float(value))]
        for number, value in enumerate(draw.normal(size=count))
    ]


def learned(learner: LoraLearner, make_batch: MakeBatch, updates: int = 2, loss: Loss = CLIPPED) -> list[Update]:
    return [updated(learner, make_batch(*episodes(number), loss=loss, tasks=4)) for number in range(updates)]


def weights(update: Update) -> dict[str, Any]:
    return dict(load_file(next(update.adapter.glob("*.safetensors"))))


def assert_alike(one: list[Update], other: list[Update], *, within: float = 1e-4) -> None:
    """Weights that differ by rounding alone, and figures too.

    A step of Adam is as large as the learning rate, 1e-2, however small a gradient is; where one is nearly 0, rounding
    changes its step most.
    """
    for first, second in zip(one, other, strict=True):
        mine, theirs = weights(first), weights(second)
        assert mine.keys() == theirs.keys()
        assert max(float((mine[name] - theirs[name]).abs().max()) for name in mine) < within
        for name in first.metrics.keys() - TIMES:
            assert first.metrics[name] == pytest.approx(second.metrics[name], rel=1e-3, abs=1e-5), name


@pytest.mark.nightly
@pytest.mark.parametrize("sharded", [False, True])
def test_two_processes_learn_what_one_learns_and_a_killed_one_costs_only_time(
    in_pieces: Make, make_batch: MakeBatch, sharded: bool, caplog: pytest.LogCaptureFixture
) -> None:
    learner = in_pieces(workers=2, minibatches=2, sharded=sharded)
    first = learned(learner, make_batch, updates=1)
    assert learner._group is not None
    victim: Any = learner._group._workers[0]

    def kill(done: int, of: int, memory: float) -> None:
        if done == 1 and victim.alive:
            os.kill(victim._process.pid, signal.SIGKILL)

    second = updated(learner, replace(make_batch(*episodes(1), loss=CLIPPED, tasks=4), tell=kill))

    assert "learner worker 1 was killed by signal 9" in caplog.text
    alone = in_pieces(minibatches=2)
    assert_alike([*first, second], learned(alone, make_batch))
    os.kill(cast(Any, learner._group._workers[0])._process.pid, signal.SIGKILL)  # between an update and its proof
    assert learner.logprobs((20, 21), (22,)) == pytest.approx(alone.logprobs((20, 21), (22,)), abs=1e-3)


@pytest.mark.nightly
def test_a_process_that_hangs_costs_only_time(
    in_pieces: Make, make_batch: MakeBatch, caplog: pytest.LogCaptureFixture
) -> None:
    learner = in_pieces(workers=2, worker_patience=20)
    learner.open(Path())
    assert learner._group is not None
    victim: Any = learner._group._workers[0]

    def halt(done: int, of: int, memory: float) -> None:
        if victim.alive:
            os.kill(victim._process.pid, signal.SIGSTOP)

    update = updated(learner, replace(make_batch(*episodes(0), loss=CLIPPED, tasks=4), tell=halt))

    assert "hasn't answered within 20 s" in caplog.text
    assert_alike([update], learned(in_pieces(), make_batch, updates=1))


@pytest.mark.nightly
def test_a_base_in_four_bits_that_is_divided_learns_what_a_whole_one_learns(
    in_pieces: Make, make_batch: MakeBatch
) -> None:
    pytest.importorskip("bitsandbytes")

    divided = learned(in_pieces(workers=2, sharded=True, precision="nf4"), make_batch, updates=1)

    assert_alike(divided, learned(in_pieces(precision="nf4"), make_batch, updates=1), within=5e-4)


@pytest.mark.nightly
def test_a_divided_training_goes_on_with_another_number_of_processes(
    in_pieces: Make, make_batch: MakeBatch, tmp_path: Path
) -> None:
    divided, alone = in_pieces(workers=2, sharded=True), in_pieces()
    first, expected = (learned(each, make_batch, updates=1)[0] for each in (divided, alone))
    state = divided.state()
    divided.close()
    resumed = in_pieces()
    resumed.open(tmp_path)
    resumed.restore(state)

    second, wanted = (updated(each, make_batch(*episodes(1), loss=CLIPPED, tasks=4)) for each in (resumed, alone))

    assert_alike([first, second], [expected, wanted])


@pytest.mark.nightly
def test_an_error_of_a_worker_is_told_and_the_learner_goes_on(
    in_pieces: Make, make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = in_pieces(workers=2)
    first = learned(learner, make_batch, updates=1)
    with monkeypatch.context() as patched:
        # What reaches the worker can't be read there, while this process computes its own part.
        patched.setattr("agentfw_plugins.learners.model_learner.asdict", lambda each: {"name": "no such loss"})
        with pytest.raises(AgentfwError, match="learner worker 1"):
            learned(learner, make_batch, updates=1)

    second = updated(learner, make_batch(*episodes(1), loss=CLIPPED, tasks=4))

    assert_alike([*first, second], learned(in_pieces(), make_batch, updates=2))


def test_trees_for_two_workers_split_the_work_unless_a_shared_prompt_makes_that_dear() -> None:
    apart = [TurnTokens(tuple(range(number, number + 100)), (1, 2)) for number in range(16)]
    shared = [TurnTokens(tuple(range(1000)), (number, *range(20))) for number in range(4)]

    pieces, together = (forest.trees(forest.size(10_000, workers=2)) for forest in map(Forest, (apart, shared)))

    assert len(pieces) >= 2
    assert max(piece.computed for piece in pieces) <= 0.6 * sum(piece.computed for piece in pieces)
    assert max(piece.computed for piece in together) <= 1080
