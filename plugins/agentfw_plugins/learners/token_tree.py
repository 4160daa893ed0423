"""Packs turns into a tree of tokens, so that shared prefixes are computed and trained once.

A model's output for a token depends only on the tokens before it. The samples of one task share the prompt, and the
turns of one episode share the conversation so far. Computing each node of the tree once therefore gives the same
numbers as computing each turn separately.

    >>> turns = [TurnTokens((1, 2, 3), (4, 5)), TurnTokens((1, 2, 3), (4, 6)), TurnTokens((1, 2), (9, 7))]
    >>> (tree,) = pack(turns, tokens=100)
    >>> tree.ids.tolist(), tree.positions.tolist()      # nothing is predicted from a turn's last token
    ([[1, 2, 3, 4, 9]], [[0, 1, 2, 3, 2]])
    >>> for block in tree.blocks:
    ...     print(f"rows {block.first_row} to {block.end_row}, keys {block.first_key} to {block.end_key}")
    rows 0 to 4, keys 0 to 4
    rows 4 to 5, keys 4 to 5
    rows 4 to 5, keys 0 to 2

Sequences sorted by their tokens are in the depth-first order of the tree: the longest prefix that a sequence shares
with any earlier one is shared with its predecessor. A *run* is a stretch of nodes in which each follows the one before.
A run attends to itself causally. All nodes below one node of a run are a stretch of rows, which attends to the start of
the run in full. These blocks are the complete attention of a tree, and no mask is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

FEWEST = 4096  # minimum number of tokens per tree, even if nothing is shared; fewer would underuse a GPU
_CLOSE = 1.05  # a tree size is large enough if it computes at most this many times the unique tokens

Integers = NDArray[numpy.int64]


class TurnTokens(NamedTuple):
    """The prompt and the sampled tokens of a turn. Neither is empty."""

    prompt: Sequence[int]
    sampled: Sequence[int]


class Block(NamedTuple):
    """A stretch of rows that attends to a stretch of keys: causally if both are the same, else in full."""

    first_row: int
    end_row: int
    first_key: int
    end_key: int
    window: int | None = None  # if set, each row only sees the keys that are fewer than this many tokens before it

    @property
    def causal(self) -> bool:
        return self.first_row == self.first_key


@dataclass(frozen=True, slots=True)
class Packed:
    """A batch to compute at once, and the positions to read the logprob of each sampled token from."""

    ids: Integers  # [rows, length]: a tree is one row, otherwise each row is one turn, padded at its end
    positions: Integers  # [rows, length]: the depth of each node
    blocks: tuple[Block, ...]  # the tree's attention; empty if each row is one turn, which every model supports
    subtree_ends: Integers  # [length] of a tree: node n is visible to the nodes from n to before this one
    nodes: Integers  # [pairs]: the node that a token is predicted from, counted through all rows
    targets: Integers  # [pairs]: that token
    pair: Integers  # [sampled tokens]: its pair; turns that sampled the same token after the same prefix share one
    turn: Integers  # [sampled tokens]: the index of its turn; a turn's tokens are contiguous and in order
    computed: int  # number of nodes, without padding


class Forest:
    """Turns in the depth-first order of their tree, which is cut into trees to compute at once."""

    def __init__(self, turns: Sequence[TurnTokens]) -> None:
        self._turns, self._rows = turns, [_inputs(turn) for turn in turns]
        rows = self._rows
        # As big-endian bytes they sort like the tokens themselves, only faster.
        self._order = sorted(range(len(rows)), key=lambda index: rows[index].astype(">u4").tobytes())
        self._lengths = numpy.array([len(rows[index]) for index in self._order], dtype=numpy.int64)
        common = [_common(rows[before], rows[after]) for before, after in pairwise(self._order)]
        self._common = numpy.array([0, *common][: len(rows)], dtype=numpy.int64)  # with the turn before
        self.unique = int((self._lengths - self._common).sum())
        """Number of tokens to compute if every shared prefix is computed once."""

    def trees(self, tokens: int) -> list[Packed]:
        """Trees of at most `tokens` nodes, cut to minimise repeated computation. A longer turn is a tree of its own."""
        order, common, cuts = self._order, self._common, self._cuts(tokens)
        return [
            _tree(order[start:end], [0, *common[start + 1 : end].tolist()], self._rows, self._turns)
            for start, end in cuts
        ]

    def computed(self, tokens: int) -> int:
        """Total number of nodes of all trees with at most `tokens`."""
        return int(self.unique + sum(self._common[start] for start, _ in self._cuts(tokens)))

    def size(self, most: int, workers: int = 1) -> int:
        """The smallest of 4,096, 8,192, ... tokens per tree with hardly any repeated computation, at most `most`.

        With several workers it is each one's part of the tokens, unless a shared prompt makes that dear.
        """
        size = FEWEST
        while size < most and self.computed(size) > _CLOSE * self.unique:
            size *= 2
        size = min(size, most)
        part = min(size, -(-self.unique // workers))
        if workers > 1 and self.computed(part) < workers * self.computed(size):
            return part
        return size

    def _cuts(self, tokens: int) -> list[tuple[int, int]]:
        """Where to cut the ordered turns. A cut costs the prefix that the next turn shares with the one before."""
        new = numpy.concatenate([[0], numpy.cumsum(self._lengths - self._common)])
        cost = numpy.zeros(len(new), dtype=numpy.int64)
        origin = numpy.zeros(len(new), dtype=numpy.int64)
        for end in range(1, len(new)):
            first = min(int(numpy.searchsorted(new, new[end] - tokens)), end - 1)
            size = new[end] - new[first:end] + self._common[first:end]
            fits = size <= tokens
            fits[-1] = True  # a single turn can't be cut
            total = numpy.where(fits, cost[first:end] + size, numpy.iinfo(numpy.int64).max)
            cost[end], origin[end] = total.min(), first + total.argmin()
        pieces: list[tuple[int, int]] = []
        end = len(self._lengths)
        while end:
            pieces.append((int(origin[end]), end))
            end = int(origin[end])
        return pieces[::-1]


def pack(turns: Sequence[TurnTokens], tokens: int) -> list[Packed]:
    return Forest(turns).trees(tokens)


def pack_plain(turns: Sequence[TurnTokens], tokens: int) -> list[Packed]:
    """One turn per row, sorted by length, with at most `tokens` including padding."""
    rows = [_inputs(turn) for turn in turns]
    order = sorted(range(len(rows)), key=lambda index: -len(rows[index]))
    packed: list[Packed] = []
    while order:
        longest = len(rows[order[0]])
        many = max(1, tokens // longest)
        members, order = order[:many], order[many:]
        ids = numpy.zeros((len(members), longest), dtype=numpy.int64)
        read: list[Integers] = []
        for index, member in enumerate(members):
            row = rows[member]
            ids[index, : len(row)] = row  # padding comes after all tokens that are read, so it doesn't affect them
            read.append(index * longest + numpy.arange(len(turns[member].prompt) - 1, len(row)))
        positions = numpy.broadcast_to(numpy.arange(longest), ids.shape)
        computed = sum(len(rows[member]) for member in members)
        packed.append(_packed(members, turns, ids, positions, read, computed))
    return packed


def _inputs(turn: TurnTokens) -> Integers:
    """The tokens that another token is predicted from: all but the last."""
    return numpy.array((*turn.prompt, *turn.sampled)[:-1], dtype=numpy.int64)


def _common(first: Integers, second: Integers) -> int:
    limit = min(len(first), len(second))
    different = first[:limit] != second[:limit]
    return int(different.argmax()) if different.any() else limit


def _tree(
    members: Sequence[int], common: Sequence[int], rows: Sequence[Integers], turns: Sequence[TurnTokens]
) -> Packed:
    """The tree of some turns in order. `common` is the length of the prefix that each shares with the one before."""
    total = sum(len(rows[member]) - shared for member, shared in zip(members, common, strict=True))
    ids, positions, run_of = (numpy.zeros(total, dtype=numpy.int64) for _ in range(3))
    ends = numpy.full(total, total, dtype=numpy.int64)
    runs: list[tuple[int, int]] = []
    hanging: dict[int, tuple[int, int]] = {}  # by node: first rows of the first and last run below it
    path = numpy.zeros(0, dtype=numpy.int64)
    read: list[Integers] = []
    size = 0
    for member, shared in zip(members, common, strict=True):
        row = rows[member]
        end = size + len(row) - shared
        if end > size:
            ends[path[shared:]] = size
            if shared and path[shared - 1] == size - 1:
                runs[-1] = (runs[-1][0], end)
            else:
                if shared:
                    node = int(path[shared - 1])
                    hanging[node] = (hanging.get(node, (size, size))[0], size)
                runs.append((size, end))
            run_of[size:end] = len(runs) - 1
            ids[size:end] = row[shared:]
            positions[size:end] = numpy.arange(shared, len(row))
            path = numpy.concatenate([path[:shared], numpy.arange(size, end)])
            size = end
        read.append(path[len(turns[member].prompt) - 1 : len(row)])
    blocks = [Block(start, end, start, end) for start, end in runs]
    for node, (first, last) in hanging.items():
        # Everything below one node is contiguous.
        blocks.append(Block(first, int(ends[last]), runs[run_of[node]][0], node + 1))
    return _packed(members, turns, ids[None], positions[None], read, total, tuple(blocks), ends)


def _packed(
    members: Sequence[int],
    turns: Sequence[TurnTokens],
    ids: Integers,
    positions: Integers,
    read: Sequence[Integers],
    computed: int,
    blocks: tuple[Block, ...] = (),
    subtree_ends: Integers | None = None,
) -> Packed:
    """Remove duplicates: a token that is read from a node more than once is read once."""
    nodes = numpy.concatenate(read)
    targets = numpy.concatenate([numpy.asarray(turns[member].sampled, dtype=numpy.int64) for member in members])
    turn = numpy.repeat(numpy.array(members), [len(turns[member].sampled) for member in members])
    pairs, pair = numpy.unique(numpy.stack([nodes, targets]), axis=1, return_inverse=True)
    ends = numpy.zeros(0, dtype=numpy.int64) if subtree_ends is None else subtree_ends
    return Packed(ids, positions, blocks, ends, pairs[0], pairs[1], pair.reshape(-1), turn, computed)


_ROWS = 256  # maximum number of rows in a block


def windowed(blocks: Sequence[Block], depths: Integers, window: int | None = None) -> tuple[Block, ...]:
    """Cut the attention of a tree to windows: blocks of few rows, in which each row sees at most `window` tokens.

    A window counts tokens of the branch, so it is measured between the depths of row and key, not between their places
    in the tree. What no row of a block sees isn't computed, and only where a window's edge crosses a block is it
    masked. Causal blocks still come first.

    >>> (tree,) = pack([TurnTokens((1, 2, 3), (4, 5)), TurnTokens((1, 2, 3), (6, 7))], tokens=100)
    >>> for block in windowed(tree.blocks, tree.positions[0], window=2):
    ...     print(*block)
    0 2 0 2 None
    2 4 2 4 None
    4 5 4 5 None
    2 4 1 2 2
    4 5 2 3 None
    """
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
