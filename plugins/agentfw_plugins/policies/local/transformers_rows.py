"""The KV cache of the policy `transformers`: keys and values of many sequences, one per row, and their attention.

The result of a row doesn't depend on the other rows, or on how its prompt was split. On a CPU this holds to the last
bit, because a kernel that is called with the same shape always adds in the same order. For that, tokens come in blocks
of 16, and keys in stretches of 512, with unwritten keys masked. While all rows are short, 128 keys do: kernels add so
few in one go, and any further keys, which are masked, add zeros.

    rows = Rows(64)
    model(tokens, position_ids=positions, agentfw_plan=Plan(rows, segments=[Segment(row=0, start=0, length=32)]))

A forward pass gets one long sequence of tokens: first parts of prompts (`segments`), then one token for each row that
is being continued. Only the attention knows which tokens belong together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from ...models.base import LayerAttention

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

ATTENTION = "agentfw_rows"  # name of this attention in transformers' register
BLOCK = 16
_KEYS, _FEW_KEYS = 512, 128
_AT_ONCE = 256  # queries of one prompt that are computed with the same keys, so that few keys are masked


def blocks(length: int, unit: int = BLOCK) -> int:
    """The length rounded up to whole blocks, in tokens."""
    return -(-length // unit) * unit


class Segment(NamedTuple):
    """A part of one prompt, in whole blocks."""

    row: int
    start: int
    length: int


class _Continued(NamedTuple):
    """The rows that get one more token, in the form that layers with the same window need."""

    rows: Tensor
    positions: Tensor
    hidden: Tensor  # minus infinity for masked keys, else 0: [rows in whole blocks, 1, 1, 1, keys]
    near: Tensor | None
    """Where the keys of each row are, if some rows are longer than the window: [rows in whole blocks, keys]."""
    alone: Mapping[int, slice]
    """The keys of each row that is computed by itself. Among the others, it sees its first key only."""

    def of(self, cached: Tensor) -> Tensor:
        """Of what is kept of each row, the part that it is computed with: [rows, heads, keys, width]."""
        import torch

        some = cached[: len(self.hidden)]
        if self.near is None:
            return some[:, :, : self.hidden.shape[-1]]
        begins = torch.arange(0, some[..., 0].numel(), some.shape[2], device=some.device)
        return some.flatten(0, 2)[begins.view(*some.shape[:2], 1) + self.near[:, None]]


@dataclass(slots=True)
class Plan:
    """The content of one forward pass."""

    rows: Rows
    segments: Sequence[Segment] = ()
    ends: Sequence[int] = ()
    """For each row, in whole blocks: the position of its next token, or -1 if it isn't continued."""
    _continued: dict[int | None, _Continued] = field(default_factory=dict)
    _seen: dict[tuple[int, int, int | None], tuple[int, Tensor]] = field(default_factory=dict)

    def continued(self, window: int | None, device: Any) -> _Continued:
        if window not in self._continued:
            import torch

            ends = torch.tensor(self.ends, device=device)
            rows = (ends >= 0).nonzero()[:, 0]
            # A CPU's kernels are many times faster for one row with many keys than for many such rows.
            alone = {
                row: slice(0 if window is None else max(0, end - window + 1), end + 1)
                for row, end in enumerate(self.ends)
                if end >= _KEYS and device.type == "cpu"
            }
            # A row that isn't continued attends to its first token, because softmax needs at least one key.
            together = [0 if row in alone else max(0, end) for row, end in enumerate(self.ends)]
            longest = max(together) + 1
            width = _FEW_KEYS if longest <= _FEW_KEYS else max(_KEYS, blocks(longest))
            lasts, near = torch.tensor(together, device=device), None
            if window is None or longest <= window:
                seen = _in_sight(lasts, torch.arange(width, device=device), window)
            else:
                # A row's keys begin at a place of its own, so that the others can't change the order of adding.
                firsts = (lasts - window + 1).clamp(min=0) // BLOCK * BLOCK
                near = firsts[:, None] + torch.arange(blocks(window) + BLOCK, device=device)
                seen = _in_sight(lasts, near, window)
                near.clamp_(max=width - 1)  # those beyond are masked
            hidden = torch.zeros(seen.shape, device=device).masked_fill_(~seen, float("-inf"))
            self._continued[window] = _Continued(rows, ends[rows], hidden[:, None, None, None, :], near, alone)
        return self._continued[window]

    def seen(self, start: int, end: int, window: int | None, device: Any) -> tuple[int, Tensor]:
        """The first key of a stretch for a prompt's tokens from `start` to `end`, and the mask [tokens, keys]."""
        if (start, end, window) not in self._seen:
            import torch

            # Keys begin at a whole stretch, too, so that a kernel adds them in the same order for every token.
            first = 0 if window is None else max(0, start - window + 1) // _KEYS * _KEYS
            keys = torch.arange(first, blocks(end, _KEYS), device=device)
            tokens = torch.arange(start, end, device=device)
            self._seen[start, end, window] = first, _in_sight(tokens, keys, window)
        return self._seen[start, end, window]


def _in_sight(tokens: Tensor, keys: Tensor, window: int | None) -> Tensor:
    """Which of the keys each token sees, both by their positions: [tokens, keys]. Keys can be each token's own."""
    seen = keys <= tokens[:, None]
    return seen if window is None else seen & (keys > tokens[:, None] - window)


class Rows:
    """Keys and values [rows, heads, tokens, width] of every layer. Allocated when a layer first needs them."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._count, self._capacity = BLOCK, _KEYS

    def reserve(self, row: int, length: int) -> None:
        """Allocate room for this many tokens in all rows up to this one."""
        import torch.nn.functional as functional

        count, capacity = max(self._count, blocks(row + 1)), max(self._capacity, blocks(length, _KEYS))
        more = (0, 0, 0, capacity - self._capacity, 0, 0, 0, count - self._count)
        if any(more):
            for layer, (keys, values) in self._layers.items():
                self._layers[layer] = functional.pad(keys, more), functional.pad(values, more)
            self._count, self._capacity = count, capacity

    def layer(self, index: int, like: Tensor) -> tuple[Tensor, Tensor]:
        if index not in self._layers:
            shape = (self._count, like.shape[1], self._capacity, like.shape[3])
            self._layers[index] = like.new_zeros(shape), like.new_zeros(shape)
        return self._layers[index]

    def copy(self, source: int, target: int, length: int) -> None:
        self.reserve(target, length)
        for pair in self._layers.values():
            for cached in pair:
                cached[target, :, :length] = cached[source, :, :length]

    def swap(self, one: int, two: int, length: int) -> None:
        self.reserve(max(one, two), length)
        for pair in self._layers.values():
            for cached in pair:
                kept = cached[one, :, :length].clone()
                cached[one, :, :length] = cached[two, :, :length]
                cached[two, :, :length] = kept

    def clear(self) -> None:
        self._layers.clear()
        self._count, self._capacity = BLOCK, _KEYS


def register_attention() -> None:
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, _attention)


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    softcap: float | None = None,
    s_aux: Tensor | None = None,
    agentfw_plan: Plan | None = None,
    agentfw_lengths: Sequence[int] = (),
    **others: Any,
) -> tuple[Tensor, None]:
    """The attention function of each layer. Queries [1, heads, tokens, width]; returns [1, tokens, heads, width]."""
    import torch

    layer = LayerAttention.of(module, query, scaling, softcap, s_aux)
    answer = torch.empty_like(query)
    if agentfw_plan is None:  # one sequence, or several one behind the other, and nothing is kept
        offset, alone = 0, Plan(Rows(1))
        for length in agentfw_lengths or query.shape[2:3]:
            here = slice(offset, offset + length)
            _read(query[:, :, here], key[:, :, here], value[:, :, here], 0, layer, alone, answer[:, :, here])
            offset = here.stop
        return answer.transpose(1, 2).contiguous(), None
    plan = agentfw_plan
    keys, values = plan.rows.layer(module.layer_idx, key)
    offset = 0
    for row, start, length in plan.segments:
        here = slice(offset, offset + length)
        keys[row, :, start : start + length] = key[0, :, here]
        values[row, :, start : start + length] = value[0, :, here]
        _read(query[:, :, here], keys[row : row + 1], values[row : row + 1], start, layer, plan, answer[:, :, here])
        offset = here.stop
    if plan.ends:
        made = plan.continued(layer.window, query.device)
        keys[made.rows, :, made.positions] = key[0, :, offset:].transpose(0, 1)[made.rows]
        values[made.rows, :, made.positions] = value[0, :, offset:].transpose(0, 1)[made.rows]
        # Group the queries that share a key: [rows, heads of keys, queries that share one, 1, width].
        asked = query[0, :, offset:].transpose(0, 1).unflatten(1, (keys.shape[1], -1))[:, :, :, None]
        # Computed by hand: for one query per row, torch's kernel does twice the work.
        found = _by_hand(asked, made.of(keys), made.of(values), made.hidden, layer)
        for row, here in made.alone.items():
            for head in range(keys.shape[1]):
                some = row, head, here
                found[row, head, :, 0] = _alone(asked[row, head, :, 0], keys[some], values[some], layer, head)
        answer[0, :, offset:] = found.flatten(1, 3).transpose(0, 1)
    return answer.transpose(1, 2).contiguous(), None


def _read(
    query: Tensor, keys: Tensor, values: Tensor, start: int, layer: LayerAttention, plan: Plan, answer: Tensor
) -> None:
    """Compute the tokens of a prompt from `start` on, in whole blocks, all [1, heads, tokens, width]."""
    import torch.nn.functional as functional

    length = query.shape[2]
    by_hand = layer.cap is not None or layer.sinks is not None  # no kernel computes these
    # By hand, blocks are computed one by one where the order of adding matters.
    size = BLOCK if by_hand and query.device.type == "cpu" else _AT_ONCE
    for offset in range(0, length, size):
        here = slice(offset, min(offset + size, length))
        first, seen = plan.seen(start + offset, start + here.stop, layer.window, query.device)
        some = slice(first, first + seen.shape[1])
        near, seen = keys[:, :, some], seen[:, : keys.shape[2] - first]
        if by_hand:
            asked = query[:, :, here].unflatten(1, (keys.shape[1], -1))
            hidden = seen.new_zeros(seen.shape, dtype=query.dtype).masked_fill_(~seen, float("-inf"))
            answer[:, :, here] = _by_hand(asked, near, values[:, :, some], hidden, layer).flatten(1, 2)
        else:
            # Queries that share a key stand behind each other: torch would make copies of the keys.
            asked = query[0, :, here].unflatten(1, (-1, BLOCK)).unflatten(0, (keys.shape[1], -1)).permute(2, 0, 1, 3, 4)
            same = (len(asked), -1, -1, -1)  # every block uses the same keys
            found = functional.scaled_dot_product_attention(
                asked.flatten(2, 3),
                near.expand(same),
                values[:, :, some].expand(same),
                attn_mask=seen.unflatten(0, (-1, 1, BLOCK)).repeat(1, 1, asked.shape[2], 1),
                scale=layer.scale,
            )
            answer[0, :, here] = found.unflatten(2, asked.shape[2:4]).permute(1, 2, 0, 3, 4).flatten(2, 3).flatten(0, 1)


def _by_hand(asked: Tensor, keys: Tensor, values: Tensor, hidden: Tensor, layer: LayerAttention) -> Tensor:
    """Queries [rows, heads of keys, queries that share one, tokens, width]. `hidden` is added to the scores."""
    shape = asked.shape[2:4]
    scores = (asked.flatten(2, 3) @ keys.transpose(2, 3)).float().unflatten(2, shape)
    sinks = None if layer.sinks is None else layer.sinks.float().unflatten(0, asked.shape[1:3])[:, :, None, None]
    weights = _weights(scores, layer, sinks, hidden)
    return (weights.to(values.dtype).flatten(2, 3) @ values).unflatten(2, shape)


def _alone(asked: Tensor, keys: Tensor, values: Tensor, layer: LayerAttention, head: int) -> Tensor:
    """The queries [queries that share a key, width] of one token, with all keys that it sees: [keys, width]."""
    scores = (keys @ asked.T).T.float()  # this way round, it takes half the time in fp32
    sinks = None if layer.sinks is None else layer.sinks.float()[head * len(asked) : (head + 1) * len(asked), None]
    return _weights(scores, layer, sinks).to(values.dtype) @ values


def _weights(scores: Tensor, layer: LayerAttention, sinks: Tensor | None, hidden: Tensor | None = None) -> Tensor:
    import torch

    scores = scores.mul_(layer.scale)
    if layer.cap is not None:
        scores = scores.div_(layer.cap).tanh_().mul_(layer.cap)
    if hidden is not None:
        scores += hidden
    if sinks is None:
        return scores.softmax(-1)
    return torch.cat([scores, sinks.expand(*scores.shape[:-1], 1)], -1).softmax(-1)[..., :-1]


Answer = tuple[Sequence[int], Sequence[int]]
_COMPUTED, _SCORED = 4096, 128
"""Tokens of one pass: all, and those of answers, for each of which the logits of a whole vocabulary are kept."""


def score(model: PreTrainedModel, answers: Sequence[Answer]) -> list[tuple[float, ...]]:
    """The logprobs of each answer's tokens after its prompt."""
    together = model.config._attn_implementation == ATTENTION  # any other would let one answer see the next
    return [found for some in _passes(answers, together) for found in _score(model, some, together)]


def _passes(answers: Sequence[Answer], together: bool) -> Iterator[list[Answer]]:
    some: list[Answer] = []
    for answer in answers:
        more = [*some, answer]
        computed = sum(blocks(len(prompt) + len(tokens)) for prompt, tokens in more)
        scored = sum(len(tokens) for _, tokens in more)
        if some and (not together or computed > _COMPUTED or scored > _SCORED):
            yield some
            more = [answer]
        some = more
    if some:
        yield some


def _score(model: PreTrainedModel, answers: Sequence[Answer], together: bool) -> list[tuple[float, ...]]:
    import torch

    lengths = [blocks(len(prompt) + len(tokens)) for prompt, tokens in answers]
    ids: list[int] = []
    positions: list[int] = []
    kept: list[int] = []
    for (prompt, tokens), length in zip(answers, lengths, strict=True):
        first = len(ids) + len(prompt) - 1
        kept += range(first, first + len(tokens))
        ids += [*prompt, *tokens, *[0] * (length - len(prompt) - len(tokens))]
        positions += range(length)
    # In whole blocks, too: with fewer rows, some processors' kernels add the logits in another order.
    scored = len(kept)
    kept += kept[-1:] * (blocks(scored) - scored)
    logits = model(
        torch.tensor([ids], device=model.device),
        position_ids=torch.tensor([positions], device=model.device),
        use_cache=False,
        logits_to_keep=torch.tensor(kept, device=model.device),
        **({"agentfw_lengths": lengths} if together else {}),
    ).logits[0, :scored]
    sampled = torch.tensor([token for _, tokens in answers for token in tokens], device=logits.device)
    found = (logits.gather(-1, sampled[:, None])[:, 0].float() - logits.float().logsumexp(-1)).tolist()
    values = iter(found)
    return [tuple(next(values) for _ in tokens) for _, tokens in answers]
