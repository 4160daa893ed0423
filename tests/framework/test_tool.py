"""Tools: typed functions that an agent can call, and that may fail without anything else failing."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from agentfw.tool import Tool, tool


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
