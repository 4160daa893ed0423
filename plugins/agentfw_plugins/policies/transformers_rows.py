"""The keys and values of many sequences side by side, a row each, and attention over them.

The one rule: what is computed for a row doesn't depend on the other rows, nor on how its prompt was cut. On a CPU that
holds to the last bit, because a kernel that is asked in the same shape adds in the same order: so tokens come in blocks
of 16, and keys in stretches of 512 of which the unwritten ones are masked.

    rows = Rows(64)
    model(tokens, position_ids=positions, agentfw_plan=Plan(rows, segments=[Segment(row=0, start=0, length=32)]))

A forward pass sees one long line of tokens: first stretches of prompts (`segments`), then one token for each row that
is being continued. What belongs together is decided here, in the attention; the rest of a model looks at single tokens.
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
"""The name of this attention in transformers' register."""
BLOCK = 16
_KEYS = 512
_AT_ONCE = 256  # queries of one prompt that look at the same keys, so that few of them are masked
_NEEDS = {
    "sliding_window": "layers that look back only so far",
    "softcap": "capped attention",
    "s_aux": "attention sinks",
}


def blocks(length: int) -> int:
    """The length in whole blocks, in tokens."""
    return _whole(length, BLOCK)


def _whole(length: int, unit: int) -> int:
    return -(-length // unit) * unit


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of one prompt, in whole blocks."""

    row: int
    start: int
    length: int


class _Continued(NamedTuple):
    """The rows that get one more token, as every layer needs them."""

    rows: Tensor
    positions: Tensor
    hidden: Tensor
    """Minus infinity for the keys that a row doesn't look at, else 0: [rows in whole blocks, 1, 1, keys]."""


@dataclass(slots=True)
class Plan:
    """What one forward pass computes."""

    rows: Rows
    segments: Sequence[Segment] = ()
    ends: Sequence[int] = ()
    """For each row from 0 on, in whole blocks: the position of its next token, or -1 where it isn't continued."""
    _continued: _Continued | None = None
    _seen: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    def continued(self, device: Any) -> _Continued:
        if self._continued is None:
            import torch

            ends = torch.tensor(self.ends, device=device)
            rows = (ends >= 0).nonzero()[:, 0]
            keys = torch.arange(max(_KEYS, blocks(max(self.ends) + 1)), device=device)
            # A row that isn't continued looks at its first token, because it has to look somewhere.
            unseen = keys[None, :] > ends.clamp(min=0)[:, None]
            hidden = torch.zeros(unseen.shape, device=device).masked_fill_(unseen, float("-inf"))
            self._continued = _Continued(rows, ends[rows], hidden[:, None, None, :])
        return self._continued

    def seen(self, start: int, end: int, device: Any) -> Tensor:
        """Which keys the tokens of a prompt from `start` to `end` look at: [blocks, 1, tokens in a block, keys]."""
        if (start, end) not in self._seen:
            import torch

            keys = torch.arange(_whole(end, _KEYS), device=device)
            tokens = torch.arange(start, end, device=device)
            self._seen[start, end] = (keys[None, :] <= tokens[:, None]).unflatten(0, (-1, 1, BLOCK))
        return self._seen[start, end]


class Rows:
    """Keys and values [rows, heads, tokens, width] of every layer; made when a layer first has some."""

    def __init__(self, count: int) -> None:
        self.count = blocks(count)
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._capacity = _KEYS

    def reserve(self, length: int) -> None:
        """Make room for rows of this many tokens."""
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
        """Give the memory back."""
        self._layers.clear()
        self._capacity = _KEYS


def register_attention() -> None:
    """Let transformers know this attention under its name."""
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
    """What transformers calls in each layer. Queries [1, heads, tokens, width]; out comes [1, tokens, heads, width]."""
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
            same = (len(asked), -1, -1, -1)  # every block looks at the same keys
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
        # The queries that share a key stand together: [rows, heads of keys, queries that share one, width].
        asked = query[0, :, offset:].transpose(0, 1).unflatten(1, (keys.shape[1], -1))
        count, width = len(asked), made.hidden.shape[-1]
        scale = asked.shape[-1] ** -0.5 if scaling is None else scaling
        # By hand: for one query a row the kernel above does twice the work.
        weights = (asked @ keys[:count, :, :width].transpose(2, 3)).float().mul_(scale).add_(made.hidden).softmax(-1)
        found = weights.to(values.dtype) @ values[:count, :, :width]
        answer[0, :, offset:] = found.flatten(1, 2).transpose(0, 1)
    return answer.transpose(1, 2).contiguous(), None
