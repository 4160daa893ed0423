"""Attention with capped scores, cap tanh(score / cap), which no kernel of torch computes on a CPU (Gemma 2).

Two functions with the signatures of torch's flash attention for CPUs, and a cap. All scores of a call are in memory at
once, so callers pass few rows.
"""

from __future__ import annotations

import torch

__all__ = ["backward", "forward"]


def _scores(
    query: torch.Tensor, key: torch.Tensor, causal: bool, mask: torch.Tensor | None, scale: float, cap: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The masked scores in fp32, and how fast they rise with the plain ones."""
    bent = torch.tanh((query @ key.transpose(2, 3)).float() * (scale / cap))
    scores = bent * cap
    if causal:
        scores.masked_fill_(torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).triu(1), -torch.inf)
    return scores if mask is None else scores + mask, 1 - bent.square_()


def forward(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    causal: bool,
    mask: torch.Tensor | None,
    scale: float,
    cap: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The attention [1, heads, rows, width], and the logsumexp of each row's scores."""
    scores, _ = _scores(query, key, causal, mask, scale, cap)
    sums = scores.logsumexp(-1)
    return (scores - sums[..., None]).exp_().to(value.dtype) @ value, sums


def backward(
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    output: torch.Tensor,
    sums: torch.Tensor,
    causal: bool,
    mask: torch.Tensor | None,
    scale: float,
    cap: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of query, key and value. Output and logsumexp are those over all keys that a row sees."""
    scores, rise = _scores(query, key, causal, mask, scale, cap)
    chances = (scores - sums[..., None]).exp_()
    own = (gradient.float() * output.float()).sum(-1, keepdim=True)
    slope = ((gradient @ value.transpose(2, 3)).float() - own).mul_(chances).mul_(rise).mul_(scale).to(query.dtype)
    return slope @ key, slope.transpose(2, 3) @ query, chances.to(value.dtype).transpose(2, 3) @ gradient
