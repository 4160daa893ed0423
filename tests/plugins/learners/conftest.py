"""Batches to learn from: episodes whose turns have the tokens that a test gives them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentfw.episode import Episode, Task, Turn
from agentfw.learner import Batch
from agentfw.optimizer import Advantage, Loss

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


@pytest.fixture
def make_batch(tmp_path: Path) -> Callable[..., Batch]:
    count = iter(range(1000))
    return lambda *episodes, **options: batch_of(tmp_path / f"update-{next(count)}", *episodes, **options)
