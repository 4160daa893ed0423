"""The attention of a token tree for transformers, with a CPU implementation.

A tree's attention is a list of rectangles (token_tree), each of which is plain attention, causal or full. A row in
several rectangles combines them by their logsumexps, and the backward pass of each rectangle needs only the full row's
output and logsumexp. No length x length mask exists: memory grows with the tokens, and time with the visible pairs. On
a GPU, many small rectangles would be many small kernels, so flex attention is used there (tree_flex).

    model.set_attn_implementation(NAME)
    model(ids, position_ids=positions, agentfw_tree=packed.blocks)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from agentfw.errors import UsageError

from .token_tree import Block

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask

__all__ = ["NAME", "attend", "register"]

NAME = "agentfw_tree"
"""Name of this attention in transformers."""

_forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class _TreeAttention(torch.autograd.Function):  # type: ignore[misc]
    """Queries [1, heads, length, width] to keys and values of the same or, grouped, of fewer heads."""

    @staticmethod
    def forward(
        ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, blocks: Sequence[Block], scale: float
    ) -> torch.Tensor:
        ctx.blocks, ctx.scale = blocks, scale
        groups = query.shape[1] // key.shape[1]
        keys, values = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
        output = torch.empty_like(query)
        sums = query.new_empty(query.shape[:3], dtype=torch.float32)
        for first, end, first_key, end_key in blocks:
            part, part_sums = _forward(
                query[:, :, first:end],
                keys[:, :, first_key:end_key],
                values[:, :, first_key:end_key],
                0.0,
                first == first_key,
                scale=scale,
            )
            if first == first_key:  # each row's own run comes first
                output[:, :, first:end], sums[:, :, first:end] = part, part_sums
            else:
                # The share of the two sums is a / (a + b) = sigmoid(log a - log b).
                share = torch.sigmoid(part_sums - sums[:, :, first:end])
                output[:, :, first:end].lerp_(part, share[..., None].to(part.dtype))
                sums[:, :, first:end] = torch.logaddexp(sums[:, :, first:end], part_sums)
        ctx.save_for_backward(query, key, value, output, sums)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        query, key, value, output, sums = ctx.saved_tensors
        groups = query.shape[1] // key.shape[1]
        keys, values = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
        gradient = gradients[0]
        query_gradient, key_gradient, value_gradient = (torch.zeros_like(of) for of in (query, keys, values))
        for first, end, first_key, end_key in ctx.blocks:
            part = _backward(
                gradient[:, :, first:end],
                query[:, :, first:end],
                keys[:, :, first_key:end_key],
                values[:, :, first_key:end_key],
                output[:, :, first:end],
                sums[:, :, first:end],
                0.0,
                first == first_key,
                scale=ctx.scale,
            )
            query_gradient[:, :, first:end] += part[0]
            key_gradient[:, :, first_key:end_key] += part[1]
            value_gradient[:, :, first_key:end_key] += part[2]
        if groups > 1:
            key_gradient = key_gradient.unflatten(1, (-1, groups)).sum(2)
            value_gradient = value_gradient.unflatten(1, (-1, groups)).sum(2)
        return query_gradient, key_gradient, value_gradient, None, None


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, blocks: Sequence[Block], scale: float
) -> torch.Tensor:
    """The attention of one tree, [1, heads, length, width]. Causal blocks come first, and every row is in one."""
    return _TreeAttention.apply(query, key, value, blocks, scale)


def register() -> None:
    """Register this attention with transformers. Repeated calls have no effect."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _attention)


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    agentfw_tree: tuple[Block, ...] | BlockMask | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function that transformers calls. Raises if a model needs more than plain attention."""
    asked = [name for name in ("softcap", "s_aux", "sliding_window", "position_bias") if others.get(name) is not None]
    if asked or agentfw_tree is None:
        why = f"asks for {', '.join(asked)}" if asked else "doesn't pass the tree to its attention"
        raise UsageError(
            f"{type(module).__name__} {why}: its turns can't be packed as a tree", fix='set learner.packing="plain"'
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if isinstance(agentfw_tree, tuple):
        output = attend(query, key, value, agentfw_tree, scale)
    else:
        from .tree_flex import flex_attend  # slow to import, and not needed on a CPU

        output = flex_attend(query, key, value, agentfw_tree, scale)
    return output.transpose(1, 2).contiguous(), None
