"""Imitation: every answer of a demonstration is made more likely, as it is.

The one rule: A = 1 for each turn that holds a whole answer, for the loss `likelihood`, which needs no ratio. What was
broken off or couldn't be understood is nothing to imitate.

    agentfw train calendar --teacher linear --optimizer imitation --learner sft
    agentfw train calendar --teacher linear --optimizer imitation --learner sft --set optimizer.least=60
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from agentfw import Settings
from agentfw.optimizer import Advantage, Loss, Optimizer, Scored

from .attribution import check, spoken

__all__ = ["Imitation", "ImitationSettings"]


class ImitationSettings(Settings):
    least: float | None = Field(None, description="Leave out episodes whose reward is below this.")


class Imitation(Optimizer):
    """The same advantage for every answer."""

    def __init__(self, settings: ImitationSettings) -> None:
        self.settings = settings
        self._figures: dict[str, float] = {}

    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        check(groups)
        shown = [scored for group in groups for scored in group]
        least = self.settings.least
        kept = [scored for scored in shown if least is None or scored.reward >= least]
        self._figures = {"demonstrations": float(len(kept)), "left_out": float(len(shown) - len(kept))}
        return [
            Advantage(scored.episode.id, turn.index, 1.0)
            for scored in kept
            for turn in spoken(scored.episode)
            if turn.finish != "interrupted" and not turn.failures
        ]

    def loss(self) -> Loss:
        return Loss("likelihood")

    def metrics(self) -> Mapping[str, float]:
        return dict(self._figures)
