"""The attention of a token tree for transformers, with a CPU implementation.

A tree's attention is a list of rectangles (token_tree), each of which is plain attention, causal or full. A row in
several rectangles combines them by their logsumexps, and the backward pass of each rectangle needs only the full row's
output and logsumexp. No length x length mask exists. On a GPU, many small rectangles would be many small kernels, so
flex attention is used there (tree_flex).

A layer may see only so far back (token_tree.windowed), cap its scores, or have attention sinks. A capped score is
cap tanh(score / cap), which no kernel of torch computes on a CPU (Gemma 2). A sink is one more score, of a key whose
value is zero. The row's output and logsumexp include it, so the backward passes of the rectangles need not know of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from agentfw.errors import UsageError

from ..models.base import LayerAttention
from .token_tree import Block, Packed, windowed

if TYPE_CHECKING:
    from .tree_flex import FlexTree

NAME = "agentfw_tree"  # name of this attention in transformers
_HIDDEN = -1e30  # added to the score of a key beyond the window; finite, so that a row may see no key of a rectangle


class RectangleTree:
    """A tree on the CPU. Its rectangles are cut once for each window."""

    def __init__(self, packed: Packed) -> None:
        self._blocks, self._depths = packed.blocks, packed.positions[0]
        self._cut: dict[int | None, tuple[Block, ...]] = {}

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layer: LayerAttention
    ) -> torch.Tensor:
        """The attention [1, heads, length, width] of the same. Keys and values may have fewer heads."""
        blocks = self._blocks
        if layer.window is not None or layer.cap is not None:
            if layer.window not in self._cut:
                self._cut[layer.window] = windowed(blocks, self._depths, layer.window)
            blocks = self._cut[layer.window]
        depths = torch.from_numpy(self._depths)
        output: torch.Tensor = _TreeAttention.apply(query, key, value, layer.sinks, blocks, depths, layer)
        return output


class _TreeAttention(torch.autograd.Function):  # type: ignore[misc]
    """Causal blocks come first, and every row is in one."""

    @staticmethod
    def forward(
        ctx: Any,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        sinks: torch.Tensor | None,
        blocks: Sequence[Block],
        depths: torch.Tensor,
        layer: LayerAttention,
    ) -> torch.Tensor:
        ctx.blocks, ctx.depths, ctx.scale, ctx.cap = blocks, depths, layer.scale, layer.cap
        groups = query.shape[1] // key.shape[1]
        keys, values = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
        output = torch.empty_like(query)
        sums = query.new_empty(query.shape[:3], dtype=torch.float32)
        for block in blocks:
            rows, seen = slice(block.first_row, block.end_row), slice(block.first_key, block.end_key)
            of, mask = (query[:, :, rows], keys[:, :, seen]), _mask(block, depths, query.dtype)
            if layer.cap is None:
                flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
                part, part_sums = flash(*of, values[:, :, seen], 0.0, block.causal, attn_mask=mask, scale=layer.scale)
            else:
                scores, _ = _capped_scores(*of, block.causal, mask, layer.scale, layer.cap)
                part_sums = scores.logsumexp(-1)
                part = (scores - part_sums[..., None]).exp_().to(value.dtype) @ values[:, :, seen]
            if block.causal:  # each row's own run comes first
                output[:, :, rows], sums[:, :, rows] = part, part_sums
            else:
                # The share of the two sums is a / (a + b) = sigmoid(log a - log b).
                share = torch.sigmoid(part_sums - sums[:, :, rows])
                output[:, :, rows].lerp_(part, share[..., None].to(part.dtype))
                sums[:, :, rows] = torch.logaddexp(sums[:, :, rows], part_sums)
        if sinks is not None:
            sink = sinks.float()[:, None]
            output.mul_(torch.sigmoid(sums - sink)[..., None].to(output.dtype))
            sums = torch.logaddexp(sums, sink)
        ctx.save_for_backward(query, key, value, sinks, output, sums)
        return output

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        query, key, value, sinks, output, sums = ctx.saved_tensors
        groups = query.shape[1] // key.shape[1]
        keys, values = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
        (gradient,) = gradients
        query_gradient, key_gradient, value_gradient = (torch.zeros_like(of) for of in (query, keys, values))
        for block in ctx.blocks:
            rows, seen = slice(block.first_row, block.end_row), slice(block.first_key, block.end_key)
            above, its_query, its_output, its_sums = (of[:, :, rows] for of in (gradient, query, output, sums))
            its_key, its_value = keys[:, :, seen], values[:, :, seen]
            mask = _mask(block, ctx.depths, query.dtype)
            # Output and logsumexp are those over all keys that a row sees.
            if ctx.cap is None:
                flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
                given = above, its_query, its_key, its_value, its_output, its_sums, 0.0, block.causal
                parts = flash(*given, attn_mask=mask, scale=ctx.scale)
            else:
                scores, rise = _capped_scores(its_query, its_key, block.causal, mask, ctx.scale, ctx.cap)
                chances = (scores - its_sums[..., None]).exp_()
                own = (above.float() * its_output.float()).sum(-1, keepdim=True)
                slope = (above @ its_value.transpose(2, 3)).float() - own
                slope = slope.mul_(chances).mul_(rise).mul_(ctx.scale).to(query.dtype)
                to_value = chances.to(value.dtype).transpose(2, 3) @ above
                parts = slope @ its_key, slope.transpose(2, 3) @ its_query, to_value
            query_gradient[:, :, rows] += parts[0]
            key_gradient[:, :, seen] += parts[1]
            value_gradient[:, :, seen] += parts[2]
        sink_gradient = None
        if sinks is not None and ctx.needs_input_grad[3]:
            own = (gradient.float() * output.float()).sum(-1)
            sink_gradient = -(torch.exp(sinks.float()[:, None] - sums) * own).sum((0, 2)).to(sinks.dtype)
        if groups > 1:
            key_gradient = key_gradient.unflatten(1, (-1, groups)).sum(2)
            value_gradient = value_gradient.unflatten(1, (-1, groups)).sum(2)
        return query_gradient, key_gradient, value_gradient, sink_gradient, None, None, None


def _mask(block: Block, depths: torch.Tensor, dtype: torch.dtype) -> torch.Tensor | None:
    """What is added to the scores of a block that a window's edge crosses."""
    if block.window is None:
        return None
    rows, keys = depths[block.first_row : block.end_row], depths[block.first_key : block.end_key]
    beyond = rows[:, None] - keys[None, :] >= block.window
    return torch.zeros(beyond.shape, dtype=dtype).masked_fill_(beyond, _HIDDEN)


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
    softcap: float | None = None,
    s_aux: torch.Tensor | None = None,
    agentfw_tree: RectangleTree | FlexTree | None = None,
    **others: Any,
) -> tuple[torch.Tensor, None]:
    """The attention function that transformers calls. Raises if a model needs more than this computes."""
    biased = others.get("position_bias") is not None
    if biased or agentfw_tree is None:
        why = "asks for position_bias" if biased else "doesn't pass the tree to its attention"
        raise UsageError(
            f"{type(module).__name__} {why}: its turns can't be packed as a tree", fix='set learner.packing="plain"'
        )
    layer = LayerAttention.of(module, query, scaling, softcap, s_aux)
    return agentfw_tree.attend(query, key, value, layer).transpose(1, 2).contiguous(), None


def _capped_scores(
    query: torch.Tensor, key: torch.Tensor, causal: bool, mask: torch.Tensor | None, scale: float, cap: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The masked scores in fp32, and how fast they rise with the plain ones."""
    bent = torch.tanh((query @ key.transpose(2, 3)).float() * (scale / cap))
    scores = bent * cap
    if causal:
        scores.masked_fill_(torch.ones(scores.shape[2:], dtype=torch.bool, device=scores.device).triu(1), -torch.inf)
    return scores if mask is None else scores + mask, 1 - bent.square_()
