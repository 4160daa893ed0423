"""Named generators: one seed, one result, whatever else is drawn."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentfw.seeds import Seeds


@given(st.integers(), st.lists(st.text(max_size=4), max_size=4), st.lists(st.text(max_size=4), max_size=4))
def test_different_paths_have_different_seeds(root: int, first: list[str], second: list[str]) -> None:
    """Also ("ab", "c") and ("a", "bc"), and a path and its beginning."""
    assert (Seeds(root).integer(*first) == Seeds(root).integer(*second)) == (first == second)


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
