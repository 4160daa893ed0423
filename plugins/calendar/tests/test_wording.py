"""A person reads what attributes mean, and no names of the benchmark."""

from __future__ import annotations

import pytest

from agentfw_calendar.language.texts import Texts
from agentfw_calendar.language.wording import reason_in_words
from agentfw_plugins.worlds.calendar.event_attributes import RULES

TITLES = {"A": "Lunch", "B": "Demo"}


@pytest.mark.parametrize(
    ("given", "language", "shown"),
    [
        ("due today, B: outreach", "en", 'due today; against "Demo": for customers or partners'),
        ("B: outreach", "de", "gegen „Demo“: für Kunden oder Partner"),
        ("a client comes, due today", "fr", "avec un client, à rendre aujourd'hui"),
        ("hardly any difference", "es", "casi ninguna diferencia"),
        ("you are away then", "it", "quel giorno non ci sei"),
        ("they pay us, and it is admin work", "de", "they pay us, and it is admin work"),
        ("C: nobody comes", "en", "C: nobody comes"),
        ("", "pt", ""),
    ],
)
def test_the_reason_of_a_rule_is_reworded_and_that_of_a_model_is_not(given: str, language: str, shown: str) -> None:
    assert reason_in_words(given, TITLES, Texts.of(language)) == shown


@pytest.mark.parametrize("rule", RULES)
def test_each_simple_rule_is_said_in_the_language(rule: str) -> None:
    reason = rule.replace("_", " ")

    assert reason_in_words(reason, TITLES, Texts.of()) == reason
    assert reason_in_words(reason, TITLES, Texts.of("de")) != reason
