"""The loss of `agentfw.optimizer.Loss`, on tensors. Every algorithm is a choice of its settings.

A term belongs to one sampled token of one turn. Turns that share a token (two samples that begin alike) each have a
term of their own on it, with their own advantage; in the backward pass the terms add up.

    clipped      -w min(r A, clip(r) A), with r the ratio of the token's probability to what it was before the batch's
                 first step, and w an importance weight that corrects for a sampler that differs from the trainer: with
                 d = log(trainer) - log(sampler) before that step, w = min(e^d, cap) for each token, or for all tokens
                 of a turn min(e^(sum of d), cap) (truncated importance sampling: Ionides 2008; for samplers that round
                 otherwise, Yao et al. 2025, "Your efficient RL framework secretly brings you off-policy RL training");
                 0 for a turn with |mean of d| > log(mask) (masking by the geometric mean: Liu et al. 2025, "When speed
                 kills stability"). TRL and verl correct for vLLM in the same way
    likelihood   -A log p
    kto          |A| (1 - sigmoid(beta sign(A) (R - z))) for a whole turn, with R the log of its probability over that
                 of the reference, and z the baseline: the KL divergence from the reference, estimated without gradient
    kl           + kl (q/p - log(q/p) - 1), with q the probability without adapter: never negative, and unbiased

All probabilities of `clipped` are at the temperature that the turn was sampled at. The first step of a batch needs no
earlier logprobs: r is 1 there, and only its gradient counts.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from agentfw.errors import UsageError
from agentfw.optimizer import Loss

__all__ = ["Figures", "Terms", "check", "loss_of", "weights"]

_FARTHEST = 20.0
"""Limit of a log ratio. e^20 is far beyond any cap, and no float overflows."""


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
    """Logprobs without the adapter."""
    baseline: torch.Tensor | None = None
    """[1]: the baseline of `kto`."""


@dataclass(slots=True)
class Figures:
    """The figures of an update: means over its tokens, means over its steps, and maxima."""

    sums: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    totals: dict[str, float] = field(default_factory=dict)
    largest: dict[str, float] = field(default_factory=dict)

    def add(self, name: str, values: torch.Tensor) -> None:
        """Add the values of some tokens."""
        self.sums[name] = self.sums.get(name, 0.0) + float(values.sum(dtype=torch.float64))
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


def check(loss: Loss) -> None:
    """Refuse a loss that this learner can't compute."""
    if loss.name not in ("clipped", "likelihood", "kto"):
        raise UsageError(
            f'this learner has no loss "{loss.name}"; it has clipped, likelihood and kto',
            fix="use an optimizer with one of these, or the learner that belongs to this optimizer",
        )
    if loss.aggregation == "token_sum" and not loss.length:
        raise UsageError("the loss token_sum has no length to divide by", fix="set optimizer.length")


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
    """The loss to minimise. Adds to the figures."""
    now = terms.logprobs
    if loss.name == "likelihood":
        total = -(terms.weights * terms.advantages * now).sum()
    elif loss.name == "kto":
        total = _kto(loss, terms, figures)
    else:
        total = (terms.weights * _clipped(loss, terms, figures)).sum()
    figures.add_total("policy_loss", total.detach())
    if terms.base is not None:
        distance = (terms.base - now).clamp(-_FARTHEST, _FARTHEST)
        penalty = distance.exp() - distance - 1
        figures.add("kl", penalty.detach())
        total = total + loss.kl * (terms.weights * penalty).sum()
    _note_mismatch(terms, figures)
    figures.add_total("loss", total.detach())
    return total


def _clipped(loss: Loss, terms: Terms, figures: Figures) -> torch.Tensor:
    logarithm = terms.logprobs - terms.before
    if loss.ratio == "sequence":
        turns = int(terms.turns.max()) + 1
        sums = logarithm.new_zeros(turns).index_add(0, terms.turns, logarithm)
        logarithm = (sums / torch.bincount(terms.turns, minlength=turns))[terms.turns]
    ratio = logarithm.clamp(-_FARTHEST, _FARTHEST).exp()
    figures.add("ratio", ratio.detach())
    figures.add_largest("ratio_largest", ratio.detach())
    counted = ratio if loss.ratio_cap is None else ratio.clamp(max=loss.ratio_cap)
    plain = counted * terms.advantages
    clipped = counted.clamp(1 - loss.clip_low, 1 + loss.clip_high) * terms.advantages
    figures.add("clipped", (clipped < plain).detach().float())
    gain = torch.minimum(plain, clipped)
    if loss.importance_cap is not None and terms.sampled is not None:
        gain = gain * _importance(loss, loss.importance_cap, terms, terms.sampled, figures)
    return -gain


def _importance(loss: Loss, cap: float, terms: Terms, sampled: torch.Tensor, figures: Figures) -> torch.Tensor:
    """The importance weight of each token. 1 where the sampler gave no logprob."""
    apart = terms.before - sampled
    known = ~apart.isnan()
    apart = apart.masked_fill(~known, 0.0)
    turns = int(terms.turns.max()) + 1
    sums = apart.new_zeros(turns).index_add(0, terms.turns, apart)
    counts = apart.new_zeros(turns).index_add(0, terms.turns, known.float()).clamp(min=1)
    logarithm = apart if loss.importance_level == "token" else sums[terms.turns]
    weight = logarithm.clamp(-_FARTHEST, _FARTHEST).exp()
    capped = weight > cap
    farthest = math.inf if loss.importance_mask is None else math.log(loss.importance_mask)
    masked = ((sums / counts).abs() > farthest)[terms.turns]
    figures.add("importance_capped", capped.float())
    figures.add("importance_masked", masked.float())
    figures.add("importance_corrected", (capped | masked).float())
    return weight.clamp(max=cap).masked_fill(masked, 0.0)


def _kto(loss: Loss, terms: Terms, figures: Figures) -> torch.Tensor:
    assert terms.base is not None
    assert terms.baseline is not None
    turns = int(terms.turns.max()) + 1

    def by_turn(values: torch.Tensor) -> torch.Tensor:
        return values.new_zeros(turns).index_add(0, terms.turns, values)

    weights = by_turn(terms.weights)
    advantages = by_turn(terms.weights * terms.advantages) / weights
    ratio = by_turn(terms.logprobs - terms.base)
    for name, chosen in (("log_ratio_good", advantages > 0), ("log_ratio_bad", advantages < 0)):
        if bool(chosen.any()):
            figures.add(name, ratio.detach()[chosen])
    figures.add("baseline", terms.baseline)
    value = torch.sigmoid(loss.beta * advantages.sign() * (ratio - terms.baseline))
    return (weights * advantages.abs() * (1 - value)).sum()


def _note_mismatch(terms: Terms, figures: Figures) -> None:
    """How far apart sampler and trainer are on the same tokens and, if all is well, the same weights."""
    if terms.sampled is not None:
        apart = (terms.before - terms.sampled).abs()
        apart = apart[~apart.isnan()]
        figures.add("mismatch", apart)
        figures.add_largest("mismatch_largest", apart)
