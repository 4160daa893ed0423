"""Checks each turn that a training plays: an error at the first turn that nothing can be learned from.

Otherwise a fault would show after an hour of rollouts.
"""

from __future__ import annotations

from ..episode import Episode, Turn
from ..errors import PluginError, UsageError
from .observer import Observer
from .spec import RunSpec

__all__ = ["TurnChecks"]


class TurnChecks(Observer):
    """Watches the policy that is trained, and counts the tokens that it generates.

    Its turns must be of the newest `version`, where there is one. With `needs_tokens` they must have their token ids.
    """

    def __init__(self, spec: RunSpec, version: str = "", *, needs_tokens: bool = False) -> None:
        self.spec, self.version, self.needs_tokens = spec, version, needs_tokens
        self.tokens = 0

    def turned(self, episode: Episode, turn: Turn) -> None:
        self.tokens += turn.count
        name = self.spec.policy.name
        if self.needs_tokens and (turn.text or turn.calls) and not turn.token_ids:
            raise UsageError(
                f'the policy "{name}" gives no token ids (turn {turn.index} of episode {episode.id}), and '
                "the optimizer learns from exact tokens",
                fix="train one that has them, such as transformers or vllm; or learn its text: --optimizer imitation",
            )
        if self.version and turn.token_ids and turn.version != self.version:
            raise PluginError(
                f'the policy "{name}" answered turn {turn.index} of episode {episode.id} with '
                f"{turn.version or 'no version at all'} after {self.version} was published",
                fix="episodes to learn from must come from the newest version: fix the policy, or restart its server",
            )
