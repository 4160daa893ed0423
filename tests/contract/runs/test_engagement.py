"""An agent in a world on one timeline: what is observed, when it is shown, and what an interruption keeps."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from offering import offering
from planned_worlds import INTERFACES, Planned, Rule, Ruled, do, kinds, play

from agentfw import Decision, Engagement, Environment, Generation, Policy, Run, World, action
from agentfw.episode import Intervention, Observation, Task, Turn
from agentfw.errors import PluginError, TimelineError
from agentfw.interfaces import EventDriven, Interface, Polling, Reflex, StepLoop
from agentfw.request import InFlight
from agentfw.runs import parse_spec
from agentfw.testing import fresh_host
from agentfw.tool import Tool, tool

# -- one moment ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("interface", INTERFACES, ids=str)
def test_what_becomes_known_at_one_instant_is_one_set(interface: Interface) -> None:
    agent = Ruled()
    play(Planned((5, "a"), (5, "b"), (5, "a"), (8, "b")), agent, interface)
    assert agent.sets() == [(0, []), (5, ["a", "b", "a"]), (8, ["b"])]


def test_an_intervention_set_is_empty_or_one_or_several() -> None:
    answers = iter([do(), do("start", duration=1), do("start", "start", duration=2)])
    agent = Ruled(lambda moment: next(answers, Decision()))
    episode = play(Planned((1, "a"), (4, "b")), agent, StepLoop())
    assert [event.time for event in kinds(episode, "intervention")] == [1, 2, 2]
    assert [moment.now for moment in agent.moments] == [0, 1, 2, 4], "both of a set go on side by side"


def test_work_that_follows_at_once_never_leaves_the_step_loop_a_gap() -> None:
    class Chain(Planned):
        def begin(self, world: World, task: Task) -> None:
            self.world, self.says = world, not self.plan
            world.at(1, lambda: self.link(3))

        def link(self, left: int) -> None:
            self.world.work("link", 2, lambda work: self.linked(left))

        def linked(self, left: int) -> None:
            if self.says:
                self.world.observe(f"link {left}")
            if left > 1:
                self.link(left - 1)

    loop, events, silent = Ruled(), Ruled(), Ruled()
    play(Chain(), loop, StepLoop())
    play(Chain(), events, EventDriven())
    play(Chain((0, "says nothing")), silent, EventDriven())
    assert silent.sets() == [(0, []), (7, [])]
    assert loop.sets() == [(0, []), (7, ["link 3", "link 2", "link 1"])]
    assert events.sets() == [(0, []), (3, ["link 3"]), (5, ["link 2"]), (7, ["link 1"])]


def test_work_that_ends_while_the_agent_thinks_is_not_forgotten() -> None:
    decisions = iter([do("start", duration=5), do(takes=4), do("start", duration=1)])
    agent = Ruled(lambda moment: next(decisions, Decision()), breaks_off=False)
    play(Planned((3, "a")), agent)
    assert agent.sets() == [(0, []), (3, ["a"]), (7, []), (8, [])]


def test_an_agent_that_puts_its_work_aside_is_not_asked_again_for_it() -> None:
    decisions = iter([do("start", duration=5), do("aside")])
    agent = Ruled(lambda moment: next(decisions, Decision()))
    play(Planned((3, "a"), (9, "b")), agent)
    assert agent.sets() == [(0, []), (3, ["a"]), (9, ["b"])]
    assert agent.moments[-1].in_flight == (InFlight("work", 3, 5, False),)


def test_an_agent_whose_work_the_world_puts_aside_is_asked() -> None:
    decisions = iter([do("start", duration=5)])
    agent = Ruled(lambda moment: next(decisions, Decision()))
    play(Planned((3, "aside")), agent, StepLoop())
    assert agent.sets() == [(0, []), (3, [])]


def test_persistent_work_goes_on_while_the_agent_does_other_things() -> None:
    decisions = iter([do("start", duration=10, holds=False), do(takes=1), do(takes=1)])
    agent = Ruled(lambda moment: next(decisions, Decision()))
    episode = play(Planned((2, "a"), (6, "b"), (12, "a")), agent, StepLoop())
    assert [[work.spent for work in moment.in_flight] for moment in agent.moments] == [[], [2], [6], []]
    assert [event.time for event in kinds(episode, "work") if event.data["state"] == "finished"] == [3, 7, 10]


# -- thinking takes time ---------------------------------------------------------------------------------------------

WORDS = tuple(f"w{number} " for number in range(40))


def thinking(tokens: int, per_token: float, *calls: str) -> Decision:
    pieces = WORDS[:tokens]
    said = Generation("".join(pieces), count=tokens, pieces=pieces, token_ids=tuple(range(tokens)))
    return Decision([Intervention(name) for name in calls], tokens * per_token, None, said)


def test_an_answer_takes_its_tokens_and_then_has_its_effect() -> None:
    agent = Ruled(lambda moment: thinking(10, 0.5, "slow") if moment.now == 0 else do())
    episode = play(Planned(), agent)
    assert [(event.time, event.name) for event in kinds(episode, "intervention")] == [(5, "slow")]
    assert (episode.turns[0].started, episode.turns[0].ended, episode.turns[0].finish) == (0, 5, "stop")
    assert agent.sets() == [(0, []), (7, ["slow done"])]


@given(st.integers(1, 40), st.floats(0.01, 3), st.floats(0, 1, exclude_max=True))
def test_an_interruption_keeps_what_was_out_by_then(tokens: int, per_token: float, share: float) -> None:
    when = tokens * per_token * share
    agent = Ruled(lambda moment: thinking(tokens, per_token, "slow") if not moment.observations else do())
    episode = play(Planned((when, "a")), agent)
    turn = episode.turns[0]
    if when == 0:  # it happened before the agent was asked at all
        assert turn.finish == "stop"
        return
    out = min(tokens, math.floor(when / per_token + 1e-9))
    assert (turn.finish, turn.count, turn.ended) == ("interrupted", out, when)
    assert turn.text == "".join(WORDS[:out])
    assert turn.token_ids == tuple(range(out))
    assert turn.calls == ()
    assert not kinds(episode, "intervention")
    kept = agent.moments[1].interrupted
    assert kept is not None
    assert kept.text == turn.text


def test_an_agent_may_finish_its_thought_first() -> None:
    agent = Ruled(lambda moment: do(takes=5) if moment.now == 0 else do(), breaks_off=False)
    episode = play(Planned((2, "a"), (3, "b")), agent)
    assert agent.sets() == [(0, []), (5, ["a", "b"])]
    assert episode.turns[0].finish == "stop"


WHEN_SHOWN = [(StepLoop(), 7), (Polling(3), 6), (Polling(2), 4), (EventDriven(), 4), (Reflex(), 4)]


@pytest.mark.parametrize(("interface", "shown"), WHEN_SHOWN)
def test_when_news_reaches_an_agent_that_thinks_is_the_interface(interface: Interface, shown: float) -> None:
    agent = Ruled(lambda moment: do(takes=7) if moment.now == 0 else do())
    episode = play(Planned((4, "a"), (9, "b")), agent, interface)
    assert agent.sets()[1] == (shown, ["a"])
    assert episode.turns[0].finish == ("stop" if shown == 7 else "interrupted")
    assert [moment.interrupted is not None for moment in agent.moments] == [False, shown < 7, False]


def test_a_thought_that_lands_with_the_news_has_landed() -> None:
    for plan in ([(5, "a")], [(5, "work1"), (5, "a")]):
        agent = Ruled(lambda moment: do("aside", takes=5) if moment.now == 0 else do())
        episode = play(Planned(*plan), agent)
        assert episode.turns[0].finish == "stop"
        assert agent.sets()[1] == (5, ["a"])


@pytest.mark.parametrize("decision", [do(takes=math.nan), do(wake=-1)])
def test_an_agent_that_decides_nonsense_about_time_is_named(decision: Decision) -> None:
    with pytest.raises(PluginError, match="the agent Ruled decided takes="):
        play(Planned(), Ruled(lambda moment: decision))


class Endless(Environment):
    """A clock that nobody stops."""

    def __init__(self, delay: float = 0) -> None:
        self.delay, self.inside = delay, 21.5  # a world may call its own things what a guard calls the world

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        self.tick()

    def tick(self) -> None:
        self.world.after(self.delay, self.tick)


@pytest.mark.parametrize(("delay", "words"), [(1, "it goes on after 200,000 events"), (-1, "a delay of -1")])
def test_a_world_that_never_ends_or_goes_back_is_named(delay: float, words: str) -> None:
    with pytest.raises(TimelineError, match=rf"the world Endless: .*{words}") as caught:
        play(Endless(delay), Ruled())
    assert caught.value.exit_code == 3


def test_a_world_that_never_ends_is_named_by_its_class_also_in_a_run(tmp_path: Path) -> None:
    host = fresh_host(offering(environment={"endless": Endless}, policy={"silent": Policy}))
    spec = parse_spec({"environment": "endless", "policy": "silent", "episodes": 1, "retries": 0})
    with pytest.raises(TimelineError, match=r'environment "endless" .*: the world Endless: .*at one instant, 0'):
        asyncio.run(Run.create(spec, host, tmp_path).execute())


def test_how_long_a_world_may_go_on_is_set_by_whoever_runs_it() -> None:
    episode = play(Endless(1), Ruled(), horizon=300_000, max_events=300_001)
    assert (episode.finish, episode.ended) == ("horizon", 300_000)


# -- reflexes, refusals, tools ---------------------------------------------------------------------------------------


class Alarmed(Planned):
    def reflex(self, observation: Observation) -> list[Intervention]:
        if observation.name == "alarm":
            return [Intervention("duck"), Intervention("impossible")]
        return [Intervention("impossible")] if observation.name == "refused" else []

    @action
    def duck(self) -> None:
        """Get down."""
        self.world.observe("down")


def test_a_reflex_acts_before_the_agent_is_asked() -> None:
    agent = Ruled()
    episode = play(Alarmed((5, "alarm")), agent, Reflex())
    # What it brought about comes after what it answered; its own refusal starts no new reflex.
    assert agent.sets() == [(0, []), (5, ["alarm", "down", "refused"])]
    order = [(event.kind, event.name) for event in episode.events if event.time == 5]
    assert order.index(("reflex", "duck")) < order.index(("seen", ""))
    for other in (EventDriven(), StepLoop(), Polling(2)):
        assert not kinds(play(Alarmed((5, "alarm")), Ruled(), other), "reflex")


def test_a_reflex_rule_of_ones_own_replaces_that_of_the_world() -> None:
    agent = Ruled()
    play(Alarmed((5, "a")), agent, Reflex(lambda one: [Intervention("duck")] if one.name == "a" else []))
    assert agent.sets()[1] == (5, ["a", "down"])


def test_a_reflex_waits_until_its_world_is_set_up() -> None:
    class Hasty(Alarmed):
        def begin(self, world: World, task: Task) -> None:
            world.observe("alarm")
            super().begin(world, task)

    agent = Ruled()
    play(Hasty(), agent, Reflex())
    assert agent.sets() == [(0, ["alarm", "down", "refused"])]


def test_what_is_refused_is_an_observation() -> None:
    bad = [Intervention("fly", {}, "c1"), Intervention("start", {"duration": "long"}, "c2")]
    agent = Ruled(lambda moment: Decision(bad) if moment.now == 0 and not moment.observations else do())
    episode = play(Planned(), agent)
    refused = agent.moments[1].of("refused")
    assert [one.data["call"] for one in refused] == ["c1", "c2"]
    assert 'no action "fly"' in str(refused[0])
    assert "duration" in str(refused[1])
    assert [event.data["id"] for event in kinds(episode, "refused")] == ["c1", "c2"]


def test_an_action_that_takes_time_can_be_refused_at_its_end() -> None:
    late = Intervention("slow", {"well": False}, "c1")
    agent = Ruled(lambda moment: Decision([late]) if moment.now == 0 else do())
    play(Planned(), agent)
    assert agent.sets() == [(0, []), (2, ["refused"])]
    assert agent.moments[1].observations[0].data["call"] == "c1"


def with_tools(rule: Rule, *tools: Tool) -> Ruled:
    agent = Ruled(rule)
    agent.offered = {one.action.name: one for one in tools}
    return agent


def call(*names: str) -> Rule:
    """Calls these at the start, each with its name as the id."""
    calls = [Intervention(name, {}, name) for name in names]
    return lambda moment: Decision(calls) if moment.now == 0 and not moment.observations else Decision()


def test_a_tool_that_fails_or_hangs_is_an_observation() -> None:
    @tool
    def broken() -> str:
        """Fails."""
        raise OSError("no disk")

    @tool(timeout=0.02)
    async def hanging() -> str:
        """Never ends."""
        await asyncio.sleep(60)
        return ""

    agent = with_tools(call("broken", "hanging"), broken, hanging)
    play(Planned(), agent)
    answers = {one.data["tool"]: (one.data["well"], str(one)) for one in agent.moments[1].observations}
    assert answers == {
        "broken": (False, "broken failed: OSError: no disk"),
        "hanging": (False, "hanging timed out after 0.02 s"),
    }


def test_tools_run_side_by_side_in_real_time() -> None:
    both = asyncio.Barrier(2)

    @tool(timeout=5)
    async def meet() -> str:
        """Waits for the other."""
        await both.wait()
        return "met"

    agent = with_tools(call("meet", "meet"), meet)
    play(Planned(), agent)
    assert [str(one) for one in agent.moments[1].observations] == ["met", "met"]


@tool
def quick() -> str:
    """Takes nothing."""
    return "now"


def test_a_tools_answer_comes_after_the_time_that_it_takes() -> None:
    @tool(takes=3)
    def far() -> int:
        """Takes three."""
        return 42

    agent = with_tools(call("far", "quick"), far, quick)
    play(Planned((1, "a")), agent, StepLoop())
    # A call in flight doesn't hold the agent.
    assert agent.sets() == [(0, []), (0, ["answer"]), (1, ["a"]), (3, ["answer"])]
    assert agent.moments[2].in_flight == (InFlight("far", 1, 3, True),)
    assert [str(one) for one in agent.moments[3].observations] == ["42"]


def test_news_and_answers_of_one_instant_are_one_set() -> None:
    agent = with_tools(lambda moment: do("quick", takes=5) if moment.now == 0 else do(), quick)
    agent.breaks_off = False
    play(Planned((5, "a")), agent)
    assert agent.sets() == [(0, []), (5, ["a", "answer"])]


def test_a_tool_may_not_hide_an_action_of_the_world() -> None:
    @tool
    def slow() -> str:
        """Same name."""
        return ""

    with pytest.raises(PluginError, match="slow"):
        play(Planned(), with_tools(call(), slow))


# -- waking, limits, ends --------------------------------------------------------------------------------------------


def test_an_agent_can_ask_to_be_woken_and_news_comes_first() -> None:
    agent = Ruled(lambda moment: do(wake=5) if moment.now < 12 else do())
    play(Planned((7, "a")), agent)
    # Woken at five; the news at seven takes the place of the waking at ten.
    assert agent.sets() == [(0, []), (5, []), (7, ["a"]), (12, [])]
    assert [moment.woken for moment in agent.moments] == [True, True, False, True]


@pytest.mark.parametrize(("decision", "ended"), [(do(wake=1), 5), (do("fly"), 0)], ids=["waking", "refused"])
def test_a_limit_of_turns_ends_the_episode(decision: Decision, ended: float) -> None:
    """Also of an agent that is always refused, and would hold the clock for ever."""
    episode = play(Planned(), Ruled(lambda moment: decision), max_turns=5)
    assert (episode.finish, len(episode.turns), episode.ended) == ("turn_limit", 5, ended)


@pytest.mark.parametrize(
    ("plan", "horizon", "finish", "ended"),
    [
        ([(3, "a"), (8, "finish"), (9, "b")], math.inf, "finished", 8),
        ([(3, "a"), (5, "b"), (8, "finish")], 5, "horizon", 5),
        ([(3, "a")], math.inf, "quiet", 3),
    ],
)
def test_how_an_episode_ends(plan: list[tuple[float, str]], horizon: float, finish: str, ended: float) -> None:
    agent = Ruled()
    episode = play(Planned(*plan), agent, horizon=horizon)
    assert (episode.finish, episode.ended) == (finish, ended)
    assert episode.outcome == ({"score": 1.0} if finish == "finished" else {})
    # What happens at the horizon itself still happens, and is shown.
    assert [when for when, _ in agent.sets()] == [0, *[when for when, what in plan if when <= ended and len(what) == 1]]


def test_a_thought_that_the_horizon_cuts_is_cut_where_it_is() -> None:
    episode = play(Planned((50, "a")), Ruled(lambda moment: thinking(10, 1.0, "slow")), horizon=4)
    assert (episode.turns[0].finish, episode.turns[0].count, episode.turns[0].ended) == ("interrupted", 4, 4)
    assert not kinds(episode, "intervention")


def test_nothing_happens_and_nothing_is_noted_once_the_world_is_over() -> None:
    class Door(Planned):
        @action
        def close(self) -> None:
            """Close it for good."""
            self.world.finish(score=1.0)
            self.world.observe("slam")

        def turned(self, turn: Turn) -> None:
            raise AssertionError("nobody has a turn any more")

    agent = with_tools(lambda moment: do("close", "quick", "slow"), quick)
    episode = play(Door((3, "a")), agent)
    assert [(event.kind, event.name) for event in episode.events] == [("seen", ""), ("intervention", "close")]
    assert (agent.sets(), episode.outcome) == ([(0, [])], {"score": 1.0})


def test_a_world_that_is_over_before_it_began_asks_nobody() -> None:
    agent = Ruled()

    class Over(Planned):
        def begin(self, world: World, task: Task) -> None:
            world.finish(score=0.5)

    episode = play(Over(), agent)
    assert (agent.moments, episode.finish, episode.outcome) == ([], "finished", {"score": 0.5})


def test_an_engagement_can_be_run_again() -> None:
    engagement = Engagement(Planned((5, "a"), (9, "finish")), Ruled())
    first, second = (asyncio.run(engagement.run(Task(0, seed=7))) for _ in range(2))
    assert first == second
