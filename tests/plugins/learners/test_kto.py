"""The loss `kto` in a learner: good answers become likelier, bad ones less likely, beyond a measured baseline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from agentfw.episode import Episode, Message, Task, Turn
from agentfw.learner import Batch
from agentfw.optimizer import Advantage
from agentfw_plugins.learners.settings import SftSettings
from agentfw_plugins.optimizers.imitation import KTO, KTOSettings

from .conftest import updated

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from agentfw_plugins.learners.model_learner import SftLearner  # noqa: E402
from agentfw_plugins.learners.token_tree import TurnTokens  # noqa: E402

RATED = [("one guest", "green tea", 1.0), ("two guests", "green tea, please", 1.0), ("no guest", "black coffee", -1.0)]


def episodes() -> list[Episode]:
    found = []
    for number, (asked, answer, _) in enumerate(RATED):
        episode = Episode(Task(number, 7), messages=[Message("user", asked)])
        episode.turns = [Turn(0, 0, 1, shown=(0,), text=answer)]
        found.append(episode)
    return found


def batch(folder: Path) -> Batch:
    played = episodes()
    advantages = [Advantage(one.id, 0, value) for one, (_, _, value) in zip(played, RATED, strict=True)]
    return Batch(played, advantages, KTO(KTOSettings()).loss(), folder)


def answers(learner: SftLearner) -> list[TurnTokens]:
    found = [learner.tokens(one, one.turns[0]) for one in episodes()]
    return [tokens for tokens in found if tokens is not None]


def log_ratio(learner: SftLearner, prompt: Sequence[int], answer: Sequence[int]) -> float:
    now, before = learner.logprobs(prompt, answer), learner.logprobs(prompt, answer, base=True)
    return sum(now) - sum(before)


@pytest.mark.slow
def test_good_and_bad_answers_part_and_the_baseline_is_that_of_mismatched_ones(
    small_model: Path, tmp_path: Path
) -> None:
    learner = SftLearner(SftSettings(model=str(small_model), learning_rate=1e-2, device="cpu"))
    first = updated(learner, batch(tmp_path / "0")).metrics
    for number in range(1, 8):
        learner.update(batch(tmp_path / str(number)))
    told = answers(learner)
    mismatched = [(one.prompt, other.sampled) for one, other in zip(told, [*told[1:], told[0]], strict=True)]
    expected = max(0.0, sum(log_ratio(learner, *pair) for pair in mismatched) / 3)

    last = updated(learner, batch(tmp_path / "last")).metrics

    assert expected > 0
    assert first["baseline"] == 0
    assert first["loss"] == pytest.approx(0.5), "at the reference every answer has half of its value"
    assert last["baseline"] == pytest.approx(expected, abs=1e-3)
    good, also_good, bad = (log_ratio(learner, *one) for one in told)
    assert min(good, also_good) > 1
    assert bad < min(good, also_good) - 2
