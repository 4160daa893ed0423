"""The attention of a tree of tokens: a few blocks of plain attention, put together.

The one rule: no T x T mask is made. A tree's attention is a list of rectangles (token_tree), each of which is plain
attention, causal or full. A row that several rectangles say something of weighs them by the sums that each has seen
(their logsumexps), and backwards each rectangle needs nothing but the whole row's output and sum: so memory grows with
the tokens and time with the pairs that see each other.

    model.set_attn_implementation(NAME)
    model(ids, position_ids=positions, agentfw_blocks=blocks)

That is for processors. On CUDA many small rectangles would be many small kernels: there the model's flex attention
gets the same tree as a block mask (`block_mask`), made from where each node's subtree ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from agentfw.errors import UsageError

from .token_tree import Block

__all__ = ["NAME", "attend", "block_mask", "register"]

NAME = "agentfw_tree"
"""How transformers calls this attention."""

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
                # The share of the two sums: a / (a + b) is the sigmoid of log a - log b.
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
    """Let transformers know of this attention; doing it again does nothing."""
    from transformers import AttentionInterface

    AttentionInterface.register(NAME, _attention)


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    agentfw_blocks: Sequence[Block] = (),
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """As transformers calls it. What a model asks for beside plain attention is refused, not left out."""
    asked = [name for name in ("softcap", "s_aux", "sliding_window", "position_bias") if others.get(name) is not None]
    if asked or not agentfw_blocks:
        why = f"asks for {', '.join(asked)}" if asked else "doesn't hand the tree on to its attention"
        raise UsageError(
            f"{type(module).__name__} {why}: its turns can't be packed as a tree", fix='set learner.packing="plain"'
        )
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return attend(query, key, value, agentfw_blocks, scale).transpose(1, 2).contiguous(), None


def block_mask(subtree_ends: torch.Tensor) -> Any:
    """The tree for flex attention: node k is seen by node q if q is in the stretch from k to where its subtree ends."""
    from torch.nn.attention.flex_attention import create_block_mask

    def sees(batch: torch.Tensor, head: torch.Tensor, row: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return (key <= row) & (row < subtree_ends[key])

    length, device = len(subtree_ends), subtree_ends.device
    # Compiled, the blocks are found without ever holding all pairs; there is nothing to compile for on a processor.
    return create_block_mask(sees, 1, None, length, length, device=device, _compile=device.type == "cuda")
