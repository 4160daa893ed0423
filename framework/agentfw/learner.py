"""The learner interface: turns episodes with advantages into a new version of the policy.

An update is all or nothing. It writes its adapter under a new name and returns that name. Existing files stay
untouched, so a killed update can simply be repeated.

    class Counter(Learner):
        def update(self, batch: Batch) -> Update:
            ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .episode import Episode
from .errors import not_implemented
from .optimizer import Advantage, Loss

__all__ = ["Answer", "Batch", "Learner", "Scores", "Update"]

Answer = tuple[Sequence[int], Sequence[int]]
"""The tokens of a prompt and of the answer to it."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The data of one update."""

    episodes: Sequence[Episode]
    advantages: Sequence[Advantage]
    loss: Loss
    folder: Path
    """Folder for the new adapter. It does not exist yet."""
    teacher: Sequence[Sequence[float]] = ()
    """If the loss needs a teacher, its logprobs of the tokens of each turn that has an advantage, in their order."""
    tell: Callable[[int, int, float], object] = field(default=lambda done, of, memory: None, compare=False)
    """Call it now and then: how many pieces of the update are done, of how many, and the memory in use in MiB."""


@dataclass(frozen=True, slots=True)
class Update:
    """The result of an update."""

    version: str
    adapter: Path
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scores:
    """The logprobs of all tokens of some answers, one answer after the other."""

    logprobs: Sequence[float]
    rounding: Sequence[float] = ()
    """How much each typically changes if inputs of the model are off by a rounding error. Empty if that isn't known."""


class Learner:
    """Base class of learners. Only `update` must be implemented."""

    def update(self, batch: Batch) -> Update | None:
        """Make a new version. None if no weight would differ from the last one; then nothing may be left behind."""
        raise not_implemented(self, "update")

    def open(self, folder: Path) -> None:
        """Called when a training begins or resumes. `folder` belongs to the learner; batch folders are below it."""

    def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int], *, base: bool = False) -> Sequence[float]:
        """Logprobs of these tokens after this prompt, under the newest version or, with `base`, without the adapter.

        A learner that doesn't work with tokens returns nothing.
        """
        return ()

    def score(self, answers: Sequence[Answer], base: bool = False, rounding: bool = False) -> Scores:
        """The same for several answers, which a learner may compute at once, and, if asked for, how exact it is.

        A training compares them with the policy's own logprobs to verify which weights are served. The rounding tells
        numerical noise from wrong weights: the less precise the model, the larger it is. It is asked for before the
        first update, and where noise might explain a difference. Without it the noise is only measured.
        """
        return Scores([value for answer in answers for value in self.logprobs(*answer, base=base)])

    def state(self) -> dict[str, Any]:
        """State needed to resume, as JSON values or paths below the run's folder."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore what `state` returned. Called after `open`."""

    def start(self, folder: Path) -> Update | None:
        """What training starts from, written below `folder`; None where that is the policy's own base.

        The policy is published to before the first episode. Called again whenever the training is resumed, also after
        `restore`, with the same folder. If the learner's settings have an attribute `starts_from_base` that is true,
        a training with `staleness` may begin to play without asking, while the learner is being loaded.
        """
        return None

    def rest(self) -> None:
        """Release device memory. The policy is about to work, perhaps on the same device."""

    def wake(self) -> None:
        """Take device memory back. An update or a question about logprobs comes next."""

    def close(self) -> None:
        """Release memory and processes."""
