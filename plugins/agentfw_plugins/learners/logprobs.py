"""Computes logprobs of given tokens from hidden states without storing all logits at once.

Logits exist for a few rows at a time, in fp32. With a frozen head, the backward pass uses the gradient of each logprob,
d logprob / d hidden = (one-hot - p) W / temperature, which the forward pass computes, so that nothing is computed
twice. With a trained head, it uses the logsumexp of each row and recomputes the logits.

The entropy of each row is also returned, as a metric without a gradient.
"""

from __future__ import annotations

from typing import Any

import torch

# Maximum number of logits at once: 16 MiB for small caches, 256 MiB where kernels need large inputs.
_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 26}
_FEWEST = 64  # rows at once, because the whole head is read for them: 64 MiB with 262,144 tokens of vocabulary


def token_logprobs(
    hidden: torch.Tensor,
    weight: torch.Tensor,
    targets: torch.Tensor,
    temperature: float = 1.0,
    *,
    bias: torch.Tensor | None = None,
    cap: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The logprob of each target at this temperature, and the entropy of its distribution.

    hidden is [tokens, width], weight [vocabulary, width], bias [vocabulary], targets [tokens]; both results are
    [tokens] in fp32. With `cap` a logit x is cap tanh(x / cap).
    """
    logprobs, entropy = _TokenLogprobs.apply(hidden, weight, bias, targets, temperature, cap)
    return logprobs, entropy


class _TokenLogprobs(torch.autograd.Function):  # type: ignore[misc]
    @staticmethod
    def forward(
        ctx: Any,
        hidden: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor | None,
        targets: torch.Tensor,
        temperature: float,
        cap: float | None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        needs_hidden, needs_weight, *_ = ctx.needs_input_grad
        count = len(hidden)
        logprobs, entropy, sums = (hidden.new_empty(count, dtype=torch.float32) for _ in range(3))
        slopes = torch.empty_like(hidden) if needs_hidden and not needs_weight else None
        for rows in _chunks(count, weight):
            logits, rise = _logits(hidden[rows], weight, bias, temperature, cap)
            sums[rows] = logits.logsumexp(-1)
            every = logits.sub_(sums[rows, None])
            logprobs[rows] = every.gather(-1, targets[rows, None])[:, 0]
            chances = every.exp()
            entropy[rows] = -(chances * every).sum(-1)
            if slopes is not None:
                slopes[rows] = (_slope(chances, targets[rows]) * rise).to(weight.dtype) @ weight
        ctx.mark_non_differentiable(entropy)
        ctx.temperature, ctx.cap = temperature, cap
        if slopes is not None:
            ctx.save_for_backward(slopes)
        elif needs_weight:
            ctx.save_for_backward(hidden, weight, bias, targets, sums)
        return logprobs, entropy

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        gradient = gradients[0]
        if not ctx.needs_input_grad[1]:
            (slopes,) = ctx.saved_tensors
            return (slopes * gradient[:, None]).to(slopes.dtype), None, None, None, None, None
        hidden, weight, bias, targets, sums = ctx.saved_tensors
        # Sums over all rows are in fp32: in bf16, what the last rows add would be rounded away.
        hidden_gradient, weight_gradient = torch.empty_like(hidden), torch.zeros_like(weight, dtype=torch.float32)
        bias_gradient = None if bias is None else torch.zeros_like(bias, dtype=torch.float32)
        for rows in _chunks(len(hidden), weight):
            logits, rise = _logits(hidden[rows], weight, bias, ctx.temperature, ctx.cap)
            chances = torch.exp(logits - sums[rows, None])
            slope = _slope(chances, targets[rows]) * gradient[rows, None] * rise
            slope = slope.to(weight.dtype)
            hidden_gradient[rows] = slope @ weight
            # In place: a product of its own is as large as the head.
            weight_gradient.addmm_(slope.T.float(), hidden[rows].float())
            if bias_gradient is not None:
                bias_gradient += slope.sum(0)
        return hidden_gradient, weight_gradient, bias_gradient, None, None, None


def _slope(chances: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """d logprob / d logits: one-hot minus probabilities, in fp32. Overwrites `chances`.

    The target's entry is computed as the sum of the other probabilities. 1 - p would lose its digits if p is close to
    1, and all of them in half precision.
    """
    slope = chances.neg_().scatter_(-1, targets[:, None], 0.0)
    return slope.scatter_(-1, targets[:, None], -slope.sum(-1, keepdim=True))


def _logits(
    hidden: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, temperature: float, cap: float | None
) -> tuple[torch.Tensor, torch.Tensor | float]:
    """The logits, and how fast they rise with what the head's weights give."""
    logits = torch.nn.functional.linear(hidden, weight, bias)
    if cap is None:
        return logits.float() / temperature, 1 / temperature
    bent = torch.tanh(logits / cap)  # in the precision of the model, as transformers does
    return (bent * cap).float() / temperature, (1 - bent.float().square()) / temperature


def _chunks(count: int, weight: torch.Tensor) -> list[slice]:
    size = max(_FEWEST, _ELEMENTS[weight.device.type] // len(weight))
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]
