"""Evolution: what a trajectory teaches, what contradicts what, and who has to go when there is no room."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw_memory.errors import BadInputError
from agentfw_memory.graph.contradiction import contradict
from agentfw_memory.graph.extraction import Step, Trajectory, extract
from agentfw_memory.graph.pruning import Cut, near_duplicates, prune


def trajectory(outcome: str = "", steps: tuple[Step, ...] = (), scenarios: tuple[str, ...] = ("refund",)) -> Trajectory:
    return Trajectory("t1", "ana", "my card 4111 1111 was charged twice", scenarios, steps, outcome)


def texts(of: Trajectory) -> list[str]:
    return [draft.text for draft in extract(of)]


@pytest.mark.parametrize(
    ("outcome", "order"),
    [
        ("Ana prefers a voucher.", "prefer a voucher"),
        ("She asked for a call back", "give a call back"),
        ("They dislike long forms!", "avoid long forms"),
        ("He doesn't want a voucher", "avoid a voucher"),
        ("She no longer needs a receipt", "avoid a receipt"),
        ("All done", None),
        ("It looks like rain", None),
    ],
)
def test_a_wish_in_the_outcome_becomes_an_order(outcome: str, order: str | None) -> None:
    assert texts(trajectory(outcome)) == ([f"For refund, {order}"] if order else [])


@pytest.mark.parametrize(
    "outcome", ["Wants mail at ana@home.org", "Prefers calls on +49 (30) 123-456", "Likes www.shop.org", "Wants 4111"]
)
def test_what_is_private_stays_out(outcome: str) -> None:
    assert texts(trajectory(outcome)) == []


def test_the_way_that_worked_is_told_with_its_tools_and_without_what_anybody_wrote() -> None:
    steps = (
        Step("I pull up Ana's account", "accounts"),
        Step("try the card", "card", worked=False),
        Step("send a check instead", "mail"),
        Step("wait"),
        Step("look again", "accounts"),
    )
    drafts = extract(trajectory(steps=steps))
    assert [(draft.text, draft.tools) for draft in drafts] == [
        ("For refund, when card fails, use mail", ("card", "mail")),
        ("For refund, use accounts, then mail", ("accounts", "mail")),
    ]
    assert all(draft.scenarios == ("refund",) for draft in drafts)


def test_no_more_than_three_and_wishes_first() -> None:
    wishes = "Wants tea. Prefers mornings. Dislikes forms. Likes maps."
    assert texts(trajectory(wishes, (Step("go", "map"),), scenarios=())) == [
        "Give tea",
        "Prefer mornings",
        "Avoid forms",
    ]
    assert extract(trajectory(wishes), 0) == []
    with pytest.raises(BadInputError, match="-1 skills"):
        extract(trajectory(), -1)


@given(st.text(max_size=300), st.integers(0, 4))
def test_any_outcome_gives_a_few_short_texts(outcome: str, at_most: int) -> None:
    drafts = extract(trajectory(outcome), at_most)
    assert len(drafts) <= at_most
    assert all(draft.text.strip() and len(draft.text) < 150 for draft in drafts)


OPPOSITES = [
    ("Offer the earliest slot first", "Offer the latest slot first"),
    ("Call before noon", "Never call before noon"),
    ("Avoid mornings", "Prefer mornings"),
    ("For calls, prefer mornings", "For calls, prefer the evening"),
    ("Offer the earliest, not the latest slot", "Offer the latest, not the earliest slot"),
    ("Ask for the order number", "Don't ask for the order number"),
    ("Write short answers", "Write detailed answers with examples"),
]
AT_PEACE = [
    ("Never offer the latest slot", "Offer the earliest slot"),
    ("Offer the earliest slot", "Book the latest flight"),
    ("Ask for the order number", "Never give out a card number"),
    ("For rescheduling, avoid long calls", "For rescheduling, prefer the earliest slot"),
    ("For rescheduling, prefer the earliest slot", "For rescheduling, give the latest news"),
    ("Avoid mornings and late calls", "Avoid late calls"),
    ("Always confirm by email", "Always confirm by email"),
    ("", "Never"),
]


@pytest.mark.parametrize(("one", "other"), OPPOSITES)
def test_opposites_contradict_each_other_both_ways(one: str, other: str) -> None:
    assert contradict(one, other)
    assert contradict(other, one)


@pytest.mark.parametrize(("one", "other"), AT_PEACE)
def test_what_both_can_be_followed_does_not(one: str, other: str) -> None:
    assert not contradict(one, other)
    assert not contradict(other, one)


@given(st.lists(st.sampled_from([*" ".join(sum(OPPOSITES + AT_PEACE, ())).split(), "not", ",", "."]), max_size=12))
def test_nothing_contradicts_itself_without_saying_both(words: list[str]) -> None:
    text = " ".join(dict.fromkeys(words))
    assert contradict(text, text) is contradict(text, text.upper())
    if not {"not", "Never", "Avoid", "avoid", "never", "Don't"} & set(text.split()):
        assert not contradict(text, text)


def unit(*rows: tuple[float, float]) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    array = np.array(rows, np.float32)
    return array / np.linalg.norm(array, axis=1, keepdims=True)


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
