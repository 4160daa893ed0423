"""The KV cache of the policy `transformers`: keys and values of many sequences, one per row, and their attention.

The result of a row doesn't depend on the other rows, or on how its prompt was split. On a CPU this holds to the last
bit, because a kernel that is called with the same shape always adds in the same order. For that, tokens come in blocks
of 16, and keys in stretches of 512, with unwritten keys masked.

    rows = Rows(64)
    model(tokens, position_ids=positions, agentfw_plan=Plan(rows, segments=[Segment(row=0, start=0, length=32)]))

A forward pass gets one long sequence of tokens: first parts of prompts (`segments`), then one token for each row that
is being continued. Only the attention knows which tokens belong together. The rest of a model works on single tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from agentfw.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ATTENTION", "BLOCK", "Plan", "Rows", "Segment", "blocks", "register_attention"]

ATTENTION = "agentfw_rows"
"""Name of this attention in transformers' register."""
BLOCK = 16
_KEYS = 512
_AT_ONCE = 256  # queries of one prompt that are computed with the same keys, so that few keys are masked
_NEEDS = {
    "sliding_window": "layers that look back only so far",
    "softcap": "capped attention",
    "s_aux": "attention sinks",
}


def blocks(length: int) -> int:
    """The length rounded up to whole blocks, in tokens."""
    return _whole(length, BLOCK)


def _whole(length: int, unit: int) -> int:
    return -(-length // unit) * unit


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of one prompt, in whole blocks."""

    row: int
    start: int
    length: int


class _Continued(NamedTuple):
    """The rows that get one more token, in the form that every layer needs."""

    rows: Tensor
    positions: Tensor
    hidden: Tensor
    """Minus infinity for masked keys, else 0: [rows in whole blocks, 1, 1, keys]."""


@dataclass(slots=True)
class Plan:
    """The content of one forward pass."""

    rows: Rows
    segments: Sequence[Segment] = ()
    ends: Sequence[int] = ()
    """For each row, in whole blocks: the position of its next token, or -1 if it isn't continued."""
    _continued: _Continued | None = None
    _seen: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    def continued(self, device: Any) -> _Continued:
        if self._continued is None:
            import torch

            ends = torch.tensor(self.ends, device=device)
            rows = (ends >= 0).nonzero()[:, 0]
            keys = torch.arange(max(_KEYS, blocks(max(self.ends) + 1)), device=device)
            # A row that isn't continued attends to its first token, because softmax needs at least one key.
            unseen = keys[None, :] > ends.clamp(min=0)[:, None]
            hidden = torch.zeros(unseen.shape, device=device).masked_fill_(unseen, float("-inf"))
            self._continued = _Continued(rows, ends[rows], hidden[:, None, None, :])
        return self._continued

    def seen(self, start: int, end: int, device: Any) -> Tensor:
        """The key mask of a prompt's tokens from `start` to `end`: [blocks, 1, tokens in a block, keys]."""
        if (start, end) not in self._seen:
            import torch

            keys = torch.arange(_whole(end, _KEYS), device=device)
            tokens = torch.arange(start, end, device=device)
            self._seen[start, end] = (keys[None, :] <= tokens[:, None]).unflatten(0, (-1, 1, BLOCK))
        return self._seen[start, end]


class Rows:
    """Keys and values [rows, heads, tokens, width] of every layer. Allocated when a layer first needs them."""

    def __init__(self, count: int) -> None:
        self.count = blocks(count)
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._capacity = _KEYS

    def reserve(self, length: int) -> None:
        """Allocate room for rows of this many tokens."""
        import torch.nn.functional as functional

        wanted = _whole(length, _KEYS)
        if wanted > self._capacity:
            more = (0, 0, 0, wanted - self._capacity)
            for layer, (keys, values) in self._layers.items():
                self._layers[layer] = functional.pad(keys, more), functional.pad(values, more)
            self._capacity = wanted

    def layer(self, index: int, like: Tensor) -> tuple[Tensor, Tensor]:
        if index not in self._layers:
            shape = (self.count, like.shape[1], self._capacity, like.shape[3])
            self._layers[index] = like.new_zeros(shape), like.new_zeros(shape)
        return self._layers[index]

    def copy(self, source: int, target: int, length: int) -> None:
        for pair in self._layers.values():
            for cached in pair:
                cached[target, :, :length] = cached[source, :, :length]

    def swap(self, one: int, two: int, length: int) -> None:
        for pair in self._layers.values():
            for cached in pair:
                kept = cached[one, :, :length].clone()
                cached[one, :, :length] = cached[two, :, :length]
                cached[two, :, :length] = kept

    def clear(self) -> None:
        """Release the memory."""
        self._layers.clear()
        self._capacity = _KEYS


def register_attention() -> None:
    """Register this attention with transformers."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, _attention)


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    agentfw_plan: Plan | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """The attention function of each layer. Queries [1, heads, tokens, width]; returns [1, tokens, heads, width]."""
    import torch
    import torch.nn.functional as functional

    for name, what in _NEEDS.items():
        if others.get(name) is not None:
            raise UsageError(
                f"this model has {what} ({name}), which the policy transformers doesn't compute",
                fix="serve it with the policy vllm",
            )
    if agentfw_plan is None:
        answer = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, scale=scaling, enable_gqa=True
        )
        return answer.transpose(1, 2).contiguous(), None
    plan, answer = agentfw_plan, torch.empty_like(query)
    keys, values = plan.rows.layer(module.layer_idx, key)
    offset = 0
    for segment in plan.segments:
        end = segment.start + segment.length
        new = slice(offset, offset + segment.length)
        keys[segment.row, :, segment.start : end] = key[0, :, new]
        values[segment.row, :, segment.start : end] = value[0, :, new]
        for start in range(segment.start, end, _AT_ONCE):
            here = slice(offset, offset + min(_AT_ONCE, end - start))
            seen = plan.seen(start, start + here.stop - here.start, query.device)
            asked = query[0, :, here].unflatten(1, (-1, BLOCK)).transpose(0, 1)
            same = (len(asked), -1, -1, -1)  # every block uses the same keys
            found = functional.scaled_dot_product_attention(
                asked,
                keys[segment.row : segment.row + 1, :, : seen.shape[-1]].expand(same),
                values[segment.row : segment.row + 1, :, : seen.shape[-1]].expand(same),
                attn_mask=seen,
                scale=scaling,
                enable_gqa=True,
            )
            answer[0, :, here] = found.transpose(0, 1).flatten(1, 2)
            offset = here.stop
    if plan.ends:
        made = plan.continued(query.device)
        keys[made.rows, :, made.positions] = key[0, :, offset:].transpose(0, 1)[made.rows]
        values[made.rows, :, made.positions] = value[0, :, offset:].transpose(0, 1)[made.rows]
        # Group the queries that share a key: [rows, heads of keys, queries that share one, width].
        asked = query[0, :, offset:].transpose(0, 1).unflatten(1, (keys.shape[1], -1))
        count, width = len(asked), made.hidden.shape[-1]
        scale = asked.shape[-1] ** -0.5 if scaling is None else scaling
        # Computed by hand: for one query per row, the kernel above does twice the work.
        weights = (asked @ keys[:count, :, :width].transpose(2, 3)).float().mul_(scale).add_(made.hidden).softmax(-1)
        found = weights.to(values.dtype) @ values[:count, :, :width]
        answer[0, :, offset:] = found.flatten(1, 2).transpose(0, 1)
    return answer.transpose(1, 2).contiguous(), None
