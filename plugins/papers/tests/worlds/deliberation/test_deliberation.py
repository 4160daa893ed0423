"""Deliberation: thinking takes its time off the clock, and late is late."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agentfw import Episode, Intervention, Moment, Task
from agentfw_papers.worlds.deliberation.environment import Deliberation, DeliberationSettings

from ..playing import Rule, Ruled, observed, refusals
from ..playing import play as play_in


def play(rule: Rule, seed: int = 3, **settings: Any) -> Episode:
    return play_in(Deliberation(DeliberationSettings(**settings)), Ruled(rule), Task(0, seed=seed))


def think(mode: int) -> Rule:
    """Think about each question in this mode."""
    return lambda moment: [Intervention("think", {"mode": mode}) for _ in moment.of("question")]


def test_an_answer_that_is_ready_when_it_is_due_is_in_time() -> None:
    assert play(think(2), gaps=(2.0,), qualities=(1, 1, 1, 1, 1), toll=0).utility == 4


def test_an_answer_that_comes_later_costs_the_penalty_at_its_deadline_and_only_once() -> None:
    episode = play(think(3), gaps=(3.0,), qualities=(1, 1, 1, 1, 1), toll=0)
    assert [(event.time, event.data["value"]) for event in episode.events if event.kind == "utility"] == [(3, -2)]
    assert episode.outcome == {"success": 0, "timeout": 1, "deepest": 0}


def test_in_a_chain_thinking_long_makes_the_next_questions_late_and_who_never_answers_pays_for_each() -> None:
    deep, quick = (play(think(mode), setting="chain") for mode in (5, 1))
    idle = play(lambda moment: [], setting="chain")
    assert deep.outcome["timeout"] >= 0.9
    assert quick.outcome["timeout"] == 0
    assert (deep.ended, quick.ended) == (120, 10)
    assert (idle.utility, idle.outcome["timeout"]) == (-20, 1)


def test_both_worlds_ask_the_same_questions() -> None:
    def questions(instant: bool, mode: int) -> list[tuple[float, str]]:
        asked = observed(play(think(mode), setting="chain", instant=instant), "question")
        return [(event.data["due"], event.data["difficulty"]) for event in asked]

    assert questions(False, 1) == questions(False, 4) == questions(True, 5)
    assert len(questions(True, 5)) == 10


def test_thinking_about_two_things_at_once_is_refused() -> None:
    def twice(moment: Moment) -> Iterable[Intervention]:
        return [Intervention("think", {"mode": 1})] * 2 if moment.of("question") else []

    assert refusals(play(twice)) == ["you are thinking already"]


def test_the_demonstration_is_never_late() -> None:
    for seed in range(20):
        world = Deliberation(DeliberationSettings(setting="chain"))

        def follow(moment: Moment, world: Deliberation = world) -> Iterable[Intervention]:
            return [call for call in world.demonstrate(moment) if not isinstance(call, str)]

        assert play_in(world, Ruled(follow), Task(0, seed=seed)).outcome["timeout"] == 0
