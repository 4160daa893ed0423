"""A choice among options with features: a softmax over weighted sums, and its exact gradient.

>>> decision = Decision(("fame",), ((0.0,), (1.0,)), 1)
>>> decision.probabilities({"fame": 0.0})
[0.5, 0.5]
>>> decision.gradient({"fame": 0.0})
{'fame': 0.5}
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentfw.errors import SettingsError

Weights = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Decision:
    """One choice among options."""

    names: tuple[str, ...]
    options: tuple[tuple[float, ...], ...]
    """The features of each option, in the order of the names."""
    choice: int

    def probabilities(self, weights: Weights) -> list[float]:
        values = [
            sum(weights[name] * value for name, value in zip(self.names, row, strict=True)) for row in self.options
        ]
        most = max(values)
        odds = [math.exp(value - most) for value in values]
        return [one / sum(odds) for one in odds]

    def logprob(self, weights: Weights) -> float:
        return math.log(self.probabilities(weights)[self.choice])

    def gradient(self, weights: Weights) -> dict[str, float]:
        """The gradient of the log probability of the choice."""
        mean = self._mean(self.probabilities(weights))
        return {name: self.options[self.choice][place] - mean[place] for place, name in enumerate(self.names)}

    def divergence_gradient(self, weights: Weights, reference: Weights) -> dict[str, float]:
        """The gradient of the KL divergence from the reference."""
        now, before = self.probabilities(weights), self.probabilities(reference)
        mean = self._mean(now)
        return {
            name: sum(
                share * (math.log(share) - math.log(old)) * (row[place] - mean[place])
                for share, old, row in zip(now, before, self.options, strict=True)
            )
            for place, name in enumerate(self.names)
        }

    def _mean(self, shares: list[float]) -> list[float]:
        return [
            sum(share * row[place] for share, row in zip(shares, self.options, strict=True))
            for place in range(len(self.names))
        ]


def write_decisions(decisions: Iterable[Decision]) -> str:
    """Decisions as the text of a turn, so that a learner finds them in the record."""
    return json.dumps([[one.names, one.options, one.choice] for one in decisions])


def read_decisions(text: str) -> list[Decision]:
    """The decisions in the text of a turn. A turn of another policy has none."""
    try:
        return [
            Decision(tuple(names), tuple(tuple(row) for row in options), choice)
            for names, options, choice in json.loads(text)
        ]
    except (ValueError, TypeError):
        return []


def read_weights(path: Path, names: Sequence[str]) -> dict[str, float]:
    """Read these weights from a file."""
    try:
        found = json.loads(path.read_text("utf-8"))
        return {name: float(found[name]) for name in names}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            f"policy.weights: can't read {path}: {error!r}", fix="pass the weights.json of a training"
        ) from None
