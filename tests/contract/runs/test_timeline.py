"""The clock: time never runs back, nothing is lost by an interruption, and empty time is free."""

from __future__ import annotations

import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw.errors import TimelineError
from agentfw.timeline import Timeline


@pytest.mark.parametrize("time", [4.999, -1, math.nan, math.inf])
def test_nothing_is_scheduled_in_the_past_or_never(time: float) -> None:
    with pytest.raises(TimelineError):
        Timeline(5).at(time, lambda: None)
    with pytest.raises(TimelineError):
        Timeline(5).after(time - 5, lambda: None)


@pytest.mark.parametrize("duration", [-1, math.nan])
def test_a_duration_is_zero_or_more(duration: float) -> None:
    with pytest.raises(TimelineError):
        Timeline().work("x", duration)


def test_nothing_runs_after_a_stop_not_even_at_the_same_instant() -> None:
    line = Timeline()
    heard: list[str] = []
    line.when_stopped(lambda: heard.append("left"))
    line.at(2, line.stop)
    line.at(2, lambda: heard.append("later at two"))
    line.at(3, lambda: heard.append("at three"))
    line.advance()
    assert heard == ["left"]
    assert line.now == 2


def test_who_waits_for_an_instant_to_settle_comes_after_all_of_it() -> None:
    line = Timeline()
    heard: list[str] = []

    async def settled(name: str) -> None:
        heard.append(f"{name} at {line.now}")
        if name == "first":
            line.after(0, lambda: heard.append(f"more at {line.now}"))

    def begin() -> None:
        line.after_instant(lambda: settled("first"))
        line.after_instant(lambda: settled("second"))
        line.after(0, lambda: heard.append(f"due at {line.now}"))

    line.at(1, begin)
    line.at(2, lambda: heard.append("next"))
    asyncio.run(line.run())
    # What the first brought about at this instant happens before the second sees it.
    assert heard == ["due at 1", "first at 1", "more at 1", "second at 1", "next"]


@given(st.floats(0.001, 1000), st.lists(st.tuples(st.floats(0.001, 50), st.floats(0, 50)), max_size=30))
def test_interrupted_work_drifts_by_no_more_than_rounding(duration: float, pieces: list[tuple[float, float]]) -> None:
    line = Timeline(0.0)
    done: list[float] = []
    work = line.work("write", duration, lambda work: done.append(line.now))
    rested = 0.0
    for run, rest in pieces:
        line.advance(line.now + run)
        if work.done:
            break
        work.interrupt()
        began = line.now
        line.advance(line.now + rest)
        rested += line.now - began
        work.resume()
        assert work.spent <= duration
    line.advance()
    assert work.spent == duration
    assert done == [pytest.approx(duration + rested, rel=1e-9)]


def test_work_given_up_keeps_what_it_had_and_never_finishes() -> None:
    line = Timeline()
    finished: list[object] = []
    work = line.work("write", 10, finished.append)
    line.advance(4)
    work.cancel()
    work.resume()
    line.advance()
    assert (work.spent, work.done, work.cancelled, finished) == (4, False, True, [])


def test_open_ended_work_lasts_until_it_is_completed() -> None:
    line = Timeline()
    finished: list[float] = []
    work = line.work("stand by", math.inf, lambda work: finished.append(line.now))
    line.at(3, lambda: None)
    line.advance()
    assert not work.done
    work.complete()
    work.complete()
    assert (work.spent, finished) == (3, [3])


def test_an_agent_between_the_events_of_one_instant_does_not_hide_that_it_never_ends() -> None:
    line = Timeline(max_events_per_instant=500)

    async def settled() -> None:
        line.after(0, lambda: line.after_instant(settled))

    line.after_instant(settled)
    with pytest.raises(TimelineError, match="500 events"):
        asyncio.run(line.run())


@pytest.mark.parametrize("most", [1, 2000, 5000])
def test_as_many_events_as_allowed_run_and_not_one_more(most: int) -> None:
    line = Timeline(max_events=most)
    heard: list[float] = []
    for time in range(most):
        line.at(time, lambda: heard.append(line.now))
    line.advance()
    assert len(heard) == most
    line.after(1, lambda: None)
    with pytest.raises(TimelineError, match=f"goes on after {most:,} events") as caught:
        line.advance()
    assert "max_events" in caught.value.fix
