"""Gymnasium's loop is a special case of the timeline, number by number."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy
import pytest

from agentfw.agent import Agent, Decision
from agentfw.environment import Environment
from agentfw.episode import Episode, Intervention, Task
from agentfw.errors import SettingsError
from agentfw.interfaces import EventDriven, Interface, Polling, Reflex, StepLoop
from agentfw.request import Moment
from agentfw.turns.engagement import Engagement
from agentfw_plugins.worlds.gymnasium import GymnasiumEnvironment, GymnasiumSettings

gymnasium = pytest.importorskip("gymnasium")

INTERFACES: list[Interface] = [EventDriven(), StepLoop(), Polling(3), Reflex()]
Choose = Callable[[Any, int], Any]
"""The action for a state and the number of the step, as plain values."""


def balance(state: Any, step: int) -> Any:
    return int(state[2] + 0.5 * state[3] > 0)


WORLDS: list[tuple[str, dict[str, Any], Choose]] = [
    ("CartPole-v1", {}, balance),
    ("FrozenLake-v1", {"is_slippery": True}, lambda state, step: (step * 2 + int(state)) % 4),
    ("Pendulum-v1", {}, lambda state, step: [max(-2.0, min(2.0, 1.7 * state[2] - 0.3 * (step % 5)))]),
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


def make(name: str, arguments: dict[str, Any]) -> GymnasiumEnvironment:
    return GymnasiumEnvironment(GymnasiumSettings(id=name, arguments=arguments))


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
        told = {"state": numpy.asarray(state).tolist(), "reward": float(reward)}
        seen.append({**told, "terminated": ended, "truncated": truncated})
    return seen


@pytest.mark.parametrize(("name", "arguments", "choose"), WORLDS, ids=[name for name, _, _ in WORLDS])
def test_a_tick_is_a_step_and_the_trajectory_is_gymnasiums_own(
    name: str, arguments: dict[str, Any], choose: Choose
) -> None:
    for interface, seed in [(one, 11) for one in INTERFACES] if choose is balance else [(EventDriven(), 0)]:
        direct = own_loop(name, arguments, choose, seed)
        agent = Follower(choose)
        episode = play(make(name, arguments), agent, interface, seed)
        record = [event.data for event in episode.events if event.kind == "observation"]
        # The agent is shown all but the last state: there the episode is over.
        for seen, whole in ((agent.seen, direct[:-1]), (record, direct)):
            assert [{key: one[key] for key in one if key in direct[-1]} for one in seen] == whole
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


@pytest.mark.parametrize(
    ("name", "value", "fits"),
    [
        ("CartPole-v1", 1, True),
        ("CartPole-v1", "1", True),
        ("CartPole-v1", 2, False),
        ("CartPole-v1", 0.5, False),
        ("CartPole-v1", None, False),
        ("CartPole-v1", 10**400, False),
        ("CartPole-v1", float("nan"), False),
        ("Pendulum-v1", [0.5], True),
        ("Pendulum-v1", 0.5, True),
        ("Pendulum-v1", [0.5, 0.5], False),
        ("Pendulum-v1", [3.0], False),
        ("Pendulum-v1", [[[]]], False),
    ],
)
def test_an_action_is_an_element_of_the_space_or_refused(name: str, value: object, fits: bool) -> None:
    steps = iter([value])

    episode = play(make(name, {}), Follower(lambda state, step: next(steps, 0 if name == "CartPole-v1" else [0.0])))

    reasons = [event.data["reason"] for event in episode.events if event.kind == "refused"]
    assert (reasons == []) == fits
    assert all("no element" in reason for reason in reasons)


def test_the_schema_says_what_an_action_is_and_an_unknown_environment_is_an_error_of_the_settings() -> None:
    discrete = make("CartPole-v1", {}).brief().actions[0].parameters["properties"]["action"]
    assert (discrete["minimum"], discrete["maximum"]) == (0, 1)
    box = make("Pendulum-v1", {}).brief().actions[0].parameters["properties"]["action"]
    assert (box["type"], box["minItems"], box["maxItems"]) == ("array", 1, 1)
    with pytest.raises(SettingsError, match="NoSuchThing"):
        make("NoSuchThing-v0", {}).brief()
