"""Likelihood of good answers, and unlikelihood (Welleck et al., 2019) of bad ones: -A log p, and A log(1 - p) below 0.

agentfw train --from RUN --optimizer unlikely --learner sft
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agentfw import Optimizer
from agentfw.optimizer import Advantage, Loss, Scored
from agentfw_plugins.learners.losses import Figures, Terms, TokenLoss

if TYPE_CHECKING:
    import torch


class Unlikely(Optimizer):
    """The reward of an episode is the advantage of each of its turns."""

    def advantages(self, groups: Sequence[Sequence[Scored]]) -> Sequence[Advantage]:
        return [
            Advantage(scored.episode.id, turn.index, scored.reward)
            for group in groups
            for scored in group
            for turn in scored.episode.turns
        ]

    def loss(self) -> Loss:
        return Loss(f"{__name__}:UnlikelyLoss", sampled=False, settings={"surest": 1e-6})


class UnlikelyLoss(TokenLoss):
    """`surest` is how near to 1 a probability may come before its unlikelihood stops growing."""

    def policy_loss(self, terms: Terms, figures: Figures) -> torch.Tensor:
        unlikely = (1 - terms.logprobs.exp()).clamp(min=self.loss.settings["surest"]).log()
        figures.add("unlikelihood", -unlikely.detach()[terms.advantages < 0])
        good, bad = terms.advantages.clamp(min=0), (-terms.advantages).clamp(min=0)
        return -(terms.weights * (good * terms.logprobs + bad * unlikely)).sum()
