"""Engagements within engagements: the same interface one level down, on one clock, in one record."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from planned_worlds import Ruled, do, play

from agentfw import Decision, Environment, World, action
from agentfw.episode import Intervention, Observation, Task, Turn
from agentfw.interfaces import EventDriven, Reflex, StepLoop
from agentfw.request import Moment
from agentfw.turns.nested import Composed, Nested


class Town(Environment):
    """Somebody calls at four; at thirty it is over."""

    headline = "calls"
    lower_is_better = True

    def profile(self) -> dict[str, str]:
        return {"about": "lives in a town"}

    def outcome(self) -> dict[str, float]:
        return {"calls": 0.0}

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


def navigate(moment: Moment) -> Decision:
    """Goes where it is told and says when it is there."""
    goes = [Intervention("walk", {"to": one.data["to"]}) for one in moment.of("command") if "to" in one.data]
    return Decision(goes + [Intervention("report", dict(one.data)) for one in moment.of("arrived")])


def plan(moment: Moment) -> Decision:
    """Sends it to place 2 first, and from there to 5."""
    if moment.now == 0 and not moment.observations:
        return do("legs.command", to=2)
    there = [one.data["at"] for one in moment.of("legs.report")]
    return do("legs.command", to=5) if there == [2] else do()


def test_a_planner_over_a_navigator() -> None:
    planner, navigator = Ruled(plan), Ruled(navigate)
    episode = play(Composed(Town(), {"legs": Nested(Grid(), navigator, StepLoop())}), planner)
    # News reaches the planner while the navigator is under way.
    assert planner.sets() == [(0, []), (4, ["call"]), (6, ["legs.report"]), (15, ["legs.report"])]
    assert navigator.sets() == [(0, []), (0, ["command"]), (6, ["arrived"]), (6, ["command"]), (15, ["arrived"])]
    assert (episode.finish, episode.outcome, episode.utility) == ("finished", {"calls": 1.0}, 2.0)
    assert episode.profile == {"about": "lives in a town"}
    # Every event and turn says whose it is.
    assert {(event.seat, event.kind, event.name) for event in episode.events} >= {
        ("", "intervention", "legs.command"),
        ("legs", "observation", "command"),
        ("legs", "work", "walk"),
        ("legs", "intervention", "report"),
        ("", "observation", "legs.report"),
    }
    assert {turn.seat for turn in episode.turns} == {"", "legs"}
    times = [event.time for event in episode.events]
    assert times == sorted(times)


def test_a_module_of_a_module_has_a_seat_of_its_own() -> None:
    feet = Nested(Grid(), Ruled(navigate), seat="feet")

    def pass_on(moment: Moment) -> Decision:
        down = [Intervention("feet.command", dict(one.data)) for one in moment.of("command")]
        return Decision(down + [Intervention("report", dict(one.data)) for one in moment.of("feet.report")])

    legs = Nested(Composed(Grid(), {"feet": feet}), Ruled(pass_on))
    planner = Ruled(plan)
    episode = play(Composed(Town(), {"legs": legs}), planner)
    assert (6, ["legs.report"]) in planner.sets()
    assert {event.seat for event in episode.events} == {"", "legs", "legs/feet"}


def test_a_module_that_has_ended_says_so_and_takes_no_command() -> None:
    def rule(moment: Moment) -> Decision:
        if moment.now == 0 and not moment.observations:
            return do("legs.command", stop=True)
        return do("legs.command", to=1) if moment.of("legs.ended") else do()

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
            world.at(6, lambda: world.utility(9.0, "after its end"))
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
    assert (world.headline, world.lower_is_better, world.tasks(1, 0, "test")) == ("calls", True, [Task(0, 99)])
    assert world.outcome() == {"calls": 0.0}
    assert [one.name for one in world.brief().actions] == ["legs.command"]


@pytest.mark.parametrize("name", ["legs.dance", "arms.command", "dance"])
def test_what_no_module_can_do_is_refused(name: str) -> None:
    planner = Ruled(lambda moment: do(name) if moment.now == 0 and not moment.observations else do())
    play(Composed(Town(), {"legs": Nested(Grid(), Ruled())}), planner, EventDriven())
    assert planner.sets()[1] == (0, ["refused"])


def test_two_modules_of_one_kind_draw_numbers_of_their_own() -> None:
    class Die(Environment):
        def begin(self, world: World, task: Task) -> None:
            world.observe("cast", {"number": world.random("die").random(), "seed": world.seeds.integer("die")})

    def cast(*names: str) -> list[dict[str, float]]:
        episode = play(Composed(Town(), {name: Die() for name in names}), Ruled())
        return [event.data for event in episode.events if event.name.endswith(".cast")]

    one, two = cast("one", "two")
    assert one["number"] != two["number"]
    assert one["seed"] != two["seed"]
    assert [two] == cast("two"), "what one draws changes nothing for the other"


class Counting(Environment):
    """Count what has been done at the end of each turn, and go on for three."""

    def begin(self, world: World, task: Task) -> None:
        self.world = world
        self.done = 0
        self.seen: list[tuple[int, float]] = []

    @action
    def knock(self) -> None:
        """Knock."""
        self.done += 1

    def turned(self, turn: Turn) -> None:
        self.seen.append((self.done, self.world.now))
        turn.text = "the record is not the world's"
        if len(self.seen) == 3:
            self.world.finish()
        else:
            self.world.after(1, lambda: self.world.observe("again"))


@pytest.mark.parametrize("around", [lambda world: world, lambda world: Composed(world, {})])
def test_a_world_hears_of_a_turn_after_its_effects(around: Callable[[Environment], Environment]) -> None:
    world = Counting()
    episode = play(around(world), Ruled(lambda moment: do("knock", "knock", takes=0.5)))
    assert world.seen == [(2, 0.5), (4, 2.0), (6, 3.5)]
    assert (episode.finish, [turn.text for turn in episode.turns]) == ("finished", [""] * 3)
