"""Learners of a small model, and batches: episodes whose turns have the tokens that a test gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agentfw.episode import Episode, Task, Turn
from agentfw.learner import Batch, Learner, Update
from agentfw.optimizer import Advantage, Loss
from agentfw_plugins.learners.settings import LoraSettings

if TYPE_CHECKING:
    from agentfw_plugins.learners.model_learner import LoraLearner

TurnValues = tuple[Sequence[int], Sequence[int], float]
"""Prompt, sampled tokens, advantage."""


def batch_of(
    folder: Path, *episodes: Sequence[TurnValues], loss: Loss | None = None, logprobs: Any = None, tasks: int = 1
) -> Batch:
    """Each episode a list of turns; the sampler's logprobs are -1 each where none are given."""
    made: list[Episode] = []
    advantages: list[Advantage] = []
    for number, turns in enumerate(episodes):
        episode = Episode(Task(number % tasks, 7, sample=number))
        for index, (prompt, sampled, advantage) in enumerate(turns):
            said = [-1.0] * len(sampled) if logprobs is None else logprobs
            turn = Turn(index, 0, 1, prompt_ids=tuple(prompt), token_ids=tuple(sampled), logprobs=tuple(said))
            episode.turns.append(turn)
            advantages.append(Advantage(episode.id, index, advantage))
        made.append(episode)
    return Batch(made, advantages, loss or Loss(), folder)


def updated(learner: Learner, batch: Batch) -> Update:
    """The new version. A batch that changes no weight gives none."""
    made = learner.update(batch)
    assert made is not None
    return made


@pytest.fixture
def make_batch(tmp_path: Path) -> Callable[..., Batch]:
    count = iter(range(1000))
    return lambda *episodes, **options: batch_of(tmp_path / f"update-{next(count)}", *episodes, **options)


@pytest.fixture
def learner_of(small_model: Path) -> Iterator[Callable[..., LoraLearner]]:
    """Learners of the small model with these settings. They are closed at the end."""
    from agentfw_plugins.learners.model_learner import LoraLearner

    made: list[LoraLearner] = []

    def make(**changes: Any) -> LoraLearner:
        made.append(LoraLearner(LoraSettings(**({"model": str(small_model), "learning_rate": 1e-2} | changes))))
        return made[-1]

    yield make
    for learner in made:
        learner.close()
