"""Named generators: one seed, one result, whatever else is drawn."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw.seeds import Seeds

NAMES = st.lists(st.one_of(st.text(max_size=5), st.integers()), max_size=4)


@pytest.mark.slow
@given(st.integers(), NAMES, NAMES)
def test_a_path_says_which_seed_however_it_was_walked(root: int, first: list[object], second: list[object]) -> None:
    assert Seeds(root).child(*first).child(*second).integer("x") == Seeds(root).integer(*first, *second, "x")


@given(st.integers(), st.lists(st.text(max_size=4), max_size=4), st.lists(st.text(max_size=4), max_size=4))
def test_different_paths_have_different_seeds(root: int, first: list[str], second: list[str]) -> None:
    """Also ("ab", "c") and ("a", "bc"), and a path and its beginning."""
    assert (Seeds(root).integer(*first) == Seeds(root).integer(*second)) == (first == second)


def test_different_roots_have_different_seeds() -> None:
    assert len({Seeds(root).integer("x") for root in range(-500, 500)}) == 1000


@given(st.integers(), NAMES)
def test_a_seed_fits_where_63_bits_fit(root: int, names: list[object]) -> None:
    assert 0 <= Seeds(root).integer(*names) < 2**63


def test_a_seed_is_the_same_on_every_machine_and_in_every_version() -> None:
    """Written down: if these change, every run that was ever made changes with them."""
    assert Seeds(7).integer() == 4359823973405836615
    assert Seeds(7).child("episode", 3).random("arrivals").random() == 0.9554756311785175
    assert Seeds(7).numpy("weights").integers(1000) == 779


def test_drawing_in_one_place_changes_nothing_in_another() -> None:
    seeds = Seeds(7)
    undisturbed = seeds.random("a").random()
    other = seeds.random("b")
    for _ in range(100):
        other.random()
    assert seeds.random("a").random() == undisturbed
