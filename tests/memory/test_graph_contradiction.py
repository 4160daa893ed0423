"""Which instructions contradict each other."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw_memory.graph.text.contradiction import contradict

OPPOSITES = [
    ("Offer the earliest slot first", "Offer the latest slot first"),
    ("Call before noon", "Never call before noon"),
    ("Avoid mornings", "Prefer mornings"),
    ("For calls, prefer mornings", "For calls, prefer the evening"),
    ("Offer the earliest, not the latest slot", "Offer the latest, not the earliest slot"),
    ("Ask for the order number", "Don't ask for the order number"),
    ("Prefer quiet tables near the window", "Prefer loud tables near the window"),
    ("Take the first flight", "Take the last flight"),
    ("Play jazz in the evening", "Play rock in the evening"),
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
