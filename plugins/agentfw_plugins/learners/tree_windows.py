"""Cuts the attention of a token tree to windows: each row sees only the last tokens of its own branch.

A window counts tokens of the branch, so it is measured between the depths of row and key, not between their places in
the tree. What no row of a block sees isn't computed, and only where a window's edge crosses a block is it masked.

    >>> from agentfw_plugins.learners.token_tree import TurnTokens, pack
    >>> (tree,) = pack([TurnTokens((1, 2, 3), (4, 5)), TurnTokens((1, 2, 3), (6, 7))], tokens=100)
    >>> for block in windowed(tree.blocks, tree.positions[0], window=2):
    ...     print(*block)
    0 2 0 2 None
    2 4 2 4 None
    4 5 4 5 None
    2 4 1 2 2
    4 5 2 3 None
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from .token_tree import Block, Integers

__all__ = ["windowed"]

_ROWS = 256
"""Maximum number of rows in a block."""


def windowed(blocks: Sequence[Block], depths: Integers, window: int | None = None) -> tuple[Block, ...]:
    """Blocks of few rows, in which each row sees at most `window` tokens. Causal blocks still come first."""
    size = min(_ROWS, window or _ROWS)
    own: list[Block] = []
    earlier: list[Block] = []
    for first, end, first_key, end_key, _ in blocks:
        for start in range(first, end, size):
            stop = min(start + size, end)
            if first == first_key:
                own.append(Block(start, stop, start, stop))
            last_key = start if first == first_key else end_key
            earlier += _seen(start, stop, first_key, last_key, depths, window)
    return (*own, *earlier)


def _seen(first: int, end: int, first_key: int, end_key: int, depths: Integers, window: int | None) -> list[Block]:
    """The part of these earlier keys that these rows see: what some of them see, and what all see."""
    some = every = first_key
    if window is not None and end_key > first_key:
        # The depths of keys rise by one from key to key, those of rows need not.
        beyond = first_key - depths[first_key] - window + 1
        some, every = (
            int(numpy.clip(depth + beyond, first_key, end_key))
            for depth in (depths[first:end].min(), depths[first:end].max())
        )
    found = [Block(first, end, some, every, window), Block(first, end, every, end_key)]
    return [block for block in found if block.first_key < block.end_key]
