"""When an agent is shown what became known: the four interfaces, as arithmetic."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw.errors import SettingsError, UnknownNameError
from agentfw.interfaces import EventDriven, Interface, Polling, Reflex, StepLoop, parse_interface

MOMENTS = st.one_of(st.integers(0, 10**12), st.floats(0, 1e12))


@pytest.mark.slow
@given(MOMENTS, st.one_of(st.integers(1, 10**6), st.floats(1e-300, 1e6)))
def test_polling_looks_at_the_next_multiple_and_never_in_the_past(now: float, every: float) -> None:
    when = Polling(every).delivery(now, busy=True)
    assert when is not None
    assert now <= when <= now + every * (1 + 1e-6) + now * 1e-15
    assert Polling(every).delivery(now, busy=False) == now


@pytest.mark.parametrize(
    ("text", "interface"),
    [
        ("event_driven", EventDriven()),
        ("Event-Driven", EventDriven()),
        (" step-loop ", StepLoop()),
        ("polling:15", Polling(15)),
        ("polling:1e-3", Polling(0.001)),
        ("reflex", Reflex()),
    ],
)
def test_interfaces_have_words(text: str, interface: Interface) -> None:
    assert parse_interface(text) == interface


@pytest.mark.parametrize("text", ["polling", "polling:", "polling:often", "polling:-3", "polling:nan"])
def test_polling_needs_an_interval(text: str) -> None:
    with pytest.raises(SettingsError, match=r"poll|interval"):
        parse_interface(text)


@pytest.mark.parametrize("text", ["", "events", "step_loop:3", "reflex:3"])
def test_an_unknown_interface_is_an_error_that_knows_the_others(text: str) -> None:
    with pytest.raises(UnknownNameError) as raised:
        parse_interface(text)
    assert "polling:EVERY" in raised.value.fix
