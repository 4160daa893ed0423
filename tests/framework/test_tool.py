"""Tools: typed functions that an agent can call, and that may fail without anything else failing."""

from __future__ import annotations

import asyncio
import json
import math
import threading
import time
import warnings
from contextlib import suppress
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfw.errors import InterventionRefused
from agentfw.tool import Tool, describe, tool


def answer(one: Tool, **arguments: Any) -> tuple[bool, str]:
    return asyncio.run(one.answer(arguments))


@tool
def weather(city: str, days: int = 1) -> dict[str, object]:
    """The weather in a city.

    city: its name
    """
    return {"city": city, "days": days}


@tool(name="add_up", takes=2, timeout=5)
async def add(numbers: list[float]) -> float:
    """Add numbers."""
    return sum(numbers)


def test_an_answer_is_text_and_json_where_it_is_not() -> None:
    assert answer(weather, city="Łódź", days="3") == (True, '{"city": "Łódź", "days": 3}')
    assert answer(add, numbers=["1", 2]) == (True, "3.0")

    @tool
    def thing() -> object:
        """Something that JSON can't say."""
        return object

    assert answer(thing) == (True, "<class 'object'>")


@tool
def quit_all() -> str:
    """Quit."""
    raise SystemExit(0)


@tool
async def cancelled() -> str:
    """Cancel."""
    raise asyncio.CancelledError


def test_a_tool_that_ends_python_or_itself_is_an_answer() -> None:
    for broken in (quit_all, cancelled):
        well, text = answer(broken)
        assert not well
        assert text.startswith(f"{broken.action.name} failed: ")


def test_a_plain_function_that_is_slow_stops_neither_others_nor_its_timeout() -> None:
    release = threading.Event()

    @tool(timeout=0.05)
    def slow() -> str:
        """Waits."""
        release.wait(120)
        return "late"

    async def both() -> list[tuple[bool, str]]:
        began = time.perf_counter()
        answers = await asyncio.gather(slow.answer({}), weather.answer({"city": "Oslo"}))
        assert time.perf_counter() - began < 60
        release.set()
        return list(answers)

    late, quick = asyncio.run(both())
    assert late == (False, "slow timed out after 0.05 s")
    assert quick[0]


def test_a_cancelled_tool_may_close_what_it_has_opened() -> None:
    closed = []

    @tool(timeout=0.05)
    async def tidy() -> str:
        """Waits, and tidies up."""
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            closed.append(True)
        return ""

    assert answer(tidy) == (False, "tidy timed out after 0.05 s")
    assert closed


# -- what of a function a model reads, and how its arguments are checked -----------------------------------------------


def book(room: str, people: int = 2, hours: Annotated[float, "how long"] = 1.0) -> str:
    """Book a room.

    Note: it is yours when this returns.

    room: its name
    """
    return room


BOOK = describe(book)


def test_the_schema_comes_from_the_signature_and_the_docstring() -> None:
    assert BOOK.name == "book"
    assert BOOK.description == "Book a room.\n\nNote: it is yours when this returns."
    assert BOOK.parameters == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "room": {"type": "string", "description": "its name"},
            "people": {"type": "integer", "default": 2},
            "hours": {"type": "number", "default": 1.0, "description": "how long"},
        },
        "required": ["room"],
    }


def test_arguments_become_what_the_annotations_say_and_every_problem_is_named_at_once() -> None:
    assert BOOK.check({"room": "Nile", "people": "3"}) == {"room": "Nile", "people": 3, "hours": 1.0}
    with pytest.raises(InterventionRefused) as raised:
        BOOK.check({"people": "many", "colour": "red"})
    for word in ("book", "room", "people", "colour"):
        assert word in str(raised.value)


def test_what_may_be_left_out_has_a_plain_type_and_none_is_understood() -> None:
    def search(words: list[str] | None = None, most: int | str | None = None) -> None: ...

    spec = describe(search)

    assert spec.parameters["properties"]["words"] == {"type": "array", "items": {"type": "string"}}
    kinds = spec.parameters["properties"]["most"]["anyOf"]
    assert [kind["type"] for kind in kinds] == ["integer", "string", "null"]
    assert spec.check({"words": None}) == spec.check({}) == {"words": None, "most": None}


@pytest.mark.parametrize("value", [math.nan, -math.inf, "nan", "inf", 10**400], ids=lambda value: str(value)[:5])
def test_a_number_is_finite(value: object) -> None:
    with pytest.raises(InterventionRefused):
        BOOK.check({"room": "Nile", "hours": value})


def test_parameters_may_be_called_anything() -> None:
    """Also what a pydantic model has as methods (json, copy, schema), and with an underscore first."""

    def odd(json: int, copy: int, model_config: int, _hidden: int, schema: int = 1, validate: int = 2) -> None:
        """Odd names."""

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spec = describe(odd)
    given = {"json": 1, "copy": 2, "model_config": 3, "_hidden": 4}
    assert spec.check(given) == {**given, "schema": 1, "validate": 2}
    assert list(spec.parameters["properties"]) == ["json", "copy", "model_config", "_hidden", "schema", "validate"]


def test_choices_and_nested_values_are_checked_too() -> None:
    def plan(day: Literal["today", "tomorrow"], hours: dict[str, list[int]]) -> None:
        """Plan."""

    spec = describe(plan)
    assert spec.check({"day": "today", "hours": {"a": ["1"]}}) == {"day": "today", "hours": {"a": [1]}}
    for bad in ({"day": "never", "hours": {}}, {"day": "today", "hours": {"a": [None]}}):
        with pytest.raises(InterventionRefused):
            spec.check(bad)


def test_what_has_no_name_or_no_type_cannot_be_offered() -> None:
    def starred(*numbers: int) -> None: ...
    def positional(number: int, /) -> None: ...
    def untyped(number) -> None: ...  # type: ignore[no-untyped-def]

    for function in (starred, positional, untyped):
        with pytest.raises(TypeError, match="number"):
            describe(function)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=12,
)


@settings(max_examples=40)
@given(st.dictionaries(st.one_of(st.sampled_from(["room", "people", "hours"]), st.text()), JSON, max_size=5))
def test_no_arguments_whatsoever_crash_anything(arguments: dict[str, Any]) -> None:
    with suppress(InterventionRefused):
        checked = BOOK.check(arguments)
        assert (type(checked["room"]), type(checked["people"]), type(checked["hours"])) == (str, int, float)
        json.dumps(checked, allow_nan=False)
