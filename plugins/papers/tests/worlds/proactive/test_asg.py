"""The action state graph against Algorithm 1 of the paper, in ten lines of its own."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from agentfw_papers.timing import STATUSES, Input, Opportunity, Trigger
from agentfw_papers.worlds.proactive.asg import ActionStates, observed
from agentfw_papers.worlds.proactive.domains import load_domain

NAMES = ("send-link", "make-password", "notify-team")
PAIRS = [f"{before}->{after}" for before, after in product(STATUSES, STATUSES)]
EVENT = st.tuples(st.booleans(), st.sampled_from(NAMES), st.sampled_from(STATUSES))


def algorithm_1(events: list[tuple[bool, str, str]], allowed: set[str]) -> list[tuple[str, str]]:
    states: list[tuple[str, str]] = []
    for is_observed, name, status in events:
        place = next((place for place, (known, _) in enumerate(states) if known == name), None)
        if place is None:
            states.append((name, status))
        elif is_observed or f"{states[place][1]}->{status}" in allowed:
            states[place] = (name, status)
    return states


@given(st.lists(EVENT, max_size=12), st.sets(st.sampled_from(PAIRS), min_size=1))
def test_states_follow_algorithm_1(events: list[tuple[bool, str, str]], allowed: set[str]) -> None:
    states = ActionStates(allowed)

    for is_observed, name, status in events:
        one = Opportunity(name, status)  # type: ignore[arg-type]
        states.trigger(one) if is_observed else states.predict([one])

    assert [(one.name, one.status) for one in states] == algorithm_1(events, allowed)


def test_missing_inputs_are_those_of_pending_actions() -> None:
    states = ActionStates()

    states.predict(
        [
            Opportunity("send-link", "pending", (Input("email"), Input("phone", True, "5"))),
            Opportunity("notify-team", "dismissed", (Input("team"),)),
        ]
    )

    assert states.missing() == ["email"]


def test_an_observed_trigger_has_the_values_that_it_was_used_with() -> None:
    trigger = Trigger(5, "Pull up account", {"customer_name": "Joyce Wu"})

    found = observed(trigger, load_domain("abcd").catalog)

    assert found.status == "triggered"
    assert found.inputs["customer_name"].value == "Joyce Wu"
