"""Turns as a tree of tokens: what several turns begin with is computed, and trained, once.

What a model computes for a token depends only on the tokens before it. So the samples of one prompt share the prompt,
the turns of one episode share what was said before, and computing each node of the tree once gives the same numbers as
computing each turn by itself.

    >>> turns = [TurnTokens((1, 2, 3), (4, 5)), TurnTokens((1, 2, 3), (4, 6)), TurnTokens((1, 2), (9, 7))]
    >>> (tree,) = pack(turns, tokens=100)
    >>> tree.ids.tolist(), tree.positions.tolist()      # nothing is predicted from a turn's last token
    ([[1, 2, 3, 4, 9]], [[0, 1, 2, 3, 2]])
    >>> tree.blocks
    (Block(first_row=0, end_row=4, first_key=0, end_key=4), Block(first_row=4, end_row=5, first_key=4, end_key=5), \
Block(first_row=4, end_row=5, first_key=0, end_key=2))

Sequences in the order of their tokens are the tree in depth-first order: what one has in common with any before it, it
has in common with the one just before it. A *run* is a stretch of nodes each of which follows the one before. A run
attends to itself causally; all that hangs on one node of a run is a stretch of rows, and attends to the run's beginning
in full. These blocks are all there is to the attention of a tree: no mask is ever made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy
from numpy.typing import NDArray

__all__ = ["FEWEST", "Block", "Packed", "TurnTokens", "choose_size", "pack", "pack_plain", "unique_tokens"]

FEWEST = 4096
"""Tokens of a tree that are computed at once even where nothing is shared: less would leave a GPU idle."""
_CLOSE = 1.05
"""A size is large enough if it computes at most this many times the unique tokens."""

Integers = NDArray[numpy.int64]


class TurnTokens(NamedTuple):
    """What a turn was shown and what it sampled; neither is empty."""

    prompt: Sequence[int]
    sampled: Sequence[int]


class Block(NamedTuple):
    """A stretch of rows that attends to a stretch of keys: causally where both are the same, else in full."""

    first_row: int
    end_row: int
    first_key: int
    end_key: int

    @property
    def causal(self) -> bool:
        return self.first_row == self.first_key


@dataclass(frozen=True, slots=True)
class Packed:
    """What is computed in one go, and from where the logprob of each sampled token is read."""

    ids: Integers
    """[rows, length]. A tree is one row; else each row is one turn, filled up at its end."""
    positions: Integers
    """[rows, length]: how deep each node is."""
    blocks: tuple[Block, ...]
    """The tree's attention; none where each row is one turn, which is what every model expects."""
    subtree_ends: Integers
    """[length] of a tree: the nodes that see node n are those from n to before this."""
    nodes: Integers
    """[pairs]: which node, counted through all rows, a token is predicted from."""
    targets: Integers
    """[pairs]: that token."""
    pair: Integers
    """[sampled tokens]: the pair of each; turns that sampled the same after the same share it."""
    turn: Integers
    """[sampled tokens]: which of the turns that were given it is of. A turn's tokens stand together, in order."""
    computed: int
    """How many nodes there are, besides what rows are filled up with."""


def pack(turns: Sequence[TurnTokens], tokens: int) -> list[Packed]:
    """Trees of at most `tokens` nodes, cut so that the least is computed twice; a longer turn is a tree of its own."""
    rows, order, lengths, common = _ordered(turns)
    return [
        _tree(order[start:end], [0, *common[start + 1 : end].tolist()], rows, turns)
        for start, end in _cuts(lengths, common, tokens)
    ]


def choose_size(turns: Sequence[TurnTokens], most: int) -> int:
    """The least of 4,096, 8,192, ... tokens a tree at which hardly anything is computed twice; at most `most`."""
    _, _, lengths, common = _ordered(turns)
    unique = int((lengths - common).sum())
    size = FEWEST
    while size < most and _computed(lengths, common, size) > _CLOSE * unique:
        size *= 2
    return min(size, most)


def unique_tokens(turns: Sequence[TurnTokens]) -> int:
    """How many tokens there are to compute where everything that turns share is computed once."""
    _, _, lengths, common = _ordered(turns)
    return int((lengths - common).sum())


def pack_plain(turns: Sequence[TurnTokens], tokens: int) -> list[Packed]:
    """One turn a row, turns of like length together, at most `tokens` with what rows are filled up with."""
    rows = [_inputs(turn) for turn in turns]
    order = sorted(range(len(rows)), key=lambda index: -len(rows[index]))
    packed: list[Packed] = []
    while order:
        many = max(1, tokens // len(rows[order[0]]))
        packed.append(_rows(order[:many], rows, turns))
        order = order[many:]
    return packed


def _ordered(turns: Sequence[TurnTokens]) -> tuple[list[Integers], list[int], Integers, Integers]:
    """The inputs, their depth-first order, and in that order their lengths and what each shares with the last one."""
    rows = [_inputs(turn) for turn in turns]
    # As big-endian bytes they compare like the tokens themselves, only faster.
    order = sorted(range(len(rows)), key=lambda index: rows[index].astype(">u4").tobytes())
    lengths = numpy.array([len(rows[index]) for index in order], dtype=numpy.int64)
    common = [_common(rows[before], rows[after]) for before, after in pairwise(order)]
    return rows, order, lengths, numpy.array([0, *common][: len(rows)], dtype=numpy.int64)


def _inputs(turn: TurnTokens) -> Integers:
    """The tokens that another is predicted from: all but the last."""
    return numpy.array((*turn.prompt, *turn.sampled)[:-1], dtype=numpy.int64)


def _common(first: Integers, second: Integers) -> int:
    """How many tokens both begin with."""
    limit = min(len(first), len(second))
    different = first[:limit] != second[:limit]
    return int(different.argmax()) if different.any() else limit


def _cuts(lengths: Integers, common: Integers, tokens: int) -> list[tuple[int, int]]:
    """Where to cut the ordered turns: a cut costs what the turn after it shares with the one before."""
    new = numpy.concatenate([[0], numpy.cumsum(lengths - common)])
    cost = numpy.zeros(len(new), dtype=numpy.int64)
    origin = numpy.zeros(len(new), dtype=numpy.int64)
    for end in range(1, len(new)):
        first = min(int(numpy.searchsorted(new, new[end] - tokens)), end - 1)
        size = new[end] - new[first:end] + common[first:end]
        fits = size <= tokens
        fits[-1] = True  # a turn by itself can't be cut
        total = numpy.where(fits, cost[first:end] + size, numpy.iinfo(numpy.int64).max)
        cost[end], origin[end] = total.min(), first + total.argmin()
    pieces: list[tuple[int, int]] = []
    end = len(lengths)
    while end:
        pieces.append((int(origin[end]), end))
        end = int(origin[end])
    return pieces[::-1]


def _computed(lengths: Integers, common: Integers, tokens: int) -> int:
    """How many nodes all trees of at most `tokens` have together."""
    nodes = numpy.cumsum(lengths - common)
    pieces = _cuts(lengths, common, tokens)
    return int(nodes[-1]) + sum(int(common[start]) for start, _ in pieces)


def _tree(
    members: Sequence[int], common: Sequence[int], rows: Sequence[Integers], turns: Sequence[TurnTokens]
) -> Packed:
    """The tree of some turns, which are in order; `common` is what each shares with the one before it."""
    total = sum(len(rows[member]) - shared for member, shared in zip(members, common, strict=True))
    ids, positions, run_of = (numpy.zeros(total, dtype=numpy.int64) for _ in range(3))
    ends = numpy.full(total, total, dtype=numpy.int64)
    runs: list[tuple[int, int]] = []
    hanging: dict[int, tuple[int, int]] = {}  # by node: the first rows of the first and of the last run that hang on it
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
        # What hangs on one node lies side by side.
        blocks.append(Block(first, int(ends[last]), runs[run_of[node]][0], node + 1))
    return _packed(members, turns, ids[None], positions[None], read, total, tuple(blocks), ends)


def _rows(members: Sequence[int], rows: Sequence[Integers], turns: Sequence[TurnTokens]) -> Packed:
    """Some turns, one a row. What a row is filled up with comes after all that is read, so nothing read sees it."""
    longest = max(len(rows[member]) for member in members)
    ids = numpy.zeros((len(members), longest), dtype=numpy.int64)
    read: list[Integers] = []
    for index, member in enumerate(members):
        row = rows[member]
        ids[index, : len(row)] = row
        read.append(index * longest + numpy.arange(len(turns[member].prompt) - 1, len(row)))
    positions = numpy.broadcast_to(numpy.arange(longest), ids.shape)
    return _packed(members, turns, ids, positions, read, sum(len(rows[member]) for member in members))


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
    """With each token that is read from a node more than once read once."""
    nodes = numpy.concatenate(read)
    targets = numpy.concatenate([numpy.asarray(turns[member].sampled, dtype=numpy.int64) for member in members])
    turn = numpy.repeat(numpy.array(members), [len(turns[member].sampled) for member in members])
    pairs, pair = numpy.unique(numpy.stack([nodes, targets]), axis=1, return_inverse=True)
    ends = numpy.zeros(0, dtype=numpy.int64) if subtree_ends is None else subtree_ends
    return Packed(ids, positions, blocks, ends, pairs[0], pairs[1], pair.reshape(-1), turn, computed)
