"""What holds of every engagement, whatever happens: worlds and agents made up at random, under every interface."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planned_worlds import INTERFACES, Planned, Ruled, kinds, play

from agentfw import Agent, Decision, Engagement, Environment, Generation, World, action
from agentfw.episode import Episode, Event, Intervention, Task
from agentfw.interfaces import Interface, Polling, StepLoop
from agentfw.request import Moment

WHAT = st.sampled_from(["a", "b", "work", "work2", "aside", "resume"])
Plan = list[tuple[int, str]]
Decisions = list[tuple[tuple[str, ...], int, int | None]]
PLANS = st.lists(st.tuples(st.integers(0, 30), WHAT), max_size=14)
DECISIONS = st.lists(
    st.tuples(
        st.sampled_from([(), ("start",), ("aside",), ("resume",), ("start", "aside"), ("nonsense",), ("slow",)]),
        st.integers(0, 6),
        st.sampled_from([None, None, 0, 2, 7]),
    ),
    max_size=12,
)


def scripted(decisions: Decisions, one: float = 1) -> Ruled:
    """Decides as listed, turn after turn, and then nothing any more. `one` is 1 in ticks and 1.0 in seconds."""

    def rule(moment: Moment) -> Decision:
        turn = len(agent.moments) - 1
        if turn >= len(decisions):
            return Decision()
        names, takes, wake = decisions[turn]
        calls = [Intervention(name, {"duration": 4 * one} if name == "start" else {}) for name in names]
        text = Generation(count=takes, text="x" * takes)
        return Decision(calls, takes * one, None if wake is None else wake * one, text)

    agent = Ruled(rule)
    return agent


def running_holds(events: Sequence[Event]) -> int:
    """How many works hold the agent after these events."""
    held = {}
    for event in events:
        if event.kind == "work" and event.data["holds"]:
            held[event.data["id"]] = event.data["state"] in ("started", "resumed")
    return sum(held.values())


@pytest.mark.parametrize("interface", INTERFACES, ids=str)
@given(PLANS, DECISIONS)
def test_nothing_is_shown_before_it_happened_or_twice(interface: Interface, plan: Plan, decisions: Decisions) -> None:
    agent = scripted(decisions)
    engagement = Engagement(Planned(*plan), agent, interface, max_turns=60)
    episode = asyncio.run(engagement.run(Task(0, seed=7)))
    times = [event.time for event in episode.events]
    assert times == sorted(times)
    assert not times or times[-1] <= episode.ended
    observed = [index for index, event in enumerate(episode.events) if event.kind == "observation"]
    seen = [(event.time, index) for event in kinds(episode, "seen") for index in event.data["events"]]
    waiting = [index for index, _ in engagement._waiting]
    # Each exactly once, in order; or it still waits at the end.
    assert [index for _, index in seen] + waiting == observed
    assert all(episode.events[index].time <= when for when, index in seen)
    for moment in agent.moments:
        assert all(one.time <= moment.now for one in moment.observations)
        assert all(work.spent <= work.duration for work in moment.in_flight)
    shown = [one.name for moment in agent.moments for one in moment.observations]
    assert shown == [episode.events[index].name for _, index in seen]
    # Every work was in flight for exactly its duration when it finished.
    for event in kinds(episode, "work"):
        if event.data["state"] == "finished":
            assert event.data["spent"] == ran(episode, event.data["id"])


def ran(episode: Episode, work: int) -> float:
    total, since = 0.0, 0.0
    for event in kinds(episode, "work"):
        if event.data["id"] == work:
            if event.data["state"] in ("started", "resumed"):
                since = event.time
            else:
                total += event.time - since
    return total


@given(PLANS, DECISIONS, st.integers(1, 9))
def test_the_step_loop_shows_nothing_while_the_agent_is_held_and_polling_only_at_multiples(
    plan: Plan, decisions: Decisions, every: int
) -> None:
    loop = play(Planned(*plan), scripted(decisions), StepLoop(), max_turns=60)
    polled = play(Planned(*plan), scripted(decisions), Polling(every), max_turns=60)
    for episode, at_multiples in ((loop, False), (polled, True)):
        for index, event in enumerate(episode.events):
            if event.kind == "seen" and not (at_multiples and event.time % every == 0):
                # What was broken off at this instant was still going on when the agent was shown it.
                assert running_holds(episode.events[:index]) == 0


@pytest.mark.parametrize("interface", INTERFACES, ids=str)
@settings(max_examples=40)
@given(PLANS, DECISIONS)
def test_a_world_of_ticks_is_the_same_in_seconds(interface: Interface, plan: Plan, decisions: Decisions) -> None:
    ticks = play(Planned(*plan), scripted(decisions), interface, max_turns=60)
    floats = [(float(when), what) for when, what in plan]
    seconds = play(Planned(*floats), scripted(decisions, 1.0), interface, max_turns=60)
    assert ticks == seconds


# -- one seed, one episode -------------------------------------------------------------------------------------------


class Weather(Environment):
    """Draws everything that it does."""

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        world.at(20, world.finish)
        self.blow()

    def blow(self) -> None:
        gust = self.world.random("wind").random()
        self.world.observe("gust", {"force": gust})
        self.world.after(0.5 + gust, self.blow)

    @action
    def drift(self, by: float) -> None:
        """Draws from another generator: the wind must not change by it."""
        self.world.utility(by * self.world.random("drift").random(), "drift")


class Drifting(Agent):
    """Lets other episodes come in between, and draws more or less often."""

    def __init__(self, seed: int, every: int) -> None:
        self.seed, self.every, self.turn = seed, every, 0

    async def act(self, moment: Moment) -> Decision:
        self.turn += 1
        await asyncio.sleep(0)
        if self.turn % self.every:
            return Decision(takes=0.1)
        return Decision([Intervention("drift", {"by": 1.0})])


async def sail(seed: int, every: int = 2) -> Episode:
    return await Engagement(Weather(), Drifting(seed, every)).run(Task(0, seed=seed))


def test_one_seed_is_one_episode_whatever_runs_beside_it() -> None:
    seeds = [3, 0, 3, 20, 7]

    async def together() -> list[Episode]:
        return await asyncio.gather(*map(sail, seeds))

    assert asyncio.run(together()) == [asyncio.run(sail(seed)) for seed in seeds]


def test_what_the_agent_does_changes_no_draw_elsewhere() -> None:
    def gusts(episode: Episode) -> list[float]:
        return [event.data["force"] for event in kinds(episode, "observation")]

    often, seldom = asyncio.run(sail(3, every=1)), asyncio.run(sail(3, every=4))
    assert len(kinds(often, "intervention")) != len(kinds(seldom, "intervention"))
    assert gusts(often) == gusts(seldom)
    assert len(set(gusts(often))) == len(gusts(often))  # asked for by name again, a generator goes on
