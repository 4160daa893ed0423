"""Gradient descent on lessons: pieces of a batch go through the network and back, then the optimizer takes a step.

A minibatch's loss doesn't depend on how it is cut into pieces. The weight of each token is known before anything is
computed, so pieces are computed one after the other, each freed before the next, and their gradients add up. The
weights are those of the whole batch, times the number of minibatches: a token counts the same whichever minibatch it
is in.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch
from numpy.typing import NDArray

from agentfw.errors import AgentfwError
from agentfw.optimizer import Loss

from .lessons import Lesson
from .losses import Figures, TokenLoss, made, weights
from .network import Network, Which
from .settings import TrainableSettings
from .team import Piece, Team, backward, logprobs_of
from .token_tree import unique_tokens


@dataclass
class Descent:
    """A network, its optimizer, and the number of steps taken so far."""

    network: Network
    optimizer: torch.optim.Optimizer
    settings: TrainableSettings
    learning_rate: float
    team: Team | None = None
    """The processes that compute the pieces. None: only this one."""
    steps: int = 0
    figures: Figures = field(default_factory=Figures)
    tell: Callable[[int, int], object] = lambda done, of: None
    """Called with the number of pieces that went back through the network, and of how many."""
    _done: tuple[int, int] = (0, 0)

    def learn(
        self,
        minibatches: Sequence[Sequence[Lesson]],
        loss: Loss,
        rounds: int,
        *,
        replicas: Sequence[Sequence[Sequence[Lesson]]] = (),
    ) -> dict[str, float]:
        """Go through the minibatches `rounds` times, with a step for each that teaches anything; returns figures.

        `replicas` are the same lessons as minibatches of other orders. The gradient of a step is then the mean of those
        of its minibatch in each order.
        """
        self.figures = Figures()
        orders = [minibatches, *replicas]
        prepared = [
            [piece for part in parts for piece in part]
            for parts in zip(*(self._ordered(order, loss, len(orders)) for order in orders), strict=True)
        ]
        lessons = [lesson for minibatch in minibatches for lesson in minibatch]
        pieces = [piece for minibatch in prepared for piece in minibatch]
        # With a single step the logprobs before it are those that are computed for it anyway, and every ratio is 1.
        single = rounds * sum(map(bool, prepared)) <= 1
        if self.team is not None:
            self.team.begin(self.network)
            self.team.put_weights()
        if loss.sampled and not single:
            for piece, before in zip(pieces, self._logprobs(pieces, "trained"), strict=True):
                piece.before = before
        kind = made(loss)
        others = [
            self._pieces([(other, 1.0) for other in kind.compared_with([each for part in parts for each in part])], 1.0)
            for parts in zip(*orders, strict=True)
        ]
        if loss.kl or kind.needs_reference:
            pieces += [piece for some in others for piece in some]
            for piece, base in zip(pieces, self._logprobs(pieces, self.settings.reference), strict=True):
                piece.base = base
        steps = [(minibatch, some) for minibatch, some in zip(prepared, others, strict=True) if minibatch]
        self._done = 0, rounds * sum(len(minibatch) for minibatch, _ in steps)
        gradients = [self._step(*step, kind) for _ in range(rounds) for step in steps]
        taught = [lesson.tokens for lesson in lessons if _teaches(lesson, loss)]
        trained = sum(len(tokens.sampled) for tokens in taught)
        figures = self.figures.means(len(gradients))
        if loss.sampled:
            figures["on_policy"] = float(single)
        if self.team is not None:
            figures |= {"workers_used": self.team.used, "workers_lost": self.team.lost}
        return figures | {
            "gradient_norm": sum(gradients) / max(1, len(gradients)),
            "steps": len(gradients),
            "learning_rate": self._rate(max(0, self.steps - 1)),
            "tokens_trained": trained,
            "tokens_masked": sum(len(lesson.tokens.sampled) for lesson in lessons) - trained,
            "tokens_computed": sum(piece.packed.computed for piece in pieces),
            "tokens_unique": sum(
                unique_tokens([lesson.tokens for lesson in minibatch if _teaches(lesson, loss)])
                for order in orders
                for minibatch in order
            ),
            "tokens_plain": sum(len(tokens.prompt) + len(tokens.sampled) - 1 for tokens in taught),
        }

    def _ordered(self, minibatches: Sequence[Sequence[Lesson]], loss: Loss, orders: int) -> list[list[Piece]]:
        """The pieces of each minibatch, weighted as one of so many orders."""
        lessons = [lesson for minibatch in minibatches for lesson in minibatch]
        lengths = [len(lesson.tokens.sampled) for lesson in lessons]
        counts = iter(weights(loss, lengths, [lesson.episode for lesson in lessons]))
        return [
            self._prepare([(lesson, next(counts) * len(minibatches) / orders) for lesson in minibatch], loss)
            for minibatch in minibatches
        ]

    def _prepare(self, lessons: Sequence[tuple[Lesson, float]], loss: Loss) -> list[Piece]:
        """The pieces of one minibatch. Lessons that teach nothing count in the loss's mean, and aren't computed."""
        taught = [(lesson, count) for lesson, count in lessons if _teaches(lesson, loss)]
        temperatures = sorted({lesson.temperature for lesson, _ in taught})
        return [
            piece
            for temperature in temperatures
            for piece in self._pieces([each for each in taught if each[0].temperature == temperature], temperature)
        ]

    def _pieces(self, taught: Sequence[tuple[Lesson, float]], temperature: float) -> list[Piece]:
        """The pieces of lessons with their weights, all of them at one temperature."""
        advantages = numpy.array([lesson.advantage for lesson, _ in taught], dtype=numpy.float32)
        each = numpy.array([count for _, count in taught], dtype=numpy.float32)
        pieces: list[Piece] = []
        for packed in self.network.pack([lesson.tokens for lesson, _ in taught]):
            order = list(dict.fromkeys(packed.turn.tolist()))
            sampled = numpy.array([value for turn in order for value in _sampler(taught[turn][0])], dtype=numpy.float32)
            pieces.append(
                Piece(
                    packed,
                    temperature,
                    self._tensor(advantages[packed.turn]),
                    self._tensor(each[packed.turn]),
                    self._tensor(numpy.unique(packed.turn, return_inverse=True)[1]),
                    self._tensor(numpy.array(sampled, dtype=numpy.float32))
                    if any(map(math.isfinite, sampled))
                    else None,
                )
            )
        return pieces

    def _step(self, pieces: Sequence[Piece], others: Sequence[Piece], kind: TokenLoss) -> float:
        """Take one step, and return the norm of its gradient. Without any gradient, momentum takes none either."""
        parameters = self.network.parameters()
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate(self.steps)
        self.optimizer.zero_grad()
        if self.team is not None:
            self.team.put_weights()
        if kind.needs_reference:
            now = self._logprobs(others, "trained")
            ratios = [
                ratio for each, logprobs in zip(others, now, strict=True) for ratio in _log_ratios(each, logprobs)
            ]
            baseline = torch.full((1,), kind.baseline(ratios), device=self.network.device)
            for piece in pieces:
                piece.baseline = baseline
        if self.team is not None:
            self.team.gradients(pieces, kind.loss, self.figures)
            self._tell(len(pieces))
        else:
            for piece in pieces:
                backward(self.network, piece, kind.loss, self.figures)
                self._tell(1)
        length = float(torch.nn.utils.clip_grad_norm_(parameters, self.settings.gradient_clip))
        if not math.isfinite(length):
            raise AgentfwError(
                f"the gradient of step {self.steps + 1} is {length}, so the step was not taken",
                fix="lower learner.learning_rate, or resume from an earlier version: these weights may be broken",
            )
        if length:
            self.optimizer.step()
            self.network.stepped()
            self.steps += 1
        return length

    def _tell(self, pieces: int) -> None:
        done, of = self._done
        self._done = done + pieces, of
        self.tell(*self._done)

    def _rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0: a linear warm-up, then half a cosine down to a tenth.

        It doesn't fall to zero: a training that goes on for longer than planned would silently stop learning.
        """
        warmup, decay = self.settings.warmup, self.settings.decay
        if step < warmup:
            return self.learning_rate * (step + 1) / warmup
        if decay:
            done = min(1.0, (step - warmup) / (decay - warmup))
            return self.learning_rate * (0.55 + 0.45 * math.cos(math.pi * done))
        return self.learning_rate

    def _logprobs(self, pieces: Sequence[Piece], of: Which) -> list[torch.Tensor]:
        if self.team is not None:
            return self.team.logprobs(pieces, of)
        return [logprobs_of(self.network, piece, of) for piece in pieces]

    def _tensor(self, values: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(values).to(self.network.device)


def _teaches(lesson: Lesson, loss: Loss) -> bool:
    """Whether it has a gradient. Without an advantage only a KL penalty has one."""
    return lesson.advantage != 0 or loss.kl > 0


def _log_ratios(piece: Piece, logprobs: torch.Tensor) -> list[float]:
    """The log ratio of each turn of a piece to the reference."""
    assert piece.base is not None
    apart = (logprobs - piece.base).double()
    sums: list[float] = apart.new_zeros(int(piece.turns.max()) + 1).index_add(0, piece.turns, apart).tolist()
    return sums


def _sampler(lesson: Lesson) -> Sequence[float]:
    return lesson.sampler or [math.nan] * len(lesson.tokens.sampled)


def peak_memory(device: str) -> float:
    """The peak memory of this process so far in MiB, of the GPU or of the machine."""
    if device == "cuda":
        return float(torch.cuda.max_memory_allocated()) / 2**20
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**20 if sys.platform == "darwin" else 2**10)
