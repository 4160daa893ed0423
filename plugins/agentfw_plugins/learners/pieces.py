"""A piece of a minibatch: tokens that are computed at once, with what their loss is made of.

A piece is independent of all others, so it can be computed anywhere, and again after a crash, with the same gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from agentfw.optimizer import Loss

from .losses import Figures, Terms, loss_of
from .network import Network, Which
from .token_tree import Packed

__all__ = ["Piece", "backward", "logprobs_of"]


@dataclass(slots=True)
class Piece:
    """The tokens, and what is known of them besides the current logprobs."""

    packed: Packed
    temperature: float
    advantages: torch.Tensor
    weights: torch.Tensor
    turns: torch.Tensor
    sampled: torch.Tensor | None
    before: torch.Tensor | None = None
    base: torch.Tensor | None = None
    baseline: torch.Tensor | None = None


def logprobs_of(network: Network, piece: Piece, of: Which = "trained") -> torch.Tensor:
    """The logprobs of its sampled tokens, without a gradient."""
    with torch.no_grad():
        return network.logprobs(piece.packed, of=of, temperature=piece.temperature)[0]


def backward(network: Network, piece: Piece, loss: Loss, figures: Figures) -> None:
    """Add the gradient of a piece to that of the network's parameters, and its figures to the others."""
    logprobs, entropy = network.logprobs(piece.packed, temperature=piece.temperature)
    figures.add("entropy", entropy)
    before = logprobs.detach() if piece.before is None else piece.before
    known = piece.advantages, piece.weights, piece.turns, piece.sampled, piece.base, piece.baseline
    loss_of(loss, Terms(logprobs, before, *known), figures).backward()
