"""Engagements within engagements: the same interface one level down, on one clock, in one record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agentfw import Agent, Decision, Engagement, Environment, Generation, World, action
from agentfw.episode import Episode, Intervention, Observation, Task
from agentfw.interfaces import EventDriven, Interface, Reflex, StepLoop
from agentfw.request import Moment
from agentfw.turns.nested import Composed, Nested


class Ruled(Agent):
    """Does what a rule says, and remembers what it was shown."""

    def __init__(self, rule: Callable[[Moment], list[Intervention]] = lambda moment: [], takes: float = 0) -> None:
        self.rule, self.takes, self.moments = rule, takes, list[Moment]()

    async def act(self, moment: Moment) -> Decision:
        self.moments.append(moment)
        calls = self.rule(moment)
        return Decision(calls, self.takes if calls else 0, None, Generation("walk on", count=int(self.takes)))

    def sets(self) -> list[tuple[float, list[str]]]:
        return [(moment.now, [one.name for one in moment.observations]) for moment in self.moments]


class Town(Environment):
    """Somebody calls at four; at thirty it is over."""

    headline = "calls"

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        world.at(4, lambda: world.observe("call"))
        world.at(30, lambda: world.finish(calls=1.0))

    def tasks(self, count: int, seed: int, split: str) -> list[Task]:
        return [Task(0, 99)]


class Grid(Environment):
    """A line of places to walk along: three units of time for each."""

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        self.place = 0

    @action
    def walk(self, to: int) -> None:
        """Walk."""
        self.world.work("walk", 3 * abs(to - self.place), lambda work: self.arrive(to))

    def arrive(self, to: int) -> None:
        self.place = to
        self.world.utility(1.0, "arrived")
        self.world.observe("arrived", {"at": to})

    @action
    def rest(self) -> None:
        """Stop for good."""
        self.world.finish(place=float(self.place))

    def reflex(self, observation: Observation) -> list[Intervention]:
        return [Intervention("rest")] if observation.name == "command" and "stop" in observation.data else []


def navigate(moment: Moment) -> list[Intervention]:
    """Goes where it is told and says when it is there."""
    goes = [Intervention("walk", {"to": one.data["to"]}) for one in moment.of("command") if "to" in one.data]
    return goes + [Intervention("report", dict(one.data)) for one in moment.of("arrived")]


def plan(moment: Moment) -> list[Intervention]:
    """Sends it to place 2 first, and from there to 5."""
    if moment.now == 0 and not moment.observations:
        return [Intervention("legs.command", {"to": 2})]
    there = [one.data["at"] for one in moment.of("legs.report")]
    return [Intervention("legs.command", {"to": 5})] if there == [2] else []


def play(world: Environment, agent: Agent, interface: Interface | None = None, **options: Any) -> Episode:
    return asyncio.run(Engagement(world, agent, interface, **options).run(Task(0, seed=7)))


def test_a_planner_over_a_navigator() -> None:
    planner, navigator = Ruled(plan), Ruled(navigate)
    episode = play(Composed(Town(), {"legs": Nested(Grid(), navigator, StepLoop())}), planner)
    # News reaches the planner while the navigator is under way.
    assert planner.sets() == [(0, []), (4, ["call"]), (6, ["legs.report"]), (15, ["legs.report"])]
    assert navigator.sets() == [
        (0, []),
        (0, ["command"]),
        (6, ["arrived"]),
        (6, ["command"]),
        (15, ["arrived"]),
    ]
    assert (episode.finish, episode.outcome, episode.utility) == ("finished", {"calls": 1.0}, 2.0)


def test_every_event_and_turn_says_whose_it_is() -> None:
    episode = play(Composed(Town(), {"legs": Nested(Grid(), Ruled(navigate))}), Ruled(plan))
    seats = {(event.seat, event.kind, event.name) for event in episode.events}
    assert ("", "intervention", "legs.command") in seats
    assert ("legs", "observation", "command") in seats
    assert ("legs", "work", "walk") in seats
    assert ("legs", "intervention", "report") in seats
    assert ("", "observation", "legs.report") in seats
    assert {turn.seat for turn in episode.turns} == {"", "legs"}
    times = [event.time for event in episode.events]
    assert times == sorted(times)


def test_a_module_of_a_module_has_a_seat_of_its_own() -> None:
    feet = Nested(Grid(), Ruled(navigate), seat="feet")

    def pass_on(moment: Moment) -> list[Intervention]:
        down = [Intervention("feet.command", dict(one.data)) for one in moment.of("command")]
        return down + [Intervention("report", dict(one.data)) for one in moment.of("feet.report")]

    legs = Nested(Composed(Grid(), {"feet": feet}), Ruled(pass_on))
    planner = Ruled(plan)
    episode = play(Composed(Town(), {"legs": legs}), planner)
    assert (6, ["legs.report"]) in planner.sets()
    assert {event.seat for event in episode.events} == {"", "legs", "legs/feet"}


def test_a_module_that_has_ended_says_so_and_takes_no_command() -> None:
    def rule(moment: Moment) -> list[Intervention]:
        if moment.now == 0 and not moment.observations:
            return [Intervention("legs.command", {"stop": True})]
        return [Intervention("legs.command", {"to": 1})] if moment.of("legs.ended") else []

    planner = Ruled(rule)
    episode = play(Composed(Town(), {"legs": Nested(Grid(), Ruled(), Reflex())}), planner)
    assert planner.sets() == [(0, []), (0, ["legs.ended"]), (0, ["refused"]), (4, ["call"])]
    assert planner.moments[1].observations[0].data == {"place": 0.0}
    # The world beside it goes on, and its outcome is the one that counts.
    assert (episode.finish, episode.outcome) == ("finished", {"calls": 1.0})


def test_a_module_that_has_ended_does_not_keep_the_clock_going() -> None:
    class Clockwork(Environment):
        """Ticks for ever, and pays for each tick."""

        def begin(self, world: World, task: Task) -> None:
            self.world = world
            world.at(5, world.finish)
            world.work("spring", 1000)
            self.tick()

        def tick(self) -> None:
            self.world.utility(1.0, "tick")
            self.world.after(1, self.tick)

    class Nothing(Environment):
        def begin(self, world: World, task: Task) -> None: ...

    episode = play(Composed(Nothing(), {"clock": Nested(Clockwork(), Ruled())}), Ruled())
    assert (episode.finish, episode.utility) == ("quiet", 5.0)
    assert episode.ended <= 6


def test_reflexes_reach_the_module_that_has_them() -> None:
    class Stove(Environment):
        def begin(self, world: World, task: Task) -> None:
            self.world = world
            world.at(2, lambda: world.observe("smoke"))

        @action
        def off(self) -> None:
            """Off."""
            self.world.observe("dark")

        def reflex(self, observation: Observation) -> list[Intervention]:
            return [Intervention("off")] if observation.name == "smoke" else []

    planner = Ruled()
    play(Composed(Town(), {"stove": Stove()}), planner, Reflex())
    assert planner.sets()[1] == (2, ["stove.smoke", "stove.dark"])


def test_a_composed_world_is_its_own_world_to_the_outside() -> None:
    world = Composed(Town(), {"legs": Nested(Grid(), Ruled())})
    assert (world.headline, world.lower_is_better, world.tasks(1, 0, "test")) == ("calls", False, [Task(0, 99)])
    assert [one.name for one in world.brief().actions] == ["legs.command"]


@pytest.mark.parametrize("name", ["legs.dance", "arms.command", "dance"])
def test_what_no_module_can_do_is_refused(name: str) -> None:
    planner = Ruled(lambda moment: [Intervention(name)] if moment.now == 0 and not moment.observations else [])
    play(Composed(Town(), {"legs": Nested(Grid(), Ruled())}), planner, EventDriven())
    assert planner.sets()[1] == (0, ["refused"])
