"""The attention of a tree is that of each of its branches."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from agentfw_plugins.learners.token_tree import Packed, TurnTokens, pack

torch = pytest.importorskip("torch")
from torch import Tensor  # noqa: E402

from agentfw_plugins.learners.tree_attention import Kind, RectangleTree  # noqa: E402

tokens = st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple)
some_turns = st.lists(st.builds(TurnTokens, tokens, tokens), min_size=1, max_size=8)


def drawn(length: int, seed: int, heads: int, key_heads: int) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(1, count, length, 16) for count in (heads, key_heads, key_heads)]
    return tuple(torch.randn(shape, generator=generator, requires_grad=True) for shape in shapes)


def mask(packed: Packed, window: int | None = None) -> Tensor:
    ends, depths = torch.from_numpy(packed.subtree_ends), torch.from_numpy(packed.positions[0])
    row = torch.arange(len(ends))
    seen = (row[None, :] <= row[:, None]) & (row[:, None] < ends[None, :])
    return seen if window is None else seen & (depths[:, None] - depths[None, :] < window)


def by_hand(packed: Packed, query: Any, key: Any, value: Any, scale: float, kind: Kind) -> Tensor:
    """All scores at once, as transformers computes them without kernels."""
    groups = query.shape[1] // key.shape[1]
    scores = query @ key.repeat_interleave(groups, 1).transpose(2, 3) * scale
    if kind.cap is not None:
        scores = kind.cap * torch.tanh(scores / kind.cap)
    scores = scores.masked_fill(~mask(packed, kind.window), -torch.inf)
    if kind.sinks is not None:
        sinks = kind.sinks[None, :, None, None].expand(-1, -1, scores.shape[2], 1)
        return torch.cat([scores, sinks], -1).softmax(-1)[..., :-1] @ value.repeat_interleave(groups, 1)
    return scores.softmax(-1) @ value.repeat_interleave(groups, 1)


def close(first: Tensor, second: Tensor) -> bool:
    return bool(torch.allclose(first, second, rtol=1e-4, atol=1e-5))


@given(
    some_turns,
    st.integers(0, 99),
    st.sampled_from([(2, 2), (4, 2), (3, 1)]),
    st.sampled_from([None, 1, 3, 7, 30]),
    st.sampled_from([None, 0.7]),
    st.booleans(),
)
@hypothesis_settings(max_examples=60)
def test_blocks_give_what_a_mask_gives_forwards_and_backwards(
    turns: list[TurnTokens], seed: int, heads: tuple[int, int], window: int | None, cap: float | None, sinks: bool
) -> None:
    (packed,) = pack(turns, 1000)
    query, key, value = given_tensors = drawn(packed.ids.size, seed, *heads)
    if sinks:
        given_tensors += (torch.randn(heads[0], requires_grad=True),)
    kind = Kind(window, cap, given_tensors[3] if sinks else None)

    output = RectangleTree(packed).attend(query, key, value, 0.3, kind)
    expected = by_hand(packed, query, key, value, 0.3, kind)

    assert close(output, expected)
    weights = torch.randn_like(output)
    found = torch.autograd.grad(output, given_tensors, weights)
    for gradient, wanted in zip(found, torch.autograd.grad(expected, given_tensors, weights), strict=True):
        assert close(gradient, wanted)


@pytest.mark.parametrize("kind", [Kind(300), Kind(40, 2.0), Kind(cap=2.0)], ids=str)
def test_long_runs_are_cut_into_blocks(kind: Kind) -> None:
    """A prompt and branches longer than a block, and a branch that begins before the window of another's end."""
    ids = list(range(10, 900))
    (packed,) = pack([TurnTokens(ids, range(400)), TurnTokens(ids[:700], range(300)), TurnTokens(ids, (5, 6))], 5000)
    query, key, value = given_tensors = drawn(packed.ids.size, 0, 2, 1)

    output = RectangleTree(packed).attend(query, key, value, 0.3, kind)

    expected = by_hand(packed, query, key, value, 0.3, kind)
    assert close(output, expected)
    found, wanted = (torch.autograd.grad(of.square().sum(), given_tensors) for of in (output, expected))
    assert all(close(one, other) for one, other in zip(found, wanted, strict=True))


def test_very_different_scores_do_no_harm() -> None:
    """A part that counts for nothing, next to one that counts for all, leaves no hole in the sum."""
    (packed,) = pack([TurnTokens((1, 2), (3, 4)), TurnTokens((1, 2), (5, 6, 7))], 100)
    query, key, value = drawn(packed.ids.size, 0, 1, 1)
    with torch.no_grad():
        query *= 300
    output = RectangleTree(packed).attend(query, key, value, 1.0)

    assert close(output, torch.nn.functional.scaled_dot_product_attention(query, key, value, mask(packed), scale=1.0))
