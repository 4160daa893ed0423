"""The attention of a token tree on a GPU, with torch's compiled flex attention.

Flex attention is compiled once per shape. At torch's limit of recompilations it falls back to a version that stores all
scores, length x length. Attention is therefore padded to powers of two, which keeps the number of shapes small, and the
fallback is an error. Only queries, keys and values are padded. The rest of the model computes only real tokens.

The block mask is built block by block from the end of each node's subtree, so that no length x length mask exists.

    mask = tree_mask(packed.subtree_ends, "cuda")
    output = flex_attend(query, key, value, mask, scale)
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy
import torch
import torch._dynamo
from numpy.typing import NDArray
from torch.nn.attention.flex_attention import BlockMask, flex_attention

from agentfw.errors import AgentfwError

__all__ = ["bucket", "flex_attend", "tree_mask"]

_BLOCK = 128
_SHORTEST = 1024
_NARROWEST = 16
"""Minimum head width that flex attention has kernels for."""
_RECOMPILATIONS = 64
"""Limit of recompilations: eleven lengths up to a million tokens, with and without gradients, several models."""


def bucket(length: int) -> int:
    """The padded length for attention over this many tokens."""
    return max(_SHORTEST, 1 << (length - 1).bit_length())


def tree_mask(subtree_ends: NDArray[numpy.int64], device: str) -> BlockMask:
    """The mask of a padded tree: row q sees key k if k <= q < subtree_ends[k]. Padding only sees itself."""
    length = len(subtree_ends)
    size = bucket(length)
    ends = torch.from_numpy(numpy.concatenate([subtree_ends, numpy.arange(length, size) + 1])).to(device)

    def sees(batch: torch.Tensor, head: torch.Tensor, row: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return (key <= row) & (row < ends[key])

    first_rows = torch.arange(0, size, _BLOCK, device=device)[:, None]
    ends_of_block = ends.view(-1, _BLOCK)
    before = first_rows > first_rows.T
    seen = before & (ends_of_block.amax(1) > first_rows)
    whole = before & (ends_of_block.amin(1) >= first_rows + _BLOCK)
    partial = (seen & ~whole) | (first_rows == first_rows.T)
    return BlockMask.from_kv_blocks(*_listed(partial), *_listed(whole), BLOCK_SIZE=_BLOCK, mask_mod=sees)


def _listed(blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The number of key blocks of each block of rows, and their indexes. The rest of the index list is ignored."""
    order = blocks.int().argsort(dim=1, descending=True, stable=True).int()
    return blocks.sum(1, dtype=torch.int32)[None, None], order[None, None]


def flex_attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: BlockMask, scale: float
) -> torch.Tensor:
    """The attention of one tree, [1, heads, length, width]. Keys and values may have fewer heads."""
    length, width = query.shape[2:]
    missing = (0, max(0, _NARROWEST - width), 0, mask.shape[-1] - length)
    query, key, value = (torch.nn.functional.pad(part, missing) for part in (query, key, value))
    grouped = query.shape[1] != key.shape[1]
    try:
        with torch._dynamo.config.patch(recompile_limit=_RECOMPILATIONS, fail_on_recompile_limit_hit=True):
            output = _compiled()(query, key, value, block_mask=mask, scale=scale, enable_gqa=grouped)
    except torch._dynamo.exc.FailOnRecompileLimitHit as error:
        raise AgentfwError(
            f"flex attention was compiled for more than {_RECOMPILATIONS} shapes, and torch would continue without "
            f"compiling it, with {mask.shape[-1]} x {mask.shape[-1]} scores in memory",
            fix='restart the training with agentfw runs resume, or set learner.packing="plain"',
        ) from error
    return output[:, :, :length, :width]


@functools.cache
def _compiled() -> Callable[..., Any]:
    if torch._dynamo.config.disable:
        raise AgentfwError(
            "torch.compile is disabled, and without it flex attention stores all scores of a tree",
            fix='unset TORCH_COMPILE_DISABLE, or set learner.packing="plain"',
        )
    return torch.compile(flex_attention, dynamic=False)  # type: ignore[no-any-return]
