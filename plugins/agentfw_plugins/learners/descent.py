"""Gradient descent on lessons: pieces of a batch go through the network and back, then the optimizer takes a step.

A minibatch's loss doesn't depend on how it is cut into pieces. The weight of each token is known before anything is
computed, so pieces are computed one after the other, each freed before the next, and their gradients add up. The
weights are those of the whole batch, times the number of minibatches: a token counts the same whichever minibatch it
is in.
"""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from operator import attrgetter
from typing import Any, Literal

import numpy
import torch
from numpy.typing import NDArray
from safetensors.torch import load, save

from agentfw.boundary.gate import needing
from agentfw.errors import AgentfwError
from agentfw.optimizer import Loss
from agentfw.seeds import Seeds

from ..models.sharding import part_like, whole
from .group import Ranks, join, leave, meeting
from .lessons import Lesson, lesson_from
from .losses import Figures, Terms, TokenLoss, loss_of, made, weights
from .network import Network, Which
from .settings import TrainableSettings
from .token_tree import Forest, Packed, TurnTokens


@dataclass(slots=True)
class Piece:
    """The tokens, and what is known of them besides the current logprobs."""

    packed: Packed
    temperature: float
    advantages: torch.Tensor
    weights: torch.Tensor
    turns: torch.Tensor
    lessons: tuple[int, ...]  # the place of each turn among the lessons that were cut into pieces together
    sampled: torch.Tensor | None
    teacher: torch.Tensor | None
    before: torch.Tensor | None = None
    base: torch.Tensor | None = None
    baseline: torch.Tensor | None = None
    of_episode: torch.Tensor | None = None


@dataclass
class Descent:
    """A network, its optimizer, and the number of steps taken so far."""

    network: Network
    optimizer: torch.optim.Optimizer
    settings: TrainableSettings
    learning_rate: float
    steps: int = 0
    figures: Figures = field(default_factory=Figures)
    tell: Callable[[int, int], object] = lambda done, of: None  # how many pieces went back through, and of how many
    _done: int = 0
    _planned: int = 0

    def learn(self, minibatches: Sequence[Sequence[Lesson]], loss: Loss, rounds: int) -> dict[str, float]:
        """Go through the minibatches `rounds` times, with a step for each that teaches anything; returns figures."""
        self.figures, kind = Figures(), made(loss)
        if kind.teaches_itself:
            minibatches = [self._taught(minibatch, kind) for minibatch in minibatches]
        prepared = self._prepared(minibatches, loss)
        lessons, pieces = list(chain.from_iterable(minibatches)), list(chain.from_iterable(prepared))
        # With a single step the logprobs before it are those that are computed for it anyway, and every ratio is 1.
        single = rounds * sum(map(bool, prepared)) <= 1
        if loss.sampled and not single:
            for piece, before in zip(pieces, self._logprobs(pieces, "trained"), strict=True):
                piece.before = before
        others = [
            self._pieces([(place, other, 1.0) for place, other in enumerate(kind.compared_with(minibatch))], 1.0)
            for minibatch in minibatches
        ]
        based = [*(pieces if loss.kl or kind.needs_reference else ()), *chain.from_iterable(others)]
        for piece, base in zip(based, self._logprobs(based, self.settings.reference), strict=True):
            piece.base = base
        steps = [step for step in zip(minibatches, prepared, others, strict=True) if step[1]]
        self._done, self._planned = 0, rounds * sum(len(minibatch) for _, minibatch, _ in steps)
        gradients = [self._step(*step, kind) for _ in range(rounds) for step in steps]
        taught = [lesson.tokens for lesson in lessons if _teaches(lesson, loss)]
        trained = sum(len(tokens.sampled) for tokens in taught)
        figures = self.figures.means(len(gradients))
        if loss.sampled:
            figures["on_policy"] = float(single)
        return figures | {
            "gradient_norm": sum(gradients) / max(1, len(gradients)),
            "steps": len(gradients),
            "learning_rate": self._rate(max(0, self.steps - 1)),
            "tokens_trained": trained,
            "tokens_masked": sum(len(lesson.tokens.sampled) for lesson in lessons) - trained,
            "tokens_computed": sum(piece.packed.computed for some in (*prepared, *others) for piece in some),
            "tokens_unique": sum(
                Forest([lesson.tokens for lesson in minibatch if _teaches(lesson, loss)]).unique
                for minibatch in minibatches
            ),
            "tokens_plain": sum(len(tokens.prompt) + len(tokens.sampled) - 1 for tokens in taught),
        }

    def _prepared(self, minibatches: Sequence[Sequence[Lesson]], loss: Loss) -> list[list[Piece]]:
        """The pieces of each minibatch. Lessons that teach nothing count in the loss's mean, and aren't computed."""
        lessons = list(chain.from_iterable(minibatches))
        lengths = [len(lesson.tokens.sampled) for lesson in lessons]
        counts = iter(weights(loss, lengths, [lesson.episode for lesson in lessons]))
        prepared: list[list[Piece]] = []
        for minibatch in minibatches:
            by_temperature: dict[float, list[tuple[int, Lesson, float]]] = defaultdict(list)
            for place, lesson in enumerate(minibatch):
                count = next(counts) * len(minibatches)
                if _teaches(lesson, loss):
                    by_temperature[lesson.temperature].append((place, lesson, count))
            parts = sorted(by_temperature.items())
            prepared.append([piece for temperature, taught in parts for piece in self._pieces(taught, temperature)])
        return prepared

    def _pieces(self, taught: Sequence[tuple[int, Lesson, float]], temperature: float) -> list[Piece]:
        """The pieces of lessons with their places and weights, all of them at one temperature."""
        advantages = numpy.array([lesson.advantage for _, lesson, _ in taught], dtype=numpy.float32)
        each = numpy.array([count for _, _, count in taught], dtype=numpy.float32)
        pieces: list[Piece] = []
        for packed in self.network.pack([lesson.tokens for _, lesson, _ in taught]):
            order = [taught[turn][1] for turn in dict.fromkeys(packed.turn.tolist())]
            numbers, turns = numpy.unique(packed.turn, return_inverse=True)
            pieces.append(
                Piece(
                    packed,
                    temperature,
                    self._tensor(advantages[packed.turn]),
                    self._tensor(each[packed.turn]),
                    self._tensor(turns),
                    tuple(taught[number][0] for number in numbers.tolist()),
                    self._known([(lesson.sampler, lesson) for lesson in order]),
                    self._known([(lesson.teacher, lesson) for lesson in order]),
                )
            )
        return pieces

    def _known(self, given: Sequence[tuple[Sequence[float], Lesson]]) -> torch.Tensor | None:
        """What was given with the tokens of these lessons; NaN where nothing was. None if that is everywhere."""
        values = [value for some, lesson in given for value in some or [math.nan] * len(lesson.tokens.sampled)]
        found = numpy.array(values, dtype=numpy.float32)
        return self._tensor(found) if numpy.isfinite(found).any() else None

    def _taught(self, lessons: Sequence[Lesson], kind: TokenLoss) -> list[Lesson]:
        """The lessons with the logprobs that the model gives their tokens when it is shown the hint."""
        turns = [TurnTokens(lesson.hinted, lesson.tokens.sampled) for lesson in lessons]
        of: Which = "trained" if kind.teaches_itself == "moving" else self.settings.reference
        values = iter(self.network.score(turns, of))
        return [
            replace(lesson, teacher=tuple(islice(values, len(turn.sampled))))
            for lesson, turn in zip(lessons, turns, strict=True)
        ]

    def _step(
        self, lessons: Sequence[Lesson], pieces: Sequence[Piece], others: Sequence[Piece], kind: TokenLoss
    ) -> float:
        """Take one step, and return the norm of its gradient. Without any gradient, momentum takes none either."""
        parameters = self.network.parameters()
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate(self.steps)
        self.optimizer.zero_grad()
        if kind.loss.ratio == "episode":
            self._compare_episodes(lessons, [piece for piece in pieces if piece.before is not None])
        if kind.has_baselines:
            ratios: dict[int, float] = {}
            for each, logprobs in zip(others, self._logprobs(others, "trained"), strict=True):
                ratios.update(zip(each.lessons, _log_ratios(each, logprobs, each.base), strict=True))
            baselines = numpy.array(kind.baselines(lessons, [ratios[place] for place in sorted(ratios)]))
            for piece in pieces:
                piece.baseline = self._tensor(baselines[list(piece.lessons)].astype(numpy.float32))
        ranks, mine = self.network.ranks, Figures()
        for number, piece in ranks.share(pieces, _cost):
            logprobs, entropy = self.network.logprobs(piece.packed, temperature=piece.temperature)
            if number < 0:  # a piece that adds nothing, because other processes wait in each layer for this one
                (logprobs.sum() * 0.0).backward()
            else:
                mine.add("entropy", entropy)
                before = logprobs.detach() if piece.before is None else piece.before
                known = piece.advantages, piece.weights, piece.turns, piece.sampled, piece.base, piece.baseline
                terms = Terms(logprobs, before, *known, piece.of_episode, piece.teacher)
                loss_of(kind.loss, terms, mine).backward()
                self._done += 1
            self.tell(self._done, self._planned)
        ranks.add_up(parameters)
        for figures in ranks.gather(json.dumps(asdict(mine)).encode()):
            self.figures.include(Figures(**json.loads(figures)))
        length = float(whole(torch.nn.utils.clip_grad_norm_(parameters, self.settings.gradient_clip)))
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

    def _compare_episodes(self, lessons: Sequence[Lesson], pieces: Sequence[Piece]) -> None:
        """Tell each piece how far the episodes of its turns have gone since before the batch, wherever their turns are.

        This computes every token once more for each step but a batch's only one.
        """
        sums: dict[str, float] = defaultdict(float)
        counts: dict[str, int] = defaultdict(int)
        for piece, logprobs in zip(pieces, self._logprobs(pieces, "trained"), strict=True):
            for place, value in zip(piece.lessons, _log_ratios(piece, logprobs, piece.before), strict=True):
                sums[lessons[place].episode] += value
                counts[lessons[place].episode] += len(lessons[place].tokens.sampled)
        for piece in pieces:
            names = [lessons[place].episode for place in piece.lessons]
            means = numpy.array([sums[name] / counts[name] for name in names], dtype=numpy.float32)
            piece.of_episode = self._tensor(means)

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
        found: dict[int, torch.Tensor] = {}
        with torch.no_grad():
            for number, piece in self.network.ranks.share(pieces, _cost):
                logprobs, _ = self.network.logprobs(piece.packed, of=of, temperature=piece.temperature)
                if number >= 0:
                    found[number] = logprobs
        mine = save({str(number): logprobs.cpu().contiguous() for number, logprobs in found.items()})
        for others in self.network.ranks.gather(mine):
            found |= {int(number): logprobs.to(self.network.device) for number, logprobs in load(others).items()}
        return [found[number] for number in range(len(pieces))]

    def _tensor(self, values: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(values).to(self.network.device)


def _teaches(lesson: Lesson, loss: Loss) -> bool:
    """Whether it has a gradient. Without an advantage only a KL penalty has one."""
    return lesson.advantage != 0 or loss.kl > 0


def _log_ratios(piece: Piece, logprobs: torch.Tensor, others: torch.Tensor | None) -> list[float]:
    """The log ratio of each turn of a piece to what its tokens had by another policy."""
    assert others is not None
    apart = (logprobs - others).double()
    sums: list[float] = apart.new_zeros(int(piece.turns.max()) + 1).index_add(0, piece.turns, apart).tolist()
    return sums


_cost = attrgetter("packed.computed")


def peak_memory(device: str) -> float:
    """The peak memory of this process so far in MiB, of the GPU or of the machine."""
    if device != "cpu":
        return float(torch.cuda.max_memory_allocated()) / 2**20
    import resource

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most / (2**20 if sys.platform == "darwin" else 2**10)


def make_optimizer(network: Network) -> torch.optim.Optimizer:
    settings = network.settings
    if settings.optimizer == "adamw":
        return torch.optim.AdamW(network.parameters(), weight_decay=settings.weight_decay)
    with needing("AdamW in 8 bits", "train"):
        from bitsandbytes.optim import AdamW8bit
    return AdamW8bit(network.parameters(), weight_decay=settings.weight_decay)


def optimizer_state(optimizer: torch.optim.Optimizer) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Copies of the tensors of an optimizer's state, and the rest as JSON. All processes must ask together."""
    tensors: dict[str, torch.Tensor] = {}
    plain: dict[str, Any] = {}
    for index, parameter in enumerate(_parameters(optimizer)):
        for key, value in optimizer.state[parameter].items():
            if hasattr(value, "detach"):
                # Parameters may share a tensor (the maps of 8-bit AdamW), but a file needs separate copies.
                tensors[f"{index}.{key}"] = whole(value.detach()).cpu().clone().contiguous()
            else:
                plain[f"{index}.{key}"] = value
    return tensors, plain


def restore_optimizer(
    optimizer: torch.optim.Optimizer, tensors: Mapping[str, torch.Tensor], plain: Mapping[str, Any]
) -> None:
    """Take over a state. Its tensors go where their parameters are."""
    parameters = _parameters(optimizer)
    optimizer.state.clear()
    for name, value in {**tensors, **plain}.items():
        index, _, key = name.partition(".")
        parameter = parameters[int(index)]
        # AdamW keeps its step count on the CPU, wherever the parameter is.
        if key != "step" and hasattr(value, "detach"):
            value = part_like(value, parameter).to(parameter.device)
        optimizer.state[parameter][key] = value


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


class LearnerWorker:
    """One of the processes beside the learner's own. It does what the learner does, at the same time."""

    def __init__(self, settings: dict[str, Any], learning_rate: float, rank: int) -> None:
        self._settings, self._learning_rate = TrainableSettings.model_validate(settings), learning_rate
        self._ranks = Ranks(rank, self._settings.workers, self._settings.sharded)
        self._descent: Descent

    async def join(self, host: str, port: int) -> None:
        join(self._ranks, meeting(self._settings, host, port), self._settings.worker_patience)

    async def open(self, start: bytes | None) -> None:
        """Load the model. `start` are the weights that training starts from, if it isn't those of the base alone."""
        with _leaving():
            network = Network(self._settings, Seeds(self._settings.seed).child("learner"), ranks=self._ranks)
            if start is not None:
                network.take(load(start), as_start=True)
            self._descent = Descent(network, make_optimizer(network), self._settings, self._learning_rate)

    async def go_on(self, weights: bytes, tensors: bytes, plain: dict[str, Any], steps: int) -> None:
        with _leaving():
            self._descent.network.take(load(weights))
            restore_optimizer(self._descent.optimizer, load(tensors), plain)
            self._descent.steps = steps

    async def learn(self, minibatches: list[list[dict[str, Any]]], loss: dict[str, Any], rounds: int) -> None:
        with _leaving():
            found = [list(map(lesson_from, minibatch)) for minibatch in minibatches]
            self._descent.learn(found, Loss(**loss), rounds)

    async def score(self, turns: list[list[list[int]]], of: Which, nudge: int) -> None:
        with _leaving():
            self._descent.network.score([TurnTokens(*turn) for turn in turns], of, nudge)

    async def weights(self, of: Literal["trained", "start"], with_optimizer: bool) -> None:
        """Give this process's part of what is saved."""
        with _leaving():
            self._descent.network.weights(of)
            if with_optimizer:
                optimizer_state(self._descent.optimizer)


@contextmanager
def _leaving() -> Iterator[None]:
    """After an error nobody waits for this process."""
    try:
        yield
    except BaseException:
        leave()
        raise
