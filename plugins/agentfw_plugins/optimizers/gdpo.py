"""GDPO: each reward component is normalised by itself within the group, then they are added up and whitened.

The one rule: A' = sum of w_k nrm(r_k) over the components, nrm by the group's mean and spread; A = nrm(A') over the
whole batch. So a component with a small spread isn't drowned by one with a large spread.

    agentfw train --optimizer gdpo --set optimizer.weights.calendar_hub=0.25

Normalising a component takes the run's weight out of it again: what counts are the weights given here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from agentfw.optimizer import Advantage, Scored

from .arithmetic import normalised
from .attribution import by_component, throughout
from .relative import LossSettings, Relative

__all__ = ["GDPO", "GDPOSettings"]

WHITENING_EPSILON = 1e-4


class GDPOSettings(LossSettings):
    weights: dict[str, float] = Field(
        default_factory=dict, description="How much a component counts after it was normalised; 1 where not given."
    )
    whiten: bool = Field(True, description="Normalise the advantages once more over the whole batch.")


class GDPO(Relative[GDPOSettings]):
    """Each component against the same component of the other samples."""

    def compare(self, groups: Sequence[Sequence[Scored]]) -> list[Advantage]:
        samples = [scored for group in groups for scored in group]
        values = [value for group in groups for value in self._sums(group)]
        if self.settings.whiten and values:
            values = normalised(values, WHITENING_EPSILON)
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
