"""A window costs little more than what it leaves; `test_tree_attention` says what it takes away."""

from __future__ import annotations

import pytest

from agentfw_plugins.learners.token_tree import TurnTokens, pack, windowed


@pytest.mark.parametrize("window", [128, 512, 4096])
def test_what_is_out_of_sight_is_not_computed(window: int) -> None:
    """At most the window and the rows of one block."""
    prompt = range(6000)
    (packed,) = pack([TurnTokens(prompt, range(50 + n)) for n in range(8)], 10_000)

    blocks = windowed(packed.blocks, packed.positions[0], window)

    computed = sum((block.end_row - block.first_row) * (block.end_key - block.first_key) for block in blocks)
    assert computed <= packed.ids.size * (window + 256)
    assert [block.causal for block in blocks] == sorted((block.causal for block in blocks), reverse=True)
