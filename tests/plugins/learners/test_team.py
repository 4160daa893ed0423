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
from agentfw.seeds import Seeds
from agentfw_plugins.learners.lessons import Lesson
from agentfw_plugins.learners.settings import LoraSettings, SftSettings
from agentfw_plugins.learners.token_tree import TurnTokens, choose_size, pack
from agentfw_plugins.optimizers.imitation import KTO, Imitation, ImitationSettings, KTOSettings

from .conftest import updated

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from safetensors.torch import load_file  # noqa: E402

from agentfw_plugins.learners.descent import Descent  # noqa: E402
from agentfw_plugins.learners.model_learner import LoraLearner, SftLearner  # noqa: E402
from agentfw_plugins.learners.network import Network  # noqa: E402
from agentfw_plugins.learners.team import Team  # noqa: E402

MakeBatch = Callable[..., Batch]
Make = Callable[..., LoraLearner]
CLIPPED = Loss(kl=0.05, importance_cap=5.0, aggregation="episode_mean")


@pytest.fixture(scope="module")
def team(small_model: Path) -> Iterator[Team]:
    """One team for all tests, because a worker takes seconds to start. It gets new weights before each step."""
    engine = LocalEngine()
    yield Team(engine, LoraSettings(model=str(small_model), workers=2))
    engine.close()


@pytest.fixture
def learner_of(small_model: Path, team: Team) -> Make:
    def make(*, workers: int = 1, **changes: Any) -> LoraLearner:
        values = {"model": str(small_model), "learning_rate": 1e-2, "tokens": 48, "workers": workers, **changes}
        made: LoraLearner = _with_team(LoraLearner(LoraSettings(**values)), team if workers > 1 else None)
        return made

    return make


def _with_team(learner: Any, team: Team | None) -> Any:
    learner._team = team
    return learner


def episodes(seed: int, count: int = 6) -> list[Any]:
    """Episodes of a few tasks, each of one turn, with prompts and answers of several lengths."""
    draw = numpy.random.default_rng(seed)
    return [
        [(tuple(draw.integers(5, 50, 20 + number % 3)), tuple(draw.integers(5, 50, 4 + number % 5)), float(value))]
        for number, value in enumerate(draw.normal(size=count))
    ]


def learned(learner: LoraLearner, make_batch: MakeBatch, updates: int = 2, loss: Loss = CLIPPED) -> list[Update]:
    return [updated(learner, make_batch(*episodes(number), loss=loss, tasks=4)) for number in range(updates)]


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
def test_updates_are_those_of_one_process_to_the_last_bit(learner_of: Make, make_batch: MakeBatch) -> None:
    together = learned(learner_of(workers=2, minibatches=2), make_batch)

    assert together[-1].metrics["workers_used"] == 2
    assert_equal(together, learned(learner_of(minibatches=2), make_batch))


@pytest.mark.nightly
def test_all_weights_can_be_trained_with_workers_of_its_own(small_model: Path, make_batch: MakeBatch) -> None:
    values = {"model": str(small_model), "weights": "all", "learning_rate": 1e-3, "tokens": 48}
    learner = LoraLearner(LoraSettings(**values, workers=2))

    together = learned(learner, make_batch, updates=2)
    learner.close()

    assert together[-1].metrics["workers_used"] == 2
    assert_equal(together, learned(LoraLearner(LoraSettings(**values)), make_batch, updates=2))


@pytest.mark.nightly
def test_replicated_workers_go_through_the_batch_each_in_an_order_of_its_own(
    learner_of: Make, make_batch: MakeBatch
) -> None:
    replicated = {"workers": 2, "minibatches": 2, "share": "replicated"}

    together = learned(learner_of(**replicated), make_batch)
    alone = learned(_with_team(learner_of(**replicated), None), make_batch)
    exact = learned(learner_of(minibatches=2), make_batch)

    assert_equal(together, alone)
    (first, *_), (other, *_) = together, exact
    assert first.metrics["steps"] == other.metrics["steps"] == 2
    assert first.metrics["tokens_unique"] == pytest.approx(2 * other.metrics["tokens_unique"], rel=0.2)
    assert any(not torch.equal(weights(first)[name], tensor) for name, tensor in weights(other).items())


def test_the_gradient_of_a_replicated_step_is_the_mean_over_the_orders(small_model: Path) -> None:
    network = Network(LoraSettings(model=str(small_model), gradient_clip=1e9), Seeds(7))
    found = lessons_of(6)

    def gradient(*orders: list[Any]) -> Any:
        descent = Descent(network, torch.optim.SGD(network.parameters(), lr=1e-30), network.settings, 1e-30)
        descent.learn([orders[0]], Loss(), 1, replicas=[[order] for order in orders[1:]])
        return torch.cat([parameter.grad.flatten() for parameter in network.parameters()])

    one, other, both = gradient(found[:3]), gradient(found[2:5]), gradient(found[:3], found[2:5])

    assert torch.allclose(both, (one + other) / 2, atol=1e-7)
    assert not torch.allclose(one, other, atol=1e-5)


def lessons_of(count: int) -> list[Lesson]:
    """Lessons of several tasks, each of one turn."""
    return [
        Lesson(TurnTokens(prompt, sampled), advantage, (), task=number, turn=0, episode=str(number))
        for number, ((prompt, sampled, advantage),) in enumerate(episodes(3, count))
    ]


@pytest.mark.parametrize("alone", [{"workers": 2}, {"minibatches": 2}])
def test_replicated_workers_that_would_all_compute_the_same_are_refused(alone: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="two or more workers and minibatches"):
        LoraSettings(share="replicated", **alone)


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss", [Imitation(ImitationSettings()).loss(), KTO(KTOSettings()).loss()], ids=lambda x: x.name
)
def test_a_demonstration_is_learned_the_same(small_model: Path, team: Team, make_batch: MakeBatch, loss: Loss) -> None:
    settings = SftSettings(model=str(small_model), learning_rate=1e-2, tokens=48, epochs=2)
    batches = [make_batch(*episodes(5), loss=loss, tasks=4) for _ in range(2)]

    together = updated(_with_team(SftLearner(settings), team), batches[0])

    assert_equal([together], [updated(SftLearner(settings), batches[1])])


@pytest.mark.slow
def test_an_error_in_a_piece_ends_the_update_and_the_learner_goes_on(
    learner_of: Make, make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = learner_of(workers=2)
    first = learned(learner, make_batch, updates=1)
    monkeypatch.setattr("agentfw_plugins.learners.team.backward", _fails)
    with pytest.raises(AgentfwError, match="no such piece"):
        learned(learner, make_batch, updates=1)
    monkeypatch.undo()

    second = updated(learner, make_batch(*episodes(1), loss=CLIPPED, tasks=4))

    assert_equal([*first, second], learned(learner_of(), make_batch, updates=2))


def _fails(*arguments: Any) -> None:
    raise AgentfwError("no such piece")


@pytest.mark.nightly
def test_a_worker_that_is_killed_in_an_update_changes_nothing(
    learner_of: Make, team: Team, make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = learner_of(workers=2)
    first = learned(learner, make_batch, updates=1)
    victim: Any = team.workers[0]
    submit = type(victim).submit

    def submit_and_kill(self: Any, method: str, *arguments: Any) -> Any:
        answer = submit(self, method, *arguments)
        if self is victim and method == "gradient":
            os.kill(self._process.pid, signal.SIGKILL)
        return answer

    monkeypatch.setattr(type(victim), "submit", submit_and_kill)
    others = [updated(learner, make_batch(*episodes(number), loss=CLIPPED, tasks=4)) for number in (1, 2)]

    assert [update.metrics["workers_lost"] for update in others] == [1, 0]
    assert others[-1].metrics["workers_used"] == 2
    assert_equal([*first, *others], learned(learner_of(), make_batch, updates=3))


@pytest.mark.slow
def test_fewer_pieces_than_workers_use_fewer_and_say_so(learner_of: Make, make_batch: MakeBatch) -> None:
    learner = learner_of(workers=2, tokens=10_000)

    update = updated(learner, make_batch(*episodes(0), loss=CLIPPED, tasks=4))

    assert update.metrics["workers_used"] == 1


@pytest.mark.slow
def test_a_worker_that_hangs_is_given_up_and_named(
    learner_of: Make, team: Team, make_batch: MakeBatch, caplog: pytest.LogCaptureFixture
) -> None:
    learner = learner_of(workers=2)
    learned(learner, make_batch, updates=1)
    team.settings = team.settings.model_copy(update={"worker_patience": 1.0})
    os.kill(team.workers[0]._process.pid, signal.SIGSTOP)  # type: ignore[attr-defined]

    update = updated(learner, make_batch(*episodes(1), loss=CLIPPED, tasks=4))
    team.settings = team.settings.model_copy(update={"worker_patience": 1800.0})

    assert update.metrics["workers_lost"] == 1
    assert "learner worker 1 was lost with the weights" in caplog.text
    assert "did not answer within 1 s" in caplog.text


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
