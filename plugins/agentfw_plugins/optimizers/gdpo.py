"""GDPO: each reward component is normalised within its group, then the components are added up and whitened.

A' = sum of w_k nrm(r_k) over the components, with nrm by mean and standard deviation of the group. A = A' / (standard
deviation of A' over the batch). So a component with a small spread isn't drowned by one with a large spread.

    agentfw train --optimizer gdpo --set optimizer.weights.calendar_hub=0.25

Normalising a component cancels the run's weight of it. The weights given here are the ones that count.

In the paper, whitening also subtracts the batch's mean. That mean is zero, as it is in every group, so it is not
subtracted here: rounding would turn the zeros of equal groups into tiny numbers that the learner has to compute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from agentfw.optimizer import Advantage, Scored

from .arithmetic import normalised, spread, unit
from .attribution import by_component, throughout
from .relative import Aggregation, LossSettings, Relative

__all__ = ["GDPO", "GDPOSettings"]

WHITENING_FLOOR = 0.1
"""Of normalised values, whose deviation is about 1 where groups differ. A batch of noise alone must not grow again."""


class GDPOSettings(LossSettings):
    weights: dict[str, float] = Field(
        default_factory=dict, description="Weight of each component after it is normalised. Default: 1."
    )
    whiten: bool = Field(True, description="Divide the advantages by their standard deviation over the whole batch.")
    aggregation: Aggregation = "episode_mean"


class GDPO(Relative[GDPOSettings]):
    """Each component relative to the same component of the other samples."""

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        samples = [scored for group in groups for scored in group]
        values = [value for group in groups for value in self._sums(group)]
        if self.settings.whiten:
            one = unit(spread(values), WHITENING_FLOOR)
            values = [value / one for value in values]
        found: list[Advantage] = []
        for scored, value in zip(samples, values, strict=True):
            found += throughout(scored, value)
        return found

    def _sums(self, group: Sequence[Scored]) -> list[float]:
        said = [by_component(scored) for scored in group]
        parts: list[list[float]] = []
        for component in sorted({component for sums in said for component in sums}):
            weight = self.settings.weights.get(component, 1.0)
            values = normalised([sums.get(component, 0.0) for sums in said])
            parts.append([weight * value for value in values])
        return [math.fsum(values) for values in zip(*parts, strict=True)]
