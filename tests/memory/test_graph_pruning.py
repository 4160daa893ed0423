"""Which skills are merged and which retire when an owner has too many."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw_memory.errors import BadInputError
from agentfw_memory.graph.learning.pruning import Cut, near_duplicates, prune


def unit(*rows: tuple[float, float]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    array = np.array(rows, np.float32)
    array /= np.linalg.norm(array, axis=1, keepdims=True)
    return array


def test_near_duplicates_point_at_the_first_of_them() -> None:
    rows = unit((1, 0), (0, 1), (1, 0.01), (1, 0.02), (0.01, 1))
    assert near_duplicates(rows, 0.9) == [(0, 2), (0, 3), (1, 4)]
    assert near_duplicates(rows[:0], 0.9) == []


def test_a_chain_of_small_steps_does_not_merge_its_ends() -> None:
    rows = unit(*[(np.cos(angle), np.sin(angle)) for angle in (0.0, 0.3, 0.6)])
    assert near_duplicates(rows, 0.95) == [(0, 1)]


def test_duplicates_are_found_across_blocks() -> None:
    rows = np.eye(2500, dtype=np.float32)
    rows[2400] = rows[3]
    assert near_duplicates(rows, 0.9) == [(3, 2400)]


def test_under_the_cap_nobody_goes() -> None:
    assert prune(unit((1, 0), (1, 0)), [0.0, 0.0], [9, 9], maximum=2, merge_above=0.9) == Cut()


def test_what_is_alike_merges_into_the_more_useful_before_anything_is_lost() -> None:
    rows = unit((1, 0), (0, 1), (1, 0.01))
    assert prune(rows, [0.2, 0.1, 0.9], [5, 5, 5], maximum=2, merge_above=0.9) == Cut(merged=((2, 0),))


def test_then_the_least_useful_goes_and_an_untried_one_gets_its_chance() -> None:
    rows = np.eye(4, dtype=np.float32)
    assert prune(rows, [0.9, 0.1, 0.0, 0.8], [5, 5, 0, 5], maximum=3, merge_above=0.9) == Cut(retired=(1,))
    assert prune(rows, [0.9, 0.1, 0.0, 0.8], [5, 5, 0, 5], maximum=2, merge_above=0.9) == Cut(retired=(1, 2))


def test_of_equals_the_oldest_goes() -> None:
    assert prune(np.eye(3, dtype=np.float32), [0.5] * 3, [1] * 3, maximum=2, merge_above=0.9) == Cut(retired=(0,))


@given(st.lists(st.tuples(st.floats(0, 1), st.integers(0, 5), st.integers(0, 3)), max_size=20), st.integers(0, 20))
def test_the_cap_is_held_exactly_and_nobody_goes_twice(skills: list[tuple[float, int, int]], cap: int) -> None:
    rows = np.eye(4, dtype=np.float32)[[kind for _, _, kind in skills]].reshape(-1, 4)
    plan = prune(rows, [worth for worth, _, _ in skills], [uses for _, uses, _ in skills], maximum=cap, merge_above=0.9)
    gone = [goes for _, goes in plan.merged] + list(plan.retired)
    assert len(gone) == len(set(gone)) == max(0, len(skills) - cap)
    assert not {stays for stays, _ in plan.merged} & {goes for _, goes in plan.merged}
    assert prune(rows[:0], [], [], maximum=0, merge_above=0.9) == Cut()


def test_a_cap_below_nothing_is_refused() -> None:
    with pytest.raises(BadInputError, match="maximum of -1"):
        prune(unit((1, 0)), [0.0], [0], maximum=-1, merge_above=0.9)
