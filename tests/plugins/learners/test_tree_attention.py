"""The attention of a tree is that of each of its branches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from agentfw_plugins.learners.token_tree import Packed, TurnTokens, pack

torch = pytest.importorskip("torch")

from agentfw_plugins.learners import tree_attention  # noqa: E402

tokens = st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple)
some_turns = st.lists(st.builds(TurnTokens, tokens, tokens), min_size=1, max_size=8)


def drawn(length: int, seed: int, heads: int, key_heads: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = [(1, count, length, 16) for count in (heads, key_heads, key_heads)]
    return [torch.randn(shape, generator=generator, requires_grad=True) for shape in shapes]


def mask(packed: Packed) -> torch.Tensor:
    ends = torch.from_numpy(packed.subtree_ends)
    row = torch.arange(len(ends))
    return (row[None, :] <= row[:, None]) & (row[:, None] < ends[None, :])


def close(first: torch.Tensor, second: torch.Tensor) -> bool:
    return bool(torch.allclose(first, second, rtol=1e-4, atol=1e-5))


@given(some_turns, st.integers(0, 99), st.sampled_from([(2, 2), (4, 2), (3, 1)]))
@hypothesis_settings(max_examples=25)
def test_blocks_give_what_a_mask_gives_forwards_and_backwards(
    turns: list[TurnTokens], seed: int, heads: tuple[int, int]
) -> None:
    (packed,) = pack(turns, 1000)
    query, key, value = given_tensors = drawn(packed.ids.size, seed, *heads)
    groups = heads[0] // heads[1]

    output = tree_attention.attend(query, key, value, packed.blocks, 0.3)
    expected = torch.nn.functional.scaled_dot_product_attention(
        query, key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1), mask(packed), scale=0.3
    )

    assert close(output, expected)
    weights = torch.randn_like(output)
    found = torch.autograd.grad(output, given_tensors, weights)
    for gradient, wanted in zip(found, torch.autograd.grad(expected, given_tensors, weights), strict=True):
        assert close(gradient, wanted)


def test_very_different_scores_do_no_harm() -> None:
    """A part that counts for nothing, next to one that counts for all, leaves no hole in the sum."""
    (packed,) = pack([TurnTokens((1, 2), (3, 4)), TurnTokens((1, 2), (5, 6, 7))], 100)
    query, key, value = drawn(packed.ids.size, 0, 1, 1)
    with torch.no_grad():
        query *= 300
    output = tree_attention.attend(query, key, value, packed.blocks, 1.0)

    assert close(output, torch.nn.functional.scaled_dot_product_attention(query, key, value, mask(packed), scale=1.0))
