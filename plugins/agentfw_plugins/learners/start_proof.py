"""Checks on a few tokens, before training, that the learner's forward pass matches the model's own.

Two exact attention implementations differ by rounding. The size of the difference depends on the model's depth, its
precision and its confidence, so the tolerance is measured: the model's own forward pass runs with two attentions of
transformers, and the learner may differ from it only a little more than these differ from each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from agentfw.errors import SettingsError
from agentfw.seeds import Seeds

from ..models import own_attention
from .token_tree import TurnTokens

__all__ = ["proof_turns", "prove"]

_HARMLESS = 1e-4
"""Difference of a logprob, in nats, that is always tolerated, in case the two attentions agree to the last bit."""
_TIMES = 2.0
"""Tolerance factor for a turn's difference over the measured noise, both as root mean squares. It was measured on 60
bf16 models of 28 layers with random weights: below 1.4 if correct, and above 2.4 with ten tokens shifted by one."""


def proof_turns(vocabulary: int) -> list[TurnTokens]:
    """Three turns of random tokens with shared prefixes, 96 sampled tokens in total."""
    ids = Seeds(0).numpy("proof").integers(0, vocabulary, 128).tolist()
    return [TurnTokens(ids[:32], ids[32:64]), TurnTokens(ids[:32], ids[64:96]), TurnTokens(ids[:16], ids[96:])]


@torch.no_grad()  # type: ignore[untyped-decorator]
def prove(model: Any, turns: Sequence[TurnTokens], learner: torch.Tensor, packing: str) -> None:
    """Raise a SettingsError unless the learner's logprobs of the sampled tokens match the model's own in every turn."""
    attention = model.config._attn_implementation
    try:
        own, other = (_own_logprobs(model, turns, name) for name in (own_attention(model), "eager"))
    finally:
        model.set_attn_implementation(attention)
    noise = float((own - other).square().mean().sqrt())
    gaps = (own - learner.to(own.device)).split([len(turn.sampled) for turn in turns])
    # Turn by turn, so that a mistake in one branch of a tree isn't averaged out by the others.
    apart = torch.stack([gap.square().mean().sqrt() for gap in gaps])
    if not bool((apart <= _TIMES * noise + _HARMLESS).all()):  # NaN fails as well
        raise SettingsError(
            f"{type(model).__name__} gives other results than {packing} packing: "
            f"its logprobs are {float(apart.max()):.2g} apart, and rounding explains {noise:.2g}",
            fix='set learner.packing="plain"; if that is refused too, use another base',
        )


def _own_logprobs(model: Any, turns: Sequence[TurnTokens], attention: str) -> torch.Tensor:
    """The model's own logprobs of the sampled tokens, one turn per row."""
    model.set_attn_implementation(attention)
    found: list[torch.Tensor] = []
    for prompt, sampled in turns:
        row = torch.tensor([[*prompt, *sampled]], device=model.device)
        logits = model(row, use_cache=False, logits_to_keep=len(sampled) + 1).logits[0, :-1].float()
        found.append(logits.log_softmax(-1).gather(-1, row[0, len(prompt) :, None])[:, 0])
    return torch.cat(found)
