"""Round-wise advantages (pearl): one baseline for each position of a round.

The one rule: G_t = r_t + gamma G_(t+1) is compared with the G_t of the other samples at the same round t. So what a
round can bring, which a curriculum changes on the way, favours neither early nor late rounds.

    agentfw train calendar --optimizer roundwise --set optimizer.gamma=0.5

Every turn of a round carries the round's advantage. Samples that ended before a round are not part of its baseline.
The loss's values are the paper's (clip 0.2 and 0.28, means of sequences, no KL). Its gamma and epsilon are lost: a
large gamma credits a round with what it made possible later, a small one keeps the noise of later rounds out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from agentfw.optimizer import Advantage, Scored

from .arithmetic import centred
from .attribution import by_round, spoken
from .relative import ClipHigh, LossSettings, Relative
from .returns import returns_to_go

__all__ = ["Roundwise", "RoundwiseSettings"]


class RoundwiseSettings(LossSettings):
    gamma: float = Field(
        0.9, ge=0, le=1, description="What a reward one round later is worth to a round; the paper's value is lost."
    )
    epsilon: float = Field(
        1e-6, gt=0, description="What is added to the variance of a position; the paper's value is lost."
    )
    clip_high: ClipHigh = 0.28


class Roundwise(Relative[RoundwiseSettings]):
    """Each round against the same round of the other samples."""

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        return [advantage for group in groups for advantage in self._group(group)]

    def _group(self, group: Sequence[Scored]) -> list[Advantage]:
        returns = [returns_to_go(by_round(scored), self.settings.gamma) for scored in group]
        values = [[0.0] * len(one) for one in returns]
        for number in range(max(map(len, returns))):
            there = [place for place, one in enumerate(returns) if number < len(one)]
            for place, value in zip(there, self._normalised([returns[place][number] for place in there]), strict=True):
                values[place][number] = value
        return [
            Advantage(scored.episode.id, turn.index, values[place][turn.round])
            for place, scored in enumerate(group)
            for turn in spoken(scored.episode)
        ]

    def _normalised(self, returns: Sequence[float]) -> list[float]:
        """By the biased deviation with epsilon beneath the root, as the paper writes it."""
        differences = centred(returns)
        variance = math.fsum(value * value for value in differences) / len(differences)
        return [value / math.sqrt(variance + self.settings.epsilon) for value in differences]
