"""The teacher of small models: right about actions and inputs, in a manner that the text doesn't tell."""

from __future__ import annotations

import pytest

from agentfw_papers.worlds.proactive.dataset import generated
from agentfw_papers.worlds.proactive.domains import load_domain
from agentfw_papers.worlds.proactive.players import MANNERS, Manner, teach

EXAMPLES = generated(load_domain("abcd"), "train", seed=7, count=30)


@pytest.mark.parametrize("manner", MANNERS)
def test_actions_and_inputs_are_those_of_the_references(manner: Manner) -> None:
    for one in EXAMPLES:
        for turn in range(1, one.annotation.length + 1):
            said, expected = teach(one, turn, manner), one.annotation.at(turn).opportunities
            assert [(each.name, each.inputs) for each in said] == [(each.name, each.inputs) for each in expected]


@pytest.mark.parametrize("delay", [0, 1, 2, 3])
def test_an_action_is_ready_that_many_turns_late(delay: Manner) -> None:
    assert isinstance(delay, int)
    for one in EXAMPLES:
        for name, window in one.annotation.windows.items():
            ready = [
                turn for turn in window if any(each.name == name and each.ready for each in teach(one, turn, delay))
            ]
            assert ready == [turn for turn in window if turn >= window[0] + delay]
