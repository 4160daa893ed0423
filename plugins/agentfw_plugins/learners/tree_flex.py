"""The attention of a token tree on a GPU, with torch's compiled flex attention.

Flex attention is compiled once per shape. At torch's limit of recompilations it falls back to a version that stores all
scores, length x length. Queries, keys and values are therefore padded to powers of two, which keeps the number of
shapes small, and the fallback is an error.

The block mask is built block by block from the end of each node's subtree and, for a window, from the depths in it, so
that no length x length mask exists.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy
import torch
import torch._dynamo
from torch.nn.attention.flex_attention import AuxRequest, BlockMask, flex_attention

from agentfw.errors import AgentfwError

from ..models.base import LayerAttention
from .token_tree import Packed

_BLOCK = 128
_SHORTEST = 1024
_NARROWEST = 16  # minimum head width that flex attention has kernels for
_RECOMPILATIONS = 64
"""Limit of recompilations: eleven lengths up to a million tokens, with and without gradients, several models."""


def bucket(length: int) -> int:
    """The padded length for attention over this many tokens."""
    return max(_SHORTEST, 1 << (length - 1).bit_length())


def tree_mask(packed: Packed, device: str, window: int | None = None) -> BlockMask:
    """The mask of a padded tree: row q sees key k if k <= q < subtree_ends[k], at most `window` tokens before it.

    Padding only sees itself.
    """
    length = packed.ids.size
    padding = numpy.arange(length, bucket(length))
    ends, depths = (
        torch.from_numpy(numpy.concatenate(parts)).to(device)
        for parts in ((packed.subtree_ends, padding + 1), (packed.positions[0], padding))
    )

    def sees(batch: torch.Tensor, head: torch.Tensor, row: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        below = (key <= row) & (row < ends[key])
        return below if window is None else below & (depths[row] - depths[key] < window)

    first_rows = torch.arange(0, len(ends), _BLOCK, device=device)[:, None]
    ends_of_block = ends.view(-1, _BLOCK)
    before = first_rows > first_rows.T
    seen = before & (ends_of_block.amax(1) > first_rows)
    whole = before & (ends_of_block.amin(1) >= first_rows + _BLOCK)
    if window is not None:
        low, high = (depths.view(-1, _BLOCK).amin(1), depths.view(-1, _BLOCK).amax(1))
        # A block that only seems to be in reach is masked in full; the kernel computes it for nothing.
        seen &= low[:, None] - high < window
        whole &= high[:, None] - low < window
    partial = (seen & ~whole) | (first_rows == first_rows.T)
    return BlockMask.from_kv_blocks(*_listed(partial), *_listed(whole), BLOCK_SIZE=_BLOCK, mask_mod=sees)


def _listed(blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The number of key blocks of each block of rows, and their indexes. The rest of the index list is ignored."""
    order = blocks.int().argsort(dim=1, descending=True, stable=True).int()
    return blocks.sum(1, dtype=torch.int32)[None, None], order[None, None]


class FlexTree:
    """A tree on a GPU. Its mask is made once for each window."""

    def __init__(self, packed: Packed, device: str) -> None:
        self._packed, self._device = packed, device
        self._masks: dict[int | None, BlockMask] = {}

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, layer: LayerAttention
    ) -> torch.Tensor:
        """The attention [1, heads, length, width] of the same. Keys and values may have fewer heads."""
        if layer.window not in self._masks:
            self._masks[layer.window] = tree_mask(self._packed, self._device, layer.window)
        mask = self._masks[layer.window]
        length, width = query.shape[2:]
        missing = (0, max(0, _NARROWEST - width), 0, mask.shape[-1] - length)
        query, key, value = (torch.nn.functional.pad(part, missing) for part in (query, key, value))
        options: dict[str, Any] = {
            "block_mask": mask,
            "scale": layer.scale,
            "enable_gqa": query.shape[1] != key.shape[1],
        }
        if layer.cap is not None:
            options["score_mod"] = _capping(layer.cap)
        try:
            with torch._dynamo.config.patch(recompile_limit=_RECOMPILATIONS, fail_on_recompile_limit_hit=True):
                if layer.sinks is None:
                    output = _compiled()(query, key, value, **options)
                else:
                    output, found = _compiled()(query, key, value, **options, return_aux=AuxRequest(lse=True))
                    # A sink's share of a row is sink / (sink + sum).
                    share = torch.sigmoid(found.lse - layer.sinks.float()[:, None])
                    output = output * share[..., None].to(output.dtype)
        except torch._dynamo.exc.FailOnRecompileLimitHit as error:
            raise AgentfwError(
                f"flex attention was compiled for more than {_RECOMPILATIONS} shapes, and torch would continue without "
                f"compiling it, with {mask.shape[-1]} x {mask.shape[-1]} scores in memory",
                fix='restart the training with agentfw runs resume, or set learner.packing="plain"',
            ) from error
        return output[:, :, :length, :width]


@functools.cache
def _capping(cap: float) -> Callable[..., torch.Tensor]:
    """One function per cap, because flex attention is compiled again for each function."""

    def capped(score: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return cap * torch.tanh(score / cap)

    return capped


@functools.cache
def _compiled() -> Callable[..., Any]:
    if torch._dynamo.config.disable:
        wrong = "torch.compile is disabled, and without it flex attention stores all scores of a tree"
        raise AgentfwError(wrong, fix='unset TORCH_COMPILE_DISABLE, or set learner.packing="plain"')
    return torch.compile(flex_attention, dynamic=False)  # type: ignore[no-any-return]
