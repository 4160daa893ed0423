"""What skills a trajectory teaches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw_memory.errors import BadInputError
from agentfw_memory.graph.learning.extraction import Step, Trajectory, extract


def trajectory(outcome: str = "", steps: tuple[Step, ...] = (), scenarios: tuple[str, ...] = ("refund",)) -> Trajectory:
    return Trajectory("t1", "ana", "my card 4111 1111 was charged twice", scenarios, steps, outcome)


def texts(of: Trajectory) -> list[str]:
    return [draft.text for draft in extract(of)]


def test_what_the_user_said_is_taken_as_it_was_said() -> None:
    assert texts(trajectory("I'd rather have the aisle. Lieber am Fenster!")) == [
        "For refund: I'd rather have the aisle.",
        "For refund: Lieber am Fenster!",
    ]
    assert texts(trajectory("...")) == []


@pytest.mark.parametrize(
    "outcome", ["Wants mail at ana@home.org", "Prefers calls on +49 (30) 123-456", "Likes www.shop.org", "Wants 4111"]
)
def test_what_is_private_stays_out(outcome: str) -> None:
    assert texts(trajectory(outcome)) == []


def test_nothing_is_drafted_that_nobody_said() -> None:
    steps = (Step("try the card", "card", worked=False), Step("send a check instead", "mail"), Step("wait"))
    assert extract(trajectory(steps=steps)) == []
    (wish,) = extract(trajectory("I'd rather have the aisle.", steps))
    assert (wish.tools, wish.scenarios) == (("mail",), ("refund",))


def test_no_more_than_three() -> None:
    wishes = "Wants tea. Prefers mornings. Dislikes forms. Likes maps."
    assert texts(trajectory(wishes, (Step("go", "map"),), scenarios=())) == [
        "Wants tea.",
        "Prefers mornings.",
        "Dislikes forms.",
    ]
    assert extract(trajectory(wishes), 0) == []
    with pytest.raises(BadInputError, match="-1 skills"):
        extract(trajectory(), -1)


@given(st.text(max_size=300), st.integers(0, 4))
def test_any_outcome_gives_a_few_short_texts(outcome: str, at_most: int) -> None:
    drafts = extract(trajectory(outcome), at_most)
    assert len(drafts) <= at_most
    assert all(draft.text.strip() and len(draft.text) < 150 for draft in drafts)
