"""Whether the learner computes what the model itself computes, found out on a few tokens before anything is learned.

Two exact attentions of one model differ by rounding. By how much depends on its depth, its precision and how confident
it is, so the tolerance is measured: the model's own forward pass is done with two attentions of transformers, and the
learner's result may differ from it little more than these differ from each other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from agentfw import Seeds
from agentfw.errors import SettingsError

from .token_tree import TurnTokens

__all__ = ["proof_turns", "prove"]

_HARMLESS = 1e-4
"""Nats by which a logprob may always be off: where two attentions happen to agree to the last bit."""
_LARGEST, _MEAN = 3.0, 2.0
"""How many times the measured noise the largest and the mean difference may be. In 28-layer bf16 models with random
weights a right model stays below 1.2 and 0.8, and one token in a wrong place brings the largest above 3.5."""


def proof_turns(vocabulary: int) -> list[TurnTokens]:
    """Three turns of random tokens that share their beginnings: 96 sampled tokens."""
    ids = Seeds(0).numpy("proof").integers(0, vocabulary, 128).tolist()
    return [TurnTokens(ids[:32], ids[32:64]), TurnTokens(ids[:32], ids[64:96]), TurnTokens(ids[:16], ids[96:])]


@torch.no_grad()  # type: ignore[untyped-decorator]
def prove(model: Any, turns: Sequence[TurnTokens], learner: torch.Tensor, packing: str) -> None:
    """Raise a SettingsError unless the learner's logprobs of the sampled tokens, turn by turn, are the model's own."""
    attention = model.config._attn_implementation
    try:
        own, other = (_own_logprobs(model, turns, name) for name in ("sdpa", "eager"))
    finally:
        model.set_attn_implementation(attention)
    noise, apart = (own - other).abs(), (own - learner.to(own.device)).abs()

    def too_far(measure: Callable[[torch.Tensor], torch.Tensor], times: float) -> bool:
        return not float(measure(apart)) <= times * float(measure(noise)) + _HARMLESS  # NaN is too far as well

    if too_far(torch.max, _LARGEST) or too_far(torch.mean, _MEAN):
        raise SettingsError(
            f"{type(model).__name__} computes otherwise than {packing} packing does: its logprobs are up to "
            f"{float(apart.max()):.2g} apart, and rounding explains {float(noise.max()):.2g}",
            fix='set learner.packing="plain"; if that is refused too, take another base',
        )


def _own_logprobs(model: Any, turns: Sequence[TurnTokens], attention: str) -> torch.Tensor:
    """What the model's own forward pass says of the sampled tokens, one turn a row."""
    model.set_attn_implementation(attention)
    found: list[torch.Tensor] = []
    for prompt, sampled in turns:
        row = torch.tensor([[*prompt, *sampled]], device=model.device)
        logits = model(row, use_cache=False).logits[0, len(prompt) - 1 : -1].float()
        found.append(logits.log_softmax(-1).gather(-1, row[0, len(prompt) :, None])[:, 0])
    return torch.cat(found)
