"""Words of a spec: the weights of rewards, which may change over rounds and updates, and the four interfaces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw.errors import SettingsError, UnknownNameError
from agentfw.interfaces import EventDriven, Interface, Polling, Reflex, StepLoop, parse_interface
from agentfw.runs.spec.weights import Progress, parse_schedule

WEIGHT = st.floats(-10, 10)


@given(WEIGHT, WEIGHT, st.integers(1, 50))
def test_a_curriculum_goes_in_a_straight_line_from_first_to_last(first: float, last: float, rounds: int) -> None:
    schedule = parse_schedule(f"round:{first}->{last}")

    values = [schedule(Progress(round=number, rounds=rounds)) for number in range(rounds + 1)]

    assert (values[0], values[-1]) == (first, pytest.approx(last))
    assert values == pytest.approx([first + (last - first) * number / rounds for number in range(rounds + 1)])


@pytest.mark.parametrize(
    ("update", "weight"), [(0, 0.8), (33, 0.8), (34, 0.6), (66, 0.6), (67, 0.5), (99, 0.5), (100, 0.5)]
)
def test_stages_change_at_a_third_and_two_thirds(update: int, weight: float) -> None:
    assert parse_schedule("stages:0.8,0.6,0.5")(Progress(update=update, updates=100)) == weight


def test_a_ramp_rises_to_its_cap_and_stays() -> None:
    ramp = parse_schedule("ramp:0.3@0.5")

    values = [ramp(Progress(update=update, updates=4)) for update in range(5)]

    assert values == pytest.approx([0, 0.15, 0.3, 0.3, 0.3])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (0.5, 0.5),
        ("0.5", 0.5),
        (" stages:0.8,0.6,0.4 ", 0.6),
        ("ramp:0.3", 0.15),
        ("ramp:1->0.7", 0.85),
        ("ramp:1->0.7@0.5", 0.7),
    ],
)
def test_schedules_have_words(text: str | float, value: float) -> None:
    assert parse_schedule(text)(Progress(round=1, rounds=4, update=5, updates=10)) == pytest.approx(value)


WRONG = "much nan round:1 round:a->b stages: stages:1,,2 ramp: ramp:1-> ramp:->1 ramp:1->0@2 ramp:1@0 ramp:1@2 up:1"


@pytest.mark.parametrize("text", ["", float("inf"), *WRONG.split()])
def test_what_is_no_weight_is_an_error_that_says_what_is(text: str | float) -> None:
    with pytest.raises(SettingsError) as raised:
        parse_schedule(text)
    assert raised.value.fix


MOMENTS = st.one_of(st.integers(0, 10**12), st.floats(0, 1e12))


@given(MOMENTS, st.one_of(st.integers(1, 10**6), st.floats(1e-300, 1e6)))
def test_polling_looks_at_the_next_multiple_and_never_in_the_past(now: float, every: float) -> None:
    when = Polling(every).delivery(now, busy=True)
    assert when is not None
    assert now <= when <= now + every * (1 + 1e-6) + now * 1e-15
    assert Polling(every).delivery(now, busy=False) == now


@pytest.mark.parametrize(
    ("text", "interface"),
    [
        ("Event-Driven", EventDriven()),
        (" step-loop ", StepLoop()),
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


@pytest.mark.parametrize("text", ["", "events", "step_loop:3"])
def test_an_unknown_interface_is_an_error_that_knows_the_others(text: str) -> None:
    with pytest.raises(UnknownNameError) as raised:
        parse_interface(text)
    assert "polling:EVERY" in raised.value.fix
