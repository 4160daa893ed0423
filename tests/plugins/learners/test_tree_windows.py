"""A window takes away what is too far back on a row's own branch, and computes little more than is left."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw_plugins.learners.token_tree import Packed, TurnTokens, pack, windowed

tokens = st.lists(st.integers(0, 2), min_size=1, max_size=12).map(tuple)
some_turns = st.lists(st.builds(TurnTokens, tokens, tokens), min_size=1, max_size=8)


def seen_in(packed: Packed, window: int | None) -> numpy.ndarray:
    """How often each row sees each key in the blocks."""
    depths = packed.positions[0]
    seen = numpy.zeros((len(depths), len(depths)), dtype=int)
    for block in windowed(packed.blocks, depths, window):
        rows, keys = numpy.arange(block.first_row, block.end_row), numpy.arange(block.first_key, block.end_key)
        part = numpy.ones((len(rows), len(keys)), dtype=bool)
        if block.causal:
            part &= keys[None, :] <= rows[:, None]
        if block.window is not None:
            part &= depths[rows][:, None] - depths[keys][None, :] < block.window
        seen[block.first_row : block.end_row, block.first_key : block.end_key] += part
    return seen


@given(some_turns, st.sampled_from([None, 1, 2, 5, 100]))
def test_each_row_sees_each_key_of_its_window_once(turns: list[TurnTokens], window: int | None) -> None:
    (packed,) = pack(turns, 1000)
    rows, depths = numpy.arange(packed.ids.size), packed.positions[0]
    expected = (rows[None, :] <= rows[:, None]) & (rows[:, None] < packed.subtree_ends[None, :])
    if window is not None:
        expected &= depths[:, None] - depths[None, :] < window

    assert (seen_in(packed, window) == expected).all()


@pytest.mark.parametrize("window", [128, 512, 4096])
def test_what_is_out_of_sight_is_not_computed(window: int) -> None:
    """At most the window and the rows of one block."""
    prompt = range(6000)
    (packed,) = pack([TurnTokens(prompt, range(50 + n)) for n in range(8)], 10_000)

    blocks = windowed(packed.blocks, packed.positions[0], window)

    computed = sum((block.end_row - block.first_row) * (block.end_key - block.first_key) for block in blocks)
    assert computed <= packed.ids.size * (window + 256)
    assert [block.causal for block in blocks] == sorted((block.causal for block in blocks), reverse=True)
