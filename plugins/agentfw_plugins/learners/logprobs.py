"""Logprobs of given tokens from hidden states, without ever holding all logits.

The one rule: logits exist for a few rows at a time, in fp32, and are gone before the next few. What of them is needed
backwards is no larger than the hidden states:

- a frozen head: the slope of each logprob, d logprob / d hidden = W[token] - sum over the vocabulary of p W, found in
  the same go; so nothing is computed twice;
- a head that is trained: the sum of each row, from which its logits are made again.

The entropy of each row comes along: it is a figure to watch, and nothing is learned from it.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = ["token_logprobs"]

_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 26}
"""How many logits may exist at once: 16 MiB where caches are small, 256 MiB where kernels want work."""


def token_logprobs(
    hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """The logprob of each target and the entropy of what it was drawn from.

    hidden is [tokens, width], weight [vocabulary, width], targets [tokens]; both answers are [tokens] in fp32.
    """
    logprobs, entropy = _TokenLogprobs.apply(hidden, weight, targets)
    return logprobs, entropy


class _TokenLogprobs(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any, hidden: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        needs_hidden, needs_weight, _ = ctx.needs_input_grad
        count = len(hidden)
        logprobs, entropy, sums = (hidden.new_empty(count, dtype=torch.float32) for _ in range(3))
        slopes = torch.empty_like(hidden) if needs_hidden and not needs_weight else None
        for rows in _chunks(count, weight):
            logits = _logits(hidden[rows], weight)
            sums[rows] = logits.logsumexp(-1)
            logprobs[rows] = logits.gather(-1, targets[rows, None])[:, 0] - sums[rows]
            chances = torch.exp(logits - sums[rows, None])
            entropy[rows] = sums[rows] - (chances * logits).sum(-1)
            if slopes is not None:
                slopes[rows] = weight[targets[rows]] - chances.to(weight.dtype) @ weight
        ctx.mark_non_differentiable(entropy)
        if slopes is not None:
            ctx.save_for_backward(slopes)
        elif needs_weight:
            ctx.save_for_backward(hidden, weight, targets, sums)
        return logprobs, entropy

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        gradient = gradients[0]
        if not ctx.needs_input_grad[1]:
            (slopes,) = ctx.saved_tensors
            return (slopes * gradient[:, None]).to(slopes.dtype), None, None
        hidden, weight, targets, sums = ctx.saved_tensors
        hidden_gradient, weight_gradient = torch.empty_like(hidden), torch.zeros_like(weight)
        for rows in _chunks(len(hidden), weight):
            slope = -torch.exp(_logits(hidden[rows], weight) - sums[rows, None])
            slope.scatter_add_(-1, targets[rows, None], torch.ones_like(sums[rows, None]))
            slope = (slope * gradient[rows, None]).to(weight.dtype)
            hidden_gradient[rows] = slope @ weight
            weight_gradient += slope.T @ hidden[rows]
        return hidden_gradient, weight_gradient, None


def _logits(hidden: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return (hidden @ weight.T).float()


def _chunks(count: int, weight: torch.Tensor) -> list[slice]:
    size = max(16, _ELEMENTS[weight.device.type] // len(weight))
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]
