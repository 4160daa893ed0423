"""Imitation: every answer of a demonstration is made more likely, as it is.

A = 1 for each turn that holds a whole answer, and the loss is -A log p, which needs no ratio. An answer that was
interrupted, cut off at its maximum length or not understood is no example to follow, and is left out.

    agentfw train calendar --teacher linear --optimizer imitation --learner sft
    agentfw train calendar --teacher linear --optimizer imitation --learner sft --set optimizer.least=60
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from agentfw import Optimizer, Settings
from agentfw.optimizer import Advantage, Loss, Scored

from ..learners.losses import Figures, Terms, TokenLoss
from .attribution import check, spoken

if TYPE_CHECKING:
    import torch

__all__ = ["Imitation", "ImitationSettings", "Likelihood"]


class ImitationSettings(Settings):
    least: float | None = Field(None, description="Minimum reward of an episode to learn from. Default: all episodes.")


class Imitation(Optimizer):
    """The same advantage for every whole answer."""

    def __init__(self, settings: ImitationSettings) -> None:
        self.settings = settings
        self._figures: dict[str, float] = {}

    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        check(groups)
        shown = [scored for group in groups for scored in group]
        least = self.settings.least
        kept = [scored for scored in shown if least is None or scored.reward >= least]
        answers = [(scored.episode.id, turn) for scored in kept for turn in spoken(scored.episode)]
        whole = [(name, turn) for name, turn in answers if turn.finish == "stop" and not turn.failures]
        self._figures = {
            "demonstrations": float(len(kept)),
            "left_out": float(len(shown) - len(kept)),
            "answers_left_out": float(len(answers) - len(whole)),
        }
        return [Advantage(name, turn.index, 1.0) for name, turn in whole]

    def loss(self) -> Loss:
        return Loss(f"{__name__}:Likelihood", sampled=False)

    def metrics(self) -> Mapping[str, float]:
        return dict(self._figures)


class Likelihood(TokenLoss):
    """The negative log likelihood of each token, weighed by its advantage."""

    def policy_loss(self, terms: Terms, figures: Figures) -> torch.Tensor:
        return -(terms.weights * terms.advantages * terms.logprobs).sum()
