"""Turns as a tree: every node is there once, sees its own path and nothing else, and each token is read off it."""

from __future__ import annotations

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw_plugins.learners.token_tree import Packed, TurnTokens, pack, pack_plain

# Few different tokens, so that beginnings are often shared.
tokens = st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple)
some_turns = st.lists(st.builds(TurnTokens, tokens, tokens), min_size=1, max_size=10)


def inputs(turn: TurnTokens) -> tuple[int, ...]:
    """What the turn's tokens are predicted from."""
    return (*turn.prompt, *turn.sampled)[:-1]


def seen(packed: Packed) -> numpy.ndarray:
    """Which nodes each node of a tree sees, from its blocks."""
    length = packed.ids.shape[1]
    sees = numpy.zeros((length, length), dtype=int)
    for block in packed.blocks:
        size = (block.end_row - block.first_row, block.end_key - block.first_key)
        part = numpy.tril(numpy.ones(size, dtype=int)) if block.causal else numpy.ones(size, dtype=int)
        sees[block.first_row : block.end_row, block.first_key : block.end_key] += part
    return sees


def readings(packed: Packed, turns: list[TurnTokens]) -> dict[int, list[tuple[tuple[int, ...], int]]]:
    """Of each turn: the path that leads to where each of its tokens is read, and that token."""
    sees = seen(packed)
    found: dict[int, list[tuple[tuple[int, ...], int]]] = {}
    for turn, pair in zip(packed.turn, packed.pair, strict=True):
        path = tuple(packed.ids[0][sees[packed.nodes[pair]] == 1].tolist())
        found.setdefault(int(turn), []).append((path, int(packed.targets[pair])))
    return found


@pytest.mark.slow
@given(some_turns, st.integers(1, 40))
def test_each_token_is_predicted_from_the_whole_of_what_came_before_it_and_from_nothing_else(
    turns: list[TurnTokens], budget: int
) -> None:
    found: dict[int, list[tuple[tuple[int, ...], int]]] = {}
    for packed in pack(turns, budget):
        found |= readings(packed, turns)

    for number, (prompt, sampled) in enumerate(turns):
        whole = (*prompt, *sampled)
        starts = range(len(prompt), len(whole))
        assert found[number] == [(whole[:place], whole[place]) for place in starts]


@pytest.mark.slow
@given(some_turns)
def test_what_turns_share_is_there_once(turns: list[TurnTokens]) -> None:
    (packed,) = pack(turns, 1000)

    beginnings = {inputs(turn)[:end] for turn in turns for end in range(1, len(inputs(turn)) + 1)}
    assert packed.computed == packed.ids.size == len(beginnings)
    assert packed.positions[0].tolist() == (seen(packed).sum(1) - 1).tolist()


@pytest.mark.slow
@given(some_turns)
def test_blocks_and_subtrees_say_the_same(turns: list[TurnTokens]) -> None:
    (packed,) = pack(turns, 1000)

    row = numpy.arange(packed.ids.size)
    below = (row[None, :] <= row[:, None]) & (row[:, None] < packed.subtree_ends[None, :])
    assert (seen(packed) == below).all()


@pytest.mark.slow
@given(some_turns)
def test_a_block_for_each_fork_is_enough(turns: list[TurnTokens]) -> None:
    (packed,) = pack(turns, 1000)

    leaves = {inputs(turn) for turn in turns}
    leaves -= {leaf for leaf in leaves if any(other[: len(leaf)] == leaf for other in leaves - {leaf})}
    assert len(packed.blocks) < 2 * len(leaves)


@pytest.mark.slow
@given(some_turns, st.integers(1, 40))
def test_a_tree_keeps_to_its_budget_unless_it_is_a_single_turn(turns: list[TurnTokens], budget: int) -> None:
    for packed in pack(turns, budget):
        longest = max(len(inputs(turns[turn])) for turn in packed.turn)
        assert packed.computed <= budget or packed.computed == longest


def test_a_cut_goes_where_the_least_is_shared() -> None:
    """Two groups of two with prompts of ten: three of the turns would fit, and still the groups stay whole."""
    first, second = tuple(range(10)), tuple(range(100, 110))
    turns = [TurnTokens(prompt, (token, 50)) for prompt in (first, second) for token in (60, 61)]

    packed = pack(turns, 22)

    assert [tree.computed for tree in packed] == [12, 12]
    assert [set(tree.turn.tolist()) for tree in packed] == [{0, 1}, {2, 3}]


def test_the_prompt_of_a_turn_that_is_not_there_is_not_computed() -> None:
    (packed,) = pack([TurnTokens((1, 2), (3,))], 100)

    assert packed.ids.tolist() == [[1, 2]]
    assert (packed.nodes.tolist(), packed.targets.tolist()) == ([1], [3])


@pytest.mark.slow
@given(some_turns, st.integers(1, 40))
def test_plain_packing_has_a_row_for_each_turn(turns: list[TurnTokens], budget: int) -> None:
    found: dict[int, list[int]] = {}
    for packed in pack_plain(turns, budget):
        rows, length = packed.ids.shape
        assert rows == 1 or rows * length <= budget
        for turn, pair in zip(packed.turn, packed.pair, strict=True):
            row, place = divmod(int(packed.nodes[pair]), length)
            whole = (*turns[turn].prompt, *turns[turn].sampled)
            assert packed.ids[row, : place + 1].tolist() == list(whole[: place + 1])
            assert packed.targets[pair] == whole[place + 1]
            found.setdefault(int(turn), []).append(place)

    assert found == {number: list(range(len(turn.prompt) - 1, len(inputs(turn)))) for number, turn in enumerate(turns)}
