"""Exact policy gradients for any policy whose turns are texts of decisions, without torch.

The adapter is a file of weights. The loss is the clipped one, with a KL penalty towards the weights that training
starts from.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from agentfw import Learner, Turn
from agentfw.errors import UsageError
from agentfw.learner import Batch, Update

from .decision import Decision, read_decisions

_FIRST, _SECOND, _EPSILON = 0.9, 0.999, 1e-8


class Trainable(Protocol):
    """Settings of a linear policy and of its training."""

    @property
    def learning_rate(self) -> float: ...

    def start(self) -> dict[str, float]:
        """The weights that training starts from."""


class LinearLearner(Learner):
    """Takes one Adam step per update."""

    def __init__(self, settings: Trainable) -> None:
        self.settings = settings
        self.reference = self.settings.start()
        self.weights = dict(self.reference)
        self._steps = 0
        self._first = dict.fromkeys(self.weights, 0.0)
        self._second = dict.fromkeys(self.weights, 0.0)

    def update(self, batch: Batch) -> Update:
        if batch.loss.name != "clipped":
            raise UsageError(f"a linear policy can't learn by the loss {batch.loss.name}", fix="--optimizer parpo")
        advantages = {(one.episode, one.turn): one.value for one in batch.advantages}
        total = dict.fromkeys(self.weights, 0.0)
        for episode in batch.episodes:
            for turn in episode.turns:
                value = advantages.get((episode.id, turn.index))
                if value is not None:
                    self._add(total, turn, value, batch)
        self._step({name: value / max(1, len(batch.episodes)) for name, value in total.items()})
        batch.folder.mkdir(parents=True, exist_ok=True)
        path = batch.folder / "weights.json"
        path.write_text(json.dumps(self.weights), "utf-8")
        return Update(f"linear-{self._steps}", path, dict(self.weights))

    def start(self, folder: Path) -> Update | None:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "weights.json"
        path.write_text(json.dumps(self.reference), "utf-8")
        return Update("linear-0", path)

    def state(self) -> dict[str, Any]:
        return {"steps": self._steps, "weights": self.weights, "first": self._first, "second": self._second}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._steps = int(state["steps"])
        self.weights, self._first, self._second = (dict(state[name]) for name in ("weights", "first", "second"))

    # Helpers

    def _add(self, total: dict[str, float], turn: Turn, advantage: float, batch: Batch) -> None:
        """Add the gradient of one turn's objective."""
        loss = batch.loss
        for decision, before in zip(read_decisions(turn.text), turn.logprobs, strict=False):
            ratio = math.exp(decision.logprob(self.weights) - before)
            low, high = 1 - loss.clip_low, 1 + loss.clip_high
            clipped = (ratio > high and advantage > 0) or (ratio < low and advantage < 0)
            pulls = {} if clipped else _scaled(decision, self.weights, ratio * advantage)
            if loss.kl:
                for name, value in decision.divergence_gradient(self.weights, self.reference).items():
                    pulls[name] = pulls.get(name, 0.0) - loss.kl * value
            for name, value in pulls.items():
                total[name] += value

    def _step(self, gradient: Mapping[str, float]) -> None:
        self._steps += 1
        for name, value in gradient.items():
            self._first[name] = _FIRST * self._first[name] + (1 - _FIRST) * value
            self._second[name] = _SECOND * self._second[name] + (1 - _SECOND) * value * value
            mean = self._first[name] / (1 - _FIRST**self._steps)
            spread = math.sqrt(self._second[name] / (1 - _SECOND**self._steps))
            self.weights[name] += self.settings.learning_rate * mean / (spread + _EPSILON)


def _scaled(decision: Decision, weights: Mapping[str, float], factor: float) -> dict[str, float]:
    return {name: factor * value for name, value in decision.gradient(weights).items()}
