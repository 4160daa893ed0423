"""Who listens while a training plays: whoever watches, and somebody who checks that what is played can be learned from.

The one rule: what makes an update worthless is told at the first turn that shows it, not after an hour of rollouts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..episode import Episode, Turn
from ..errors import PluginError, UsageError
from ..runs.play import Audience
from .spec import TrainSpec

if TYPE_CHECKING:
    from .training import TrainingWatcher

__all__ = ["Checker", "Listener"]


class Listener(Audience):
    """Tells whoever watches."""

    def __init__(self, watcher: TrainingWatcher) -> None:
        self.watcher = watcher
        self.tokens = 0
        """How many were generated while it listened."""

    def turned(self, episode: Episode, turn: Turn) -> None:
        self.tokens += turn.count
        self.watcher.turned(episode, turn)

    def concluded(self, episode: Episode, record: dict[str, Any], done: int) -> None:
        self.watcher.ended(episode, record["reward"], done)


class Checker(Listener):
    """Listens to the policy that is trained: its turns are of the newest version, and where it is to learn from what it
    sampled itself they have their tokens."""

    def __init__(self, watcher: TrainingWatcher, spec: TrainSpec, version: str, *, sampled: bool = False) -> None:
        super().__init__(watcher)
        self.spec, self.version, self.sampled = spec, version, sampled

    def turned(self, episode: Episode, turn: Turn) -> None:
        name = self.spec.policy.name
        if self.sampled and (turn.text or turn.calls) and not turn.token_ids:
            raise UsageError(
                f'the policy "{name}" gives no token ids (turn {turn.index} of episode {episode.id}), and '
                f'"{self.spec.optimizer.name}" learns from exact tokens',
                fix="train one that has them, such as transformers or vllm; or learn its text: --optimizer imitation",
            )
        if self.version and turn.token_ids and turn.version != self.version:
            raise PluginError(
                f'the policy "{name}" answered turn {turn.index} of episode {episode.id} with '
                f"{turn.version or 'no version at all'} after {self.version} was published",
                fix="what is learned from must come from the newest version: fix the policy, or restart its server",
            )
        super().turned(episode, turn)
