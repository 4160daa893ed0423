"""Losses on tokens: what each must say of itself, and `clipped`, the policy gradient of every relative optimizer.

A loss comes with its optimizer, also from a plugin: the optimizer names its class by path, and the learner makes it.
This module doesn't import torch, so an optimizer and its loss can stand in one file that is imported without it.

    class Unlikely(TokenLoss):
        def policy_loss(self, terms: Terms, figures: Figures) -> torch.Tensor:
            return (terms.weights * terms.advantages.abs() * terms.logprobs.exp()).sum()

    class Unlearning(Optimizer):
        def loss(self) -> Loss:
            return Loss("our_package.unlearning:Unlikely", sampled=False)

A term belongs to one sampled token of one turn. Turns that share a token (two samples that begin alike) each have a
term of their own on it, with their own advantage; in the backward pass the terms add up. The KL penalty of a `Loss` is
added to each: kl (q/p - log(q/p) - 1), with q the probability without adapter. It is never negative, and unbiased.

`clipped` is -w min(r A, clip(r) A), with r the ratio of the token's probability to what it was before the batch's first
step, and w an importance weight that corrects for a sampler that differs from the trainer: with
d = log(trainer) - log(sampler) before that step, w = min(e^d, cap) for each token, or for all tokens of a turn
min(e^(sum of d), cap) (truncated importance sampling: Ionides 2008; for samplers that round otherwise, Yao et al. 2025,
"Your efficient RL framework secretly brings you off-policy RL training"); 0 for a turn with |mean of d| > log(mask)
(masking by the geometric mean: Liu et al. 2025, "When speed kills stability"). TRL and verl correct for vLLM in the
same way. All its probabilities are at the temperature that the turn was sampled at. The first step of a batch needs no
earlier logprobs: r is 1 there, and only its gradient counts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from agentfw import Episode, Message, Turn
from agentfw.errors import UsageError
from agentfw.optimizer import Loss

if TYPE_CHECKING:
    import torch

    from .lessons import Lesson

__all__ = ["Clipped", "Figures", "Terms", "TokenLoss", "loss_of", "made", "weights"]

_FARTHEST = 20.0  # limit of a log ratio; e^20 is far beyond any cap, and no float overflows


@dataclass(frozen=True, slots=True)
class Terms:
    """What the loss of some tokens is made of; each tensor is [tokens]."""

    logprobs: torch.Tensor
    before: torch.Tensor
    """The trainer's own logprobs before this batch's first step, detached."""
    advantages: torch.Tensor
    weights: torch.Tensor
    """The weight of each token, see `weights`."""
    turns: torch.Tensor
    """Index of the turn of each token, from 0 without gaps."""
    sampled: torch.Tensor | None = None
    """The sampler's logprobs; NaN where it gave none."""
    base: torch.Tensor | None = None
    """Logprobs of the reference policy. Given if the loss needs a reference or has a KL penalty."""
    baseline: torch.Tensor | None = None
    """[turns]: what `baselines` gave for each turn, if the loss has baselines."""
    of_episode: torch.Tensor | None = None
    """[turns]: the mean log ratio of the tokens of each turn's episode, detached, where the ratio is an episode's and
    this isn't the batch's first step."""
    teacher: torch.Tensor | None = None
    """The teacher's logprobs of the same tokens. Given if the training has a teacher, or the loss shows a hint."""

    def by_turn(self, values: torch.Tensor) -> torch.Tensor:
        """[turns]: the sum of a value over the tokens of each turn."""
        return values.new_zeros(int(self.turns.max()) + 1).index_add(0, self.turns, values)


@dataclass(slots=True)
class Figures:
    """The figures of an update: means over its tokens, means over its steps, and maxima."""

    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    largest: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, values: torch.Tensor) -> None:
        """Add the values of some tokens."""
        self.sums[name] = self.sums.get(name, 0.0) + float(values.double().sum())
        self.counts[name] = self.counts.get(name, 0) + values.numel()

    def add_total(self, name: str, value: torch.Tensor) -> None:
        """Add the value of a part of a step. A step's value is the sum over its parts."""
        self.totals[name] = self.totals.get(name, 0.0) + float(value)

    def add_largest(self, name: str, values: torch.Tensor) -> None:
        if values.numel():
            self.largest[name] = max(self.largest.get(name, 0.0), float(values.max()))

    def include(self, others: Figures) -> None:
        """Add figures that were found elsewhere."""
        for name, count in others.counts.items():
            self.counts[name] = self.counts.get(name, 0) + count
        for mine, theirs in ((self.sums, others.sums), (self.totals, others.totals)):
            for name, value in theirs.items():
                mine[name] = mine.get(name, 0.0) + value
        for name, value in others.largest.items():
            self.largest[name] = max(self.largest.get(name, 0.0), value)

    def means(self, steps: int) -> dict[str, float]:
        return {
            **{name: total / max(1, steps) for name, total in self.totals.items()},
            **{name: total / max(1, self.counts[name]) for name, total in self.sums.items()},
            **self.largest,
        }


class TokenLoss:
    """Base class of losses. Only `policy_loss` must be implemented.

    A loss is made anew wherever a piece of a batch is computed, also in other processes: it must not keep anything.
    """

    needs_reference = False
    """Whether `Terms.base` must be given."""
    has_baselines = False
    """Whether `Terms.baseline` must be given."""
    teaches_itself: Literal["", "frozen", "moving"] = ""
    """Whether the model, shown what `hinted` says, is the teacher: as training started, or as it is at each update."""

    def __init__(self, loss: Loss) -> None:
        self.loss = loss

    def policy_loss(self, terms: Terms, figures: Figures) -> torch.Tensor:
        """The loss of some tokens, to minimise: a sum in which `terms.weights` are the weights of the tokens."""
        raise NotImplementedError

    def compared_with(self, lessons: Sequence[Lesson]) -> Sequence[Lesson]:
        """Answers whose log ratio to the reference is computed before each step of these lessons."""
        return ()

    def baselines(self, lessons: Sequence[Lesson], log_ratios: Sequence[float]) -> Sequence[float]:
        """The baseline of each lesson in a step, from the log ratio of each answer that they are compared with."""
        raise NotImplementedError

    def hinted(self, episode: Episode, turn: Turn) -> Sequence[Message] | None:
        """What the model is shown in place of the turn's messages, where it teaches itself. None: there is no hint."""
        raise NotImplementedError


class Clipped(TokenLoss):
    """The policy gradient, clipped where the policy has gone far from what it was before the batch."""

    def policy_loss(self, terms: Terms, figures: Figures) -> torch.Tensor:
        loss, logarithm = self.loss, terms.logprobs - terms.before
        if loss.ratio == "sequence":
            counts = terms.by_turn(logarithm.new_ones(logarithm.shape))
            logarithm = (terms.by_turn(logarithm) / counts)[terms.turns]
        if loss.ratio == "episode":
            # The other turns may be in another piece. So the value comes from before, and the gradient from the token
            # itself, as in GSPO-token: each turn keeps its own advantage.
            logarithm = terms.logprobs - terms.logprobs.detach()
            logarithm = logarithm if terms.of_episode is None else logarithm + terms.of_episode[terms.turns]
        ratio = logarithm.clamp(-_FARTHEST, _FARTHEST).exp()
        figures.add("ratio", ratio.detach())
        figures.add_largest("ratio_largest", ratio.detach())
        counted = ratio if loss.ratio_cap is None else ratio.clamp(max=loss.ratio_cap)
        gain = self.gain(counted, terms, figures)
        if loss.importance_cap is not None and terms.sampled is not None:
            gain = gain * _importance(loss, loss.importance_cap, terms, terms.sampled, figures)
        return -(terms.weights * gain).sum()

    def gain(self, ratio: torch.Tensor, terms: Terms, figures: Figures) -> torch.Tensor:
        """What each token adds to the objective. A loss that only clips otherwise derives from this class."""
        plain = ratio * terms.advantages
        clipped = ratio.clamp(1 - self.loss.clip_low, 1 + self.loss.clip_high) * terms.advantages
        figures.add("clipped", (clipped < plain).detach().float())
        return plain.minimum(clipped)


def made(loss: Loss) -> TokenLoss:
    """The loss that an optimizer names. Refuses one that there isn't, or whose settings contradict each other."""
    if loss.aggregation == "token_sum" and not loss.length:
        raise UsageError("the loss token_sum has no length to divide by", fix="set optimizer.length")
    if loss.name == "clipped":
        return Clipped(loss)
    module, _, name = loss.name.partition(":")
    try:
        kind = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f'this learner has no loss "{loss.name}"; it has `clipped`, and those that an optimizer names by path',
            fix="name it as package.module:Class, or use the learner that belongs to this optimizer",
        ) from error
    if not (isinstance(kind, type) and issubclass(kind, TokenLoss)):
        raise UsageError(f"{loss.name} is no loss", fix=f"derive it from {__name__}.TokenLoss")
    return kind(loss)


def weights(loss: Loss, lengths: Sequence[int], episodes: Sequence[str]) -> list[float]:
    """The weight of each turn's tokens in the loss of a batch, of turns of these lengths and episodes."""
    if loss.aggregation == "token_mean":
        return [1 / sum(lengths)] * len(lengths)
    if loss.aggregation == "sequence_mean":
        return [1 / (len(lengths) * length) for length in lengths]
    tokens: Counter[str] = Counter()
    for episode, length in zip(episodes, lengths, strict=True):
        tokens[episode] += length
    if loss.aggregation == "episode_mean":
        return [1 / (len(tokens) * tokens[episode]) for episode in episodes]
    assert loss.length is not None
    return [1 / (len(tokens) * loss.length)] * len(lengths)


def loss_of(loss: Loss, terms: Terms, figures: Figures) -> torch.Tensor:
    """The loss to minimise, with its KL penalty. Adds to the figures."""
    total = made(loss).policy_loss(terms, figures)
    figures.add_total("policy_loss", total.detach())
    if terms.base is not None:
        distance = (terms.base - terms.logprobs).clamp(-_FARTHEST, _FARTHEST)
        penalty = distance.exp() - distance - 1
        figures.add("kl", penalty.detach())
        total = total + loss.kl * (terms.weights * penalty).sum()
    if terms.sampled is not None:
        # How far apart sampler and trainer are on the same tokens and, if all is well, the same weights.
        apart = (terms.before - terms.sampled).abs()
        apart = apart[~apart.isnan()]
        figures.add("mismatch", apart)
        figures.add_largest("mismatch_largest", apart)
    figures.add_total("loss", total.detach())
    return total


def _importance(loss: Loss, cap: float, terms: Terms, sampled: torch.Tensor, figures: Figures) -> torch.Tensor:
    """The importance weight of each token. 1 where the sampler gave no logprob."""
    apart = terms.before - sampled
    known = ~apart.isnan()
    apart = apart.masked_fill(~known, 0.0)
    sums, counts = terms.by_turn(apart), terms.by_turn(known.float()).clamp(min=1)
    logarithm = apart if loss.importance_level == "token" else sums[terms.turns]
    weight = logarithm.clamp(-_FARTHEST, _FARTHEST).exp()
    capped = weight > cap
    farthest = math.inf if loss.importance_mask is None else math.log(loss.importance_mask)
    masked = ((sums / counts).abs() > farthest)[terms.turns]
    figures.add("importance_capped", capped.float())
    figures.add("importance_masked", masked.float())
    figures.add("importance_corrected", (capped | masked).float())
    return weight.clamp(max=cap).masked_fill(masked, 0.0)
