"""fp32 masters of weights that are trained in bf16, where a small step would round to nothing.

A bf16 number has eight significant bits, so a step below a five-hundredth of a weight changes nothing. The optimizer
therefore changes fp32 masters, and the model computes with these rounded to bf16. The gradients of a step's pieces are
added up in fp32, too.

    masters = MasterWeights(model)      # of a model in fp32, which is in bf16 from then on
    optimizer = AdamW(masters.weights)
    optimizer.step()
    masters.round()
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

__all__ = ["MasterWeights", "to_bf16"]


class MasterWeights:
    """The masters, in the order of the model's parameters."""

    def __init__(self, model: torch.nn.Module) -> None:
        self._rounded = list(model.parameters())
        self.weights = torch.nn.ParameterList(torch.nn.Parameter(weight.data) for weight in self._rounded)
        to_bf16(model)
        for rounded, master in zip(self._rounded, self.weights, strict=True):
            rounded.register_post_accumulate_grad_hook(partial(_hand_over, master))

    def by_place(self) -> dict[int, torch.Tensor]:
        """The masters by the addresses of the model's weights."""
        return {rounded.data_ptr(): master for rounded, master in zip(self._rounded, self.weights, strict=True)}

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def round(self) -> None:
        """Let the model compute with what the masters are now."""
        for rounded, master in zip(self._rounded, self.weights, strict=True):
            rounded.copy_(master)


def to_bf16(model: torch.nn.Module) -> None:
    """Round all weights. Buffers stay in fp32, as when transformers loads a model in bf16."""
    for weight in model.parameters():
        weight.data = weight.data.to(torch.bfloat16)


def _hand_over(master: Any, rounded: torch.Tensor) -> None:
    """Add a gradient to its master's."""
    assert rounded.grad is not None
    gradient, rounded.grad = rounded.grad.float(), None
    master.grad = gradient if master.grad is None else master.grad.add_(gradient)
