"""The two reductions: Gymnasium's loop and options (SMDPs) are special cases of the timeline, number by number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import numpy
import pytest

from agentfw.agent import Agent, Decision
from agentfw.environment import Environment, World
from agentfw.episode import Episode, Intervention, Task
from agentfw.errors import InterventionRefused, SettingsError
from agentfw.interfaces import EventDriven, Interface, Polling, Reflex, StepLoop
from agentfw.request import Moment
from agentfw.turns.engagement import Engagement
from agentfw.turns.nested import Composed
from agentfw_plugins.worlds.gymnasium import GymnasiumEnvironment, GymnasiumSettings, Option

gymnasium = pytest.importorskip("gymnasium")

INTERFACES: list[Interface] = [EventDriven(), StepLoop(), Polling(3), Reflex()]
Choose = Callable[[Any, int], Any]
"""The action for a state and the number of the step, as plain values."""


def balance(state: Any, step: int) -> Any:
    return int(state[2] + 0.5 * state[3] > 0)


def wander(state: Any, step: int) -> Any:
    return (7 * step + int(state)) % 6


def slide(state: Any, step: int) -> Any:
    return (step * 2 + int(state)) % 4


def swing(state: Any, step: int) -> Any:
    return [max(-2.0, min(2.0, 1.7 * state[2] - 0.3 * (step % 5)))]


def push(state: Any, step: int) -> Any:
    return [1.0 if state[1] >= 0 else -0.8]


WORLDS: list[tuple[str, dict[str, Any], Choose]] = [
    ("CartPole-v1", {}, balance),
    (max(name for name in gymnasium.registry if name.startswith("Taxi-")), {}, wander),  # its version changes
    ("FrozenLake-v1", {"is_slippery": True}, slide),
    ("Pendulum-v1", {}, swing),
    ("MountainCarContinuous-v0", {}, push),
]


class Follower(Agent):
    """Takes one step for each state, and keeps what it saw."""

    def __init__(self, choose: Choose) -> None:
        self.choose, self.seen = choose, list[dict[str, Any]]()

    async def act(self, moment: Moment) -> Decision:
        states = moment.of("state")
        if not states:
            return Decision()
        self.seen += [dict(one.data) for one in states]
        return Decision([Intervention("step", {"action": self.choose(states[-1].data["state"], len(self.seen) - 1)})])


def make(name: str, arguments: dict[str, Any], **more: Any) -> GymnasiumEnvironment:
    return GymnasiumEnvironment(GymnasiumSettings(id=name, arguments=arguments), **more)


def play(environment: Environment, agent: Agent, interface: Interface | None = None, seed: int = 11) -> Episode:
    return asyncio.run(Engagement(environment, agent, interface).run(Task(0, seed=seed)))


def own_loop(name: str, arguments: dict[str, Any], choose: Choose, seed: int) -> list[dict[str, Any]]:
    """The loop of Gymnasium's documentation."""
    world = gymnasium.make(name, **arguments)
    state, _ = world.reset(seed=seed)
    seen: list[dict[str, Any]] = [{"state": numpy.asarray(state).tolist()}]
    ended = truncated = False
    while not (ended or truncated):
        choice = choose(seen[-1]["state"], len(seen) - 1)
        if isinstance(choice, list):
            choice = numpy.asarray(choice, dtype=world.action_space.dtype)
        state, reward, ended, truncated, _ = world.step(choice)
        seen.append(
            {
                "state": numpy.asarray(state).tolist(),
                "reward": float(reward),
                "terminated": ended,
                "truncated": truncated,
            }
        )
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("interface", INTERFACES, ids=str)
@pytest.mark.parametrize(("name", "arguments", "choose"), WORLDS, ids=[name for name, _, _ in WORLDS])
def test_a_tick_is_a_step_and_the_trajectory_is_gymnasiums_own(
    name: str, arguments: dict[str, Any], choose: Choose, interface: Interface
) -> None:
    for seed in (0, 11):
        direct = own_loop(name, arguments, choose, seed)
        agent = Follower(choose)
        episode = play(make(name, arguments), agent, interface, seed)
        record = [event.data for event in episode.events if event.kind == "observation"]
        # The agent is shown all but the last state: there the episode is over.
        for seen, whole in ((agent.seen, direct[:-1]), (record, direct)):
            assert [
                {key: one[key] for key in ("state", "reward", "terminated", "truncated") if key in one} for one in seen
            ] == whole
        assert episode.ended == episode.outcome["steps"] == len(direct) - 1
        assert episode.utility == episode.outcome["return"] == sum(one.get("reward", 0.0) for one in direct)
        assert episode.finish == "finished"


def test_a_tick_takes_one_action() -> None:
    class Greedy(Follower):
        async def act(self, moment: Moment) -> Decision:
            decision = await super().act(moment)
            return Decision([*decision.interventions, *decision.interventions])

    greedy, plain = Greedy(balance), Follower(balance)
    twice, once = play(make("CartPole-v1", {}), greedy), play(make("CartPole-v1", {}), plain)
    assert [one["state"] for one in greedy.seen] == [one["state"] for one in plain.seen]
    assert sum(event.kind == "refused" for event in twice.events) == once.outcome["steps"]


class Nowhere:
    """As much of a world as it takes to intervene: nothing is scheduled."""

    def observe(self, name: str, data: Any = None, *, text: str = "") -> None: ...
    def after(self, delay: float, call: Any) -> Any: ...


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "value", "fits"),
    [
        ("CartPole-v1", 1, True),
        ("CartPole-v1", "1", True),
        ("CartPole-v1", 1.0, True),
        ("CartPole-v1", 2, False),
        ("CartPole-v1", 0.5, False),
        ("CartPole-v1", -1, False),
        ("CartPole-v1", None, False),
        ("CartPole-v1", "left", False),
        ("CartPole-v1", [1], False),
        ("CartPole-v1", 10**400, False),
        ("CartPole-v1", float("nan"), False),
        ("CartPole-v1", float("inf"), False),
        ("Pendulum-v1", [0.5], True),
        ("Pendulum-v1", 0.5, True),
        ("Pendulum-v1", [0.5, 0.5], False),
        ("Pendulum-v1", [3.0], False),
        ("Pendulum-v1", [float("nan")], False),
        ("Pendulum-v1", {"x": 1}, False),
        ("Pendulum-v1", "\ud800", False),
        ("Pendulum-v1", 10**400, False),
        ("Pendulum-v1", [[[]]], False),
    ],
)
def test_an_action_is_an_element_of_the_space_or_refused(name: str, value: object, fits: bool) -> None:
    environment = make(name, {})
    environment.begin(cast(World, Nowhere()), Task(0, seed=0))
    if fits:
        environment.intervene(Intervention("step", {"action": value}))
    else:
        with pytest.raises(InterventionRefused, match="no element"):
            environment.intervene(Intervention("step", {"action": value}))


def test_the_schema_says_what_an_action_is() -> None:
    discrete = make("CartPole-v1", {}).brief().actions[0].parameters["properties"]["action"]
    assert (discrete["minimum"], discrete["maximum"]) == (0, 1)
    box = make("Pendulum-v1", {}).brief().actions[0].parameters["properties"]["action"]
    assert (box["type"], box["minItems"], box["maxItems"]) == ("array", 1, 1)


def test_an_unknown_environment_is_an_error_of_the_settings() -> None:
    with pytest.raises(SettingsError, match="NoSuchThing"):
        make("NoSuchThing-v0", {}).brief()


# -- options ----------------------------------------------------------------------------------------------------------

GO, DISCOUNT = {"right": 2, "down": 1}, 0.9


def along(direction: str) -> Option:
    """Walk until the place is in the last column, or the last row, of the frozen lake."""
    at_edge = (lambda place: int(place) % 4 == 3) if direction == "right" else (lambda place: int(place) >= 12)
    return Option(lambda place: GO[direction], at_edge, DISCOUNT)


OPTIONS = {direction: along(direction) for direction in GO}


def next_option(place: int, count: int) -> str:
    return "right" if count % 2 == 0 else "down"


def smdp_loop(seed: int) -> list[dict[str, Any]]:
    """Sutton, Precup and Singh's loop: an option to its end, with its discounted return and its duration."""
    world = gymnasium.make("FrozenLake-v1", is_slippery=True)
    place, _ = world.reset(seed=seed)
    done = False
    found: list[dict[str, Any]] = []
    while not done:
        name = next_option(int(place), len(found))
        option, total, factor, ticks = OPTIONS[name], 0.0, 1.0, 0
        while True:
            place, reward, ended, truncated, _ = world.step(option.act(place))
            total, factor, ticks = total + factor * float(reward), factor * DISCOUNT, ticks + 1
            done = ended or truncated
            if done or option.ends(place):
                break
        found.append({"option": name, "state": int(place), "reward": total, "ticks": ticks, "terminated": ended})
    return found


class Planner(Agent):
    """Takes an option, and the next when it has ended. Whatever else it is told, it only remembers."""

    def __init__(self) -> None:
        self.ended, self.news = list[dict[str, Any]](), list[tuple[float, str, tuple[str, ...]]]()

    async def act(self, moment: Moment) -> Decision:
        self.ended += [dict(one.data) for one in moment.of("option_ended")]
        going_on = tuple(work.name for work in moment.in_flight)
        self.news += [(moment.now, one.name, going_on) for one in moment.observations if one.name.startswith("bell.")]
        if going_on or (moment.now > 0 and not moment.of("option_ended")):
            return Decision()
        place = self.ended[-1]["state"] if self.ended else moment.of("state")[0].data["state"]
        return Decision([Intervention("option", {"name": next_option(place, len(self.ended))})])


@pytest.mark.parametrize("interface", INTERFACES, ids=str)
@pytest.mark.parametrize("seed", range(5))
def test_an_option_is_an_smdp_step(interface: Interface, seed: int) -> None:
    direct = smdp_loop(seed)
    planner = Planner()
    episode = play(make("FrozenLake-v1", {"is_slippery": True}, options=OPTIONS), planner, interface, seed)
    ends = [event for event in episode.events if event.name == "option_ended"]
    assert [{key: event.data[key] for key in direct[0]} for event in ends] == direct
    # It ends as an observation, after exactly its ticks; the planner sees each end but that of the episode.
    assert [event.time for event in ends] == list(numpy.cumsum([one["ticks"] for one in direct]))
    assert planner.ended == [event.data for event in ends[:-1]]
    assert episode.ended == sum(one["ticks"] for one in direct)


class Bell(Environment):
    """Rings every second tick."""

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        world.after(2, self.ring)

    def ring(self) -> None:
        self.world.observe("rings")
        self.world.after(2, self.ring)


def test_other_news_reaches_the_planner_while_an_option_goes_on() -> None:
    heard: dict[str, list[tuple[float, str, tuple[str, ...]]]] = {}
    for interface in (EventDriven(), StepLoop()):
        planner = Planner()
        lake = make("FrozenLake-v1", {"is_slippery": True}, options=OPTIONS)
        episode = play(Composed(lake, {"bell": Bell()}), planner, interface, seed=2)
        assert [event.data["ticks"] for event in episode.events if event.name == "option_ended"] == [
            one["ticks"] for one in smdp_loop(2)
        ]
        heard[type(interface).__name__] = planner.news
    during = [(when, option) for when, _, option in heard["EventDriven"] if option]
    assert during
    assert all(when % 2 == 0 for when, _ in during)
    # The step loop is the SMDP as usual: nothing is heard between the boundaries.
    assert not any(option for _, _, option in heard["StepLoop"])


def test_while_an_option_goes_on_no_other_can_begin() -> None:
    class Impatient(Planner):
        async def act(self, moment: Moment) -> Decision:
            if moment.now == 0 and not moment.of("refused"):
                return Decision([Intervention("option", {"name": "right"}), Intervention("step", {"action": 0})])
            return Decision()

    episode = play(make("FrozenLake-v1", {}, options=OPTIONS), Impatient())
    refused = [event for event in episode.events if event.kind == "refused"]
    assert len(refused) == 1
    assert "still going on" in refused[0].data["reason"]


@pytest.mark.parametrize("name", ["left", None, ["right"], {}])
def test_an_option_that_is_not_there_is_refused(name: object) -> None:
    environment = make("FrozenLake-v1", {}, options=OPTIONS)
    environment.begin(cast(World, Nowhere()), Task(0, seed=0))
    with pytest.raises(InterventionRefused):
        environment.intervene(Intervention("option", {"name": name}))
