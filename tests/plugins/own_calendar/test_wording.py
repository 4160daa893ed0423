"""A person reads what attributes mean, and no names of the benchmark."""

from __future__ import annotations

import pytest

from agentfw_plugins.own_calendar.wording import phrase, reworded, weighed
from agentfw_plugins.worlds.calendar.choice_model import FEATURES

JARGON = ("steering", "outreach", "admin", "oneself", "delivery", "topic", "=")


def test_no_attribute_is_called_by_its_name_in_the_benchmark() -> None:
    said = [phrase(feature) for feature in FEATURES]

    assert [words for words in said for one in JARGON if one in words] == []
    assert len(set(said)) >= len(set(FEATURES)) - 4, "series have one phrase for several lengths"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("due today, B: outreach", "due today, B: for customers or partners"),
        ("they pay us, and it is admin work", "they pay us, and it is admin work"),
        ("", ""),
    ],
)
def test_the_reason_of_a_rule_is_reworded_and_that_of_a_model_is_not(given: str, shown: str) -> None:
    assert reworded(given) == shown


def test_weights_are_said_in_words() -> None:
    said = weighed(["steering -0.3", "due today +0.8", "Ask before Fridays"])

    assert said == 'more weight for "due today"; less weight for "about strategy or budgets"; Ask before Fridays'
