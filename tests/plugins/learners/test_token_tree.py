"""How turns are put into trees of a size; `test_tree_against_plain` says that a tree teaches what single rows teach."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw_plugins.learners.token_tree import TurnTokens, pack

# Few different tokens, so that beginnings are often shared.
tokens = st.lists(st.integers(0, 2), min_size=1, max_size=6).map(tuple)
some_turns = st.lists(st.builds(TurnTokens, tokens, tokens), min_size=1, max_size=10)


def inputs(turn: TurnTokens) -> tuple[int, ...]:
    """What the turn's tokens are predicted from."""
    return (*turn.prompt, *turn.sampled)[:-1]


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
