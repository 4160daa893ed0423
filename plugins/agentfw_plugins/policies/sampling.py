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
"""Maximum number of logits to draw from at once. On a CPU few, so that their copies in 64 bits stay in its caches."""


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
    heat = torch.tensor([temperature or 1.0 for temperature in temperatures], **wide)
    # In 64 bits, because rounding in 32 bits would change about one draw in a million.
    chances = (logits.double() / heat[:, None]).softmax(-1)
    if min(top_ps) < 1.0:
        shares = [top_p if temperature else 1.0 for top_p, temperature in zip(top_ps, temperatures, strict=True)]
        chances = _nucleus(chances, torch.tensor(shares, **wide))
    heights = chances.cumsum(-1)
    aims = torch.tensor(numbers, **wide)[:, None] * heights[:, -1:]
    drawn = torch.searchsorted(heights, aims, right=True).clamp_(max=logits.shape[-1] - 1)
    greedy = torch.tensor([temperature == 0.0 for temperature in temperatures], device=logits.device)
    tokens = torch.where(greedy[:, None], logits.argmax(-1, keepdim=True), drawn)
    logprobs = (chances.gather(-1, tokens) / heights[:, -1:]).log()
    return tokens[:, 0].tolist(), logprobs[:, 0].tolist()


def _nucleus(chances: Tensor, top_ps: Tensor) -> Tensor:
    """Keep only the likeliest tokens that together reach `top_p`, and always the likeliest one."""
    import torch

    ordered, order = chances.sort(dim=-1, descending=True, stable=True)
    # Compare the mass before each token, so that the token that reaches the limit is included.
    outside = ordered.cumsum(-1) - ordered >= top_ps[:, None]
    outside[:, 0] = False
    return torch.zeros_like(chances).scatter(-1, order, ordered.masked_fill(outside, 0.0))
