"""What the tool does besides what every tool does."""

import asyncio
from typing import Any

import pytest

from agentfw_postcards.stamp import Stamp, StampSettings


async def answer(settings: StampSettings, arguments: dict[str, Any]) -> tuple[bool, str]:
    (stamp,) = await Stamp(settings).open()
    return await stamp.answer(arguments)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"to": "home"}, "1 x 85 + 10 cents, 0.95 in all"),
        ({"to": "abroad", "cards": 4}, "4 x 85 + 20 + 20 cents, 5.00 in all"),
    ],
)
def test_it_names_the_stamps_and_the_sum(arguments: dict[str, Any], expected: str) -> None:
    assert asyncio.run(answer(StampSettings(), arguments)) == (True, expected)


def test_where_they_do_not_come_out_even_it_is_a_little_more() -> None:
    settings = StampSettings(home=97, stamps=(50, 20))

    assert asyncio.run(answer(settings, {"to": "home"})) == (True, "1 x 50 + 20 + 20 + 20 cents, 1.10 in all")


def test_no_card_and_a_million_cards_are_refused() -> None:
    for cards in (0, 1_000_000):
        well, text = asyncio.run(answer(StampSettings(), {"to": "home", "cards": cards}))
        assert not well
        assert "cards" in text
