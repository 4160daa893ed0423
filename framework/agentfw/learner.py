"""The learner interface: episodes with advantages in, a new version of the policy out.

An update is all or nothing. It writes its adapter under a new name and gives that name back; whatever was
there before is untouched, so a killed update can simply be done again.

    class Counter(Learner):
        def update(self, batch: Batch) -> Update:
            ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .episode import Episode
from .optimizer import Advantage, Loss

__all__ = ["Batch", "Learner", "Update"]


@dataclass(frozen=True, slots=True)
class Batch:
    """What one update learns from."""

    episodes: Sequence[Episode]
    advantages: Sequence[Advantage]
    loss: Loss
    folder: Path
    """Where the new adapter goes; it does not exist yet."""


@dataclass(frozen=True, slots=True)
class Update:
    """What came of an update."""

    version: str
    adapter: Path
    metrics: Mapping[str, float] = field(default_factory=dict)


class Learner:
    """Something that learns. `update` is the one method that it must have."""

    def update(self, batch: Batch) -> Update:
        raise NotImplementedError

    def open(self, folder: Path) -> None:
        """A training begins or goes on. `folder` is the learner's own; every batch's folder lies below it."""

    def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int], *, base: bool = False) -> Sequence[float]:
        """What the newest version, or with `base` the model without adapter, thinks of these tokens after this prompt.

        A training compares them with what the policy says: so it is proven which weights are served. A learner that has
        no tokens gives nothing.
        """
        return ()

    def state(self) -> dict[str, Any]:
        """What it needs to go on, as JSON values or paths below the run's folder."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take back what `state` gave; called after `open`."""

    def close(self) -> None:
        """Let go of memory and processes."""
