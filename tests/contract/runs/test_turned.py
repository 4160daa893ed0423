"""An environment hears of every turn once what was done in it has taken effect, also as part of a composed world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from agentfw import Agent, Decision, Engagement, Environment, Intervention, Moment, Task, World, action
from agentfw.episode import Turn
from agentfw.nested import Composed


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
        if len(self.seen) == 3:
            self.world.finish()
        else:
            self.world.after(1, lambda: self.world.observe("again"))


class Knocking(Agent):
    async def act(self, moment: Moment) -> Decision:
        return Decision([Intervention("knock"), Intervention("knock")], takes=0.5)


@pytest.mark.parametrize("around", [lambda world: world, lambda world: Composed(world, {})])
def test_a_world_hears_of_a_turn_after_its_effects(around: Callable[[Environment], Environment]) -> None:
    world = Counting()
    episode = asyncio.run(Engagement(around(world), Knocking()).run(Task(0, 7)))
    assert world.seen == [(2, 0.5), (4, 2.0), (6, 3.5)]
    assert (episode.finish, len(episode.turns)) == ("finished", 3)
