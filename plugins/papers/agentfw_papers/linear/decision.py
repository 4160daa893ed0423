"""A choice among options with features: a softmax over weighted sums, and its exact gradient.

>>> decision = Decision(("fame",), ((0.0,), (1.0,)), 1)
>>> decision.probabilities({"fame": 0.0})
[0.5, 0.5]
>>> decision.gradient({"fame": 0.0})
{'fame': 0.5}

`Choices` is what a policy of a few weights decides in one turn, and the answer that has these decisions in it:

    choices = Choices(self.weights, request)
    place = choices.decide(("fame",), ((0.0,), (1.0,)))
    return choices.generation(calls, version="start")
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from agentfw import Generation, Intervention, Request
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


class Choices:
    """Draws each decision from its probabilities, or takes the likeliest option at temperature 0."""

    def __init__(self, weights: Weights, request: Request) -> None:
        sampling = request.sampling
        seed = request.task.seed if sampling.seed is None else sampling.seed
        self._weights, self._messages = weights, len(request.messages)
        self._generator = None if sampling.temperature == 0 else Random(f"{seed} {self._messages}")
        self._made: list[Decision] = []

    def decide(self, names: tuple[str, ...], options: tuple[tuple[float, ...], ...]) -> int:
        """The place of the option that is chosen. An option has a value for each of the names."""
        shares = Decision(names, options, 0).probabilities(self._weights)
        if self._generator is None:
            choice = shares.index(max(shares))
        else:
            (choice,) = self._generator.choices(range(len(shares)), shares)
        self._made.append(Decision(names, options, choice))
        return choice

    def flip(self, name: str) -> bool:
        """Decide whether to do something, whose log-odds are the weight of this name."""
        return bool(self.decide((name,), ((0.0,), (1.0,))))

    def generation(self, calls: Iterable[Intervention], version: str) -> Generation:
        """An answer with these calls, which `LinearLearner` can learn from."""
        # A turn in which nothing was decided is a choice of one option, so that every turn has a token.
        made = self._made or [Decision((), ((),), 0)]
        return Generation(
            text=write_decisions(made),
            calls=tuple(calls),
            said="",  # decisions are for the learner
            count=len(made),
            prompt_ids=tuple(range(self._messages)),  # there is no vocabulary, so each message is a token
            token_ids=tuple(one.choice for one in made),
            logprobs=tuple(one.logprob(self._weights) for one in made),
            version=version,
            temperature=0.0 if self._generator is None else 1.0,
        )
