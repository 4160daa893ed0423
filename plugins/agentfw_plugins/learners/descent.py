"""The training loop: splits a batch into pieces, computes their gradients, and takes optimizer steps.

The loss of a minibatch doesn't depend on how it is split into pieces. The weight of each token is known beforehand, so
the pieces are computed one after the other, and their gradients add up.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch
from numpy.typing import NDArray

from agentfw.errors import AgentfwError
from agentfw.optimizer import Loss

from .lessons import Lesson
from .losses import Figures, Terms, loss_of, weights
from .network import Network
from .settings import TrainableSettings
from .token_tree import Packed, unique_tokens

__all__ = ["Descent", "peak_memory"]


@dataclass(slots=True)
class Piece:
    """A piece to compute at once, with the inputs of its loss besides the current logprobs."""

    packed: Packed
    advantages: torch.Tensor
    weights: torch.Tensor
    turns: torch.Tensor
    sampled: torch.Tensor | None
    before: torch.Tensor | None = None
    base: torch.Tensor | None = None


@dataclass
class Descent:
    """The state of the training: a network, its optimizer, and the number of steps."""

    network: Network
    optimizer: torch.optim.Optimizer
    settings: TrainableSettings
    learning_rate: float
    steps: int = 0
    figures: Figures = field(default_factory=Figures)

    def learn(self, minibatches: Sequence[Sequence[Lesson]], loss: Loss, rounds: int) -> dict[str, float]:
        """Train on the minibatches for `rounds` epochs, one step per minibatch with gradients. Returns the metrics."""
        self.figures = Figures()
        prepared = [self._prepare(lessons, loss) for lessons in minibatches]
        pieces = [piece for minibatch in prepared for piece in minibatch]
        with torch.no_grad():
            for piece in pieces:
                # With a single step, the logprobs before it are computed in the step anyway.
                if loss.name == "clipped" and rounds * len(prepared) > 1:
                    piece.before = self.network.logprobs(piece.packed)[0]
                if loss.kl:
                    piece.base = self.network.logprobs(piece.packed, base=True)[0]
        gradients = [self._step(minibatch, loss) for _ in range(rounds) for minibatch in prepared if minibatch]
        lessons = [lesson for minibatch in minibatches for lesson in minibatch]
        taught = [lesson.tokens for lesson in lessons if _teaches(lesson, loss)]
        trained = sum(len(tokens.sampled) for tokens in taught)
        return self.figures.means(len(gradients)) | {
            "gradient_norm": sum(gradients) / max(1, len(gradients)),
            "steps": len(gradients),
            "learning_rate": self._rate(max(0, self.steps - 1)),
            "tokens_trained": trained,
            "tokens_masked": sum(len(lesson.tokens.sampled) for lesson in lessons) - trained,
            "tokens_computed": sum(piece.packed.computed for piece in pieces),
            "tokens_unique": sum(
                unique_tokens([lesson.tokens for lesson in minibatch if _teaches(lesson, loss)])
                for minibatch in minibatches
            ),
            "tokens_plain": sum(len(tokens.prompt) + len(tokens.sampled) - 1 for tokens in taught),
        }

    def _prepare(self, lessons: Sequence[Lesson], loss: Loss) -> list[Piece]:
        """The pieces of one minibatch. Lessons without a gradient count in its means but aren't computed."""
        counts = weights(loss, [len(lesson.tokens.sampled) for lesson in lessons])
        taught = [(lesson, count) for lesson, count in zip(lessons, counts, strict=True) if _teaches(lesson, loss)]
        advantages = numpy.array([lesson.advantage for lesson, _ in taught], dtype=numpy.float32)
        each = numpy.array([count for _, count in taught], dtype=numpy.float32)
        pieces: list[Piece] = []
        for packed in self.network.pack([lesson.tokens for lesson, _ in taught]) if taught else ():
            order = list(dict.fromkeys(packed.turn.tolist()))
            sampled = numpy.array([value for turn in order for value in _sampler(taught[turn][0])], dtype=numpy.float32)
            pieces.append(
                Piece(
                    packed,
                    self._tensor(advantages[packed.turn]),
                    self._tensor(each[packed.turn]),
                    self._tensor(numpy.unique(packed.turn, return_inverse=True)[1]),
                    self._tensor(numpy.array(sampled, dtype=numpy.float32))
                    if any(map(math.isfinite, sampled))
                    else None,
                )
            )
        return pieces

    def _step(self, pieces: Sequence[Piece], loss: Loss) -> float:
        """Take one step. Returns the gradient norm."""
        parameters = self.network.parameters()
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate(self.steps)
        self.optimizer.zero_grad()
        for piece in pieces:
            logprobs, entropy = self.network.logprobs(piece.packed)
            self.figures.add("entropy", entropy)
            before = logprobs.detach() if piece.before is None else piece.before
            terms = Terms(logprobs, before, piece.advantages, piece.weights, piece.turns, piece.sampled, piece.base)
            loss_of(loss, terms, self.figures).backward()
        length = float(torch.nn.utils.clip_grad_norm_(parameters, self.settings.gradient_clip))
        if not math.isfinite(length):
            raise AgentfwError(
                f"the gradient of step {self.steps + 1} is {length}, so the step was skipped",
                fix="lower learner.learning_rate, or go back to an earlier version: the weights may be broken",
            )
        self.optimizer.step()
        self.steps += 1
        return length

    def _rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0: linear warm-up, then half a cosine down to a tenth.

        It doesn't fall to zero. A training that is extended would otherwise silently stop learning.
        """
        warmup, decay = self.settings.warmup, self.settings.decay
        if step < warmup:
            return self.learning_rate * (step + 1) / warmup
        if decay:
            done = min(1.0, (step - warmup) / (decay - warmup))
            return self.learning_rate * (0.55 + 0.45 * math.cos(math.pi * done))
        return self.learning_rate

    def _tensor(self, values: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(values).to(self.network.device)


def _teaches(lesson: Lesson, loss: Loss) -> bool:
    """Whether the lesson has a gradient: without an advantage, only through the KL penalty."""
    return lesson.advantage != 0 or loss.kl > 0


def _sampler(lesson: Lesson) -> Sequence[float]:
    return lesson.sampler or [math.nan] * len(lesson.tokens.sampled)


def peak_memory(device: str) -> float:
    """Peak memory of this process so far, in MiB, on the GPU or the machine."""
    if device == "cuda":
        return float(torch.cuda.max_memory_allocated()) / 2**20
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**20 if sys.platform == "darwin" else 2**10)
