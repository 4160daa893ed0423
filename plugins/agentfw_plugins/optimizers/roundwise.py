"""Round-wise advantages (pearl): one baseline for each round position.

G_t = r_t + gamma G_(t+1) is compared with the G_t of the other samples at the same round t. A curriculum changes what a
round can earn from round to round; with a baseline for each, neither early nor late rounds are favoured.

    agentfw train calendar --optimizer roundwise --set optimizer.gamma=0.5

Every turn of a round carries the round's advantage. Samples that ended before a round are not part of its baseline.
The loss settings are the paper's: clipping ranges 0.2 and 0.28, no KL penalty, and a mean over turns (`sequence_mean`),
because its trainer treats every step of an episode as a sequence of its own. The value of gamma is lost, and so is that
of the epsilon that is added to the variance: here it is the square of the floor that all optimizers have.
A large gamma credits a round with what it makes possible later; a small one keeps out the noise of later rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from agentfw.optimizer import Advantage, Scored

from .arithmetic import centred, unit
from .attribution import by_round, spoken
from .relative import ClipHigh, LossSettings, Relative
from .returns import returns_to_go

__all__ = ["Roundwise", "RoundwiseSettings"]


class RoundwiseSettings(LossSettings):
    gamma: float = Field(
        0.9,
        ge=0,
        le=1,
        description="Discount of rewards from one round to the one before it. The paper's value is lost.",
    )
    clip_high: ClipHigh = 0.28


class Roundwise(Relative[RoundwiseSettings]):
    """Each round relative to the same round of the other samples."""

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
        """Normalised by the biased variance, as in the paper."""
        differences = centred(returns)
        one = unit(math.sqrt(math.fsum(value * value for value in differences) / len(differences)))
        return [value / one for value in differences]
