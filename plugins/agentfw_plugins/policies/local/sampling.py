"""Samples tokens, with one seed per answer and one random number per token.

An answer depends only on its own request. Its seed is derived from the run's seed, the task and the prompt, so neither
the order of requests nor other answers in the batch change it.

A token's logprob is that of the distribution it was sampled from, with temperature and top_p. Importance weights need
it, and a learner divides its logits by the same temperature. At temperature 0 every token would have probability 1,
which contains no information, so there the logprob is the model's own.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentfw import Request
from agentfw.seeds import Seeds

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Sampled", "draw", "request_seed"]

_ELEMENTS = {"cpu": 1 << 20, "cuda": 1 << 26}
"""Maximum number of logits to draw from at once. On a CPU few, so that their copies stay in its caches."""
_STRETCH = 512


@dataclass(frozen=True, slots=True)
class Sampled:
    """Sampled tokens, their logprobs in the distribution they were sampled from, and the model's version."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    finish: str
    version: str
    cached: int | None = None
    """Tokens of the prompt that came from a cache; None where that isn't known."""


def request_seed(request: Request, prompt_ids: Sequence[int]) -> int:
    """The seed of one answer, a 63-bit integer."""
    root = request.task.seed if request.sampling.seed is None else request.sampling.seed
    prompt = hashlib.sha256(array("q", prompt_ids).tobytes()).hexdigest()
    return Seeds(root).integer("answer", request.task.id, prompt)


def draw(
    logits: Tensor, temperatures: Sequence[float], top_ps: Sequence[float], numbers: Sequence[float]
) -> tuple[list[int], list[float]]:
    """Sample a token for each row of logits [rows, vocabulary]. Returns the tokens and their logprobs.

    `numbers` are uniform random numbers from 0 to 1, one per row. A temperature of 0 takes the likeliest token.
    """
    size = max(1, _ELEMENTS[logits.device.type] // logits.shape[-1])
    token_ids: list[int] = []
    logprobs: list[float] = []
    for start in range(0, len(logits), size):
        some = slice(start, start + size)
        drawn = _draw(logits[some], temperatures[some], top_ps[some], numbers[some])
        token_ids += drawn[0]
        logprobs += drawn[1]
    return token_ids, logprobs


def _draw(
    logits: Tensor, temperatures: Sequence[float], top_ps: Sequence[float], numbers: Sequence[float]
) -> tuple[list[int], list[float]]:
    import torch

    wide = {"dtype": torch.float64, "device": logits.device}
    heat = torch.tensor([temperature or 1.0 for temperature in temperatures], **wide)[:, None]
    rows, vocabulary = logits.shape
    # In whole stretches, so that only the stretch with the drawn token is looked at token by token.
    likely = logits.new_zeros(rows, -(-vocabulary // _STRETCH) * _STRETCH, dtype=torch.float32)
    chances = likely[:, :vocabulary]
    top = logits.amax(-1, keepdim=True)
    chances.copy_(logits).sub_(top).div_(heat.float()).exp_()
    for row, temperature, top_p in zip(chances, temperatures, top_ps, strict=True):
        if temperature and top_p < 1.0:
            _keep_nucleus(row, top_p)
    stretches = likely.unflatten(-1, (-1, _STRETCH))
    # Added up in 64 bits, because rounding in 32 bits would change about one draw in a million.
    heights = stretches.sum(-1, dtype=torch.float64).cumsum(-1)
    aims = torch.tensor(numbers, **wide)[:, None] * heights[:, -1:]
    chosen = torch.searchsorted(heights, aims, right=True).clamp_(max=heights.shape[-1] - 1)
    below = torch.where(chosen > 0, heights.gather(-1, (chosen - 1).clamp_(min=0)), 0.0)
    inside = stretches[torch.arange(rows, device=logits.device), chosen[:, 0]].double().cumsum(-1)
    # Below the last height, so that a rounding error never draws a token that has no chance.
    rest = torch.minimum(aims - below, inside[:, -1:] * (1 - 2**-52))
    drawn = (chosen * _STRETCH + torch.searchsorted(inside, rest, right=True)).clamp_(max=vocabulary - 1)
    for row, temperature in enumerate(temperatures):
        if not temperature:
            drawn[row] = logits[row].argmax()
    logprobs = (logits.gather(-1, drawn).double() - top) / heat - heights[:, -1:].log()
    return drawn[:, 0].tolist(), logprobs[:, 0].tolist()


def _keep_nucleus(chances: Tensor, top_p: float) -> None:
    """Set all but the likeliest tokens that together reach `top_p` to zero, and never the likeliest one."""
    total = float(chances.double().sum())
    # Tokens below this have less than 1 - top_p together, so that none of them is among the likeliest.
    (some,) = (chances >= (1 - top_p) * total / len(chances)).nonzero(as_tuple=True)
    ordered, order = chances[some].double().sort(descending=True, stable=True)
    # Compare the mass before each token, so that the token that reaches the limit is included.
    inside = ordered.cumsum(-1) - ordered < top_p * total
    inside[0] = True
    kept = some[order[inside]]
    values = chances[kept]
    chances.zero_()[kept] = values
