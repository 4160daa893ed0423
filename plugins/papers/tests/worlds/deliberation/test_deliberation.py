"""Deliberation: thinking takes its time off the clock, and late is late."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from agentfw.agent import Agent, Decision
from agentfw.episode import Episode, Intervention, Task
from agentfw.request import Moment
from agentfw.turns.engagement import Engagement
from agentfw_papers.worlds.deliberation.environment import Deliberation, DeliberationSettings


class Thinker(Agent):
    """Thinks in the mode that a rule gives for a question."""

    def __init__(self, rule: Callable[[Any], int]) -> None:
        self.rule = rule

    async def act(self, moment: Moment) -> Decision:
        return Decision([Intervention("think", {"mode": self.rule(one.data)}) for one in moment.of("question")])


def play(rule: Callable[[Any], int], seed: int = 3, **settings: Any) -> Episode:
    world = Deliberation(DeliberationSettings(**settings))
    return asyncio.run(Engagement(world, Thinker(rule)).run(Task(0, seed=seed)))


def test_an_answer_that_is_ready_when_it_is_due_is_in_time() -> None:
    assert play(lambda data: 2, gaps=(2.0,), qualities=(1, 1, 1, 1, 1), toll=0).utility == 4


def test_an_answer_that_comes_later_costs_the_penalty_at_its_deadline_and_only_once() -> None:
    episode = play(lambda data: 3, gaps=(3.0,), qualities=(1, 1, 1, 1, 1), toll=0)
    assert [(event.time, event.data["value"]) for event in episode.events if event.kind == "utility"] == [(3, -2)]
    assert episode.outcome == {"success": 0, "timeout": 1, "deepest": 0}


def test_in_a_chain_thinking_long_makes_the_next_questions_late() -> None:
    deep, quick = (play(lambda data, mode=mode: mode, setting="chain") for mode in (5, 1))  # type: ignore[misc]
    assert deep.outcome["timeout"] >= 0.9
    assert quick.outcome["timeout"] == 0
    assert (deep.ended, quick.ended) == (120, 10)


def test_both_worlds_ask_the_same_questions() -> None:
    def questions(instant: bool, mode: int) -> list[tuple[float, str]]:
        episode = play(lambda data: mode, setting="chain", instant=instant)
        return [(event.data["due"], event.data["difficulty"]) for event in episode.events if event.name == "question"]

    assert questions(False, 1) == questions(False, 4) == questions(True, 5)
    assert len(questions(True, 5)) == 10


def test_who_never_answers_pays_for_every_question() -> None:
    episode = asyncio.run(Engagement(Deliberation(DeliberationSettings(setting="chain")), Idle()).run(Task(0, seed=3)))
    assert episode.utility == -20
    assert episode.outcome["timeout"] == 1


class Idle(Agent):
    async def act(self, moment: Moment) -> Decision:
        return Decision()


def test_thinking_about_two_things_at_once_is_refused() -> None:
    class Twice(Agent):
        async def act(self, moment: Moment) -> Decision:
            return Decision([Intervention("think", {"mode": 1})] * 2 if moment.of("question") else [])

    episode = asyncio.run(Engagement(Deliberation(), Twice()).run(Task(0, seed=3)))
    assert [event.data["reason"] for event in episode.events if event.kind == "refused"] == ["you are thinking already"]


def test_the_demonstration_is_never_late() -> None:
    for seed in range(20):
        world = Deliberation(DeliberationSettings(setting="chain"))

        class Follower(Agent):
            async def act(self, moment: Moment, world: Deliberation = world) -> Decision:
                return Decision([call for call in world.demonstrate(moment) if not isinstance(call, str)])

        assert asyncio.run(Engagement(world, Follower()).run(Task(0, seed=seed))).outcome["timeout"] == 0
