"""How alike two training runs are: final values, shape of the curves, and both together (equations 39 to 42).

>>> agreement = run_agreement({"reward": [0.1, 0.2, 0.4]}, {"reward": [0.1, 0.3, 0.5]})
>>> round(agreement.final, 3), round(agreement.trajectory, 3), round(agreement.combined, 3)
(0.889, 0.982, 0.935)
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agentfw_rewardmodels import BadInputError


@dataclass(frozen=True, slots=True)
class MetricAgreement:
    """Agreement of two runs in one metric."""

    final: float
    """1 for equal final values, 0 for values of opposite sign (equation 39)."""
    trajectory: float | None
    """Pearson correlation over the steps that both runs have (equation 41). None if one of the curves is flat."""


@dataclass(frozen=True, slots=True)
class RunAgreement:
    """Agreement of two runs over all metrics."""

    metrics: Mapping[str, MetricAgreement]

    @property
    def final(self) -> float:
        return statistics.fmean(one.final for one in self.metrics.values())

    @property
    def trajectory(self) -> float | None:
        """Mean correlation of the metrics that have one."""
        known = [one.trajectory for one in self.metrics.values() if one.trajectory is not None]
        return statistics.fmean(known) if known else None

    @property
    def combined(self) -> float | None:
        """Mean of both (equation 42)."""
        return None if self.trajectory is None else (self.final + self.trajectory) / 2


def run_agreement(first: Mapping[str, Sequence[float]], second: Mapping[str, Sequence[float]]) -> RunAgreement:
    """Compare two runs by their metrics, each with one value for every step."""
    if first.keys() != second.keys() or not first:
        raise BadInputError(
            f"the runs have the metrics {sorted(first)} and {sorted(second)}", fix="give the same metrics of both runs"
        )
    for run in (first, second):
        for name, values in run.items():
            if not values or not all(math.isfinite(value) for value in values):
                raise BadInputError(
                    f'the metric "{name}" is empty or has a value that is no finite number',
                    fix="leave the metric out, or the steps at which it was not measured",
                )
    return RunAgreement({name: _agreement(first[name], second[name]) for name in first})


def _agreement(first: Sequence[float], second: Sequence[float]) -> MetricAgreement:
    scale = abs(first[-1]) + abs(second[-1])
    final = 1 - abs(first[-1] - second[-1]) / scale if scale else 1.0
    steps = min(len(first), len(second))
    try:
        return MetricAgreement(final, statistics.correlation(first[:steps], second[:steps]))
    except statistics.StatisticsError:  # a flat curve, or a single step
        return MetricAgreement(final, None)
