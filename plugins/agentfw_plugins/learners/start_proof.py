"""Whether the learner computes what the model itself computes, found out on a few tokens before anything is learned.

Two exact attentions of one model differ by rounding. By how much depends on its depth, its precision and how confident
it is, so the tolerance is measured: the model's own forward pass is done with two attentions of transformers, and the
learner's result may differ from it little more than these differ from each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from agentfw import Seeds
from agentfw.errors import SettingsError

from .token_tree import TurnTokens

__all__ = ["proof_turns", "prove"]

_HARMLESS = 1e-4
"""Nats by which a logprob may always be off: where two attentions happen to agree to the last bit."""
_TIMES = 2.0
"""How many times the measured noise a turn's difference may be, both as the root of the mean square. Of 60 bf16 models
of 28 layers with random weights, each right one was below 1.4, and with ten tokens one place off each was above 2.4."""


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
    noise = float((own - other).square().mean().sqrt())
    gaps = (own - learner.to(own.device)).split([len(turn.sampled) for turn in turns])
    # Turn by turn: a mistake in one branch of a tree isn't diluted by the others.
    apart = torch.stack([gap.square().mean().sqrt() for gap in gaps])
    if not bool((apart <= _TIMES * noise + _HARMLESS).all()):  # NaN is too far as well
        raise SettingsError(
            f"{type(model).__name__} computes otherwise than {packing} packing does: "
            f"its logprobs are {float(apart.max()):.2g} apart, and rounding explains {noise:.2g}",
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
