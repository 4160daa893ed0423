"""The reward `calendar_thought`: what follows from what was read is right; what does not costs its step."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import cache

import pytest
from calendar_teacher import LABELS, CalendarThought, TeacherPolicy, read_weights, write_weights

from agentfw import Engagement, PolicyAgent, Task
from agentfw.episode import Call, Episode, Turn
from agentfw.interfaces import EventDriven
from agentfw_plugins.memories.strategyhub import StrategyHubMemory, StrategyHubSettings
from agentfw_plugins.worlds.calendar.environment import CalendarConflicts, CalendarSettings
from agentfw_plugins.worlds.calendar.policies import RulesPolicy

ROUNDS = 20
STEPS = 8
"""What was named, five events, the memory, the decision."""


def played(policy: TeacherPolicy | RulesPolicy) -> Episode:
    settings = CalendarSettings(rounds=ROUNDS)
    agent = PolicyAgent(policy, memories=[StrategyHubMemory(StrategyHubSettings(show=True))], window=2, recall=10)
    user = settings.dataset().users("train")[3]
    task = Task(0, 7, user=user, split="train")
    return asyncio.run(Engagement(CalendarConflicts(settings), agent, EventDriven()).run(task))


@cache
def taught() -> Episode:
    return played(TeacherPolicy())


def shares(episode: Episode) -> list[float]:
    scores = asyncio.run(CalendarThought().score([episode]))
    assert {score.track for score in scores} == {"base"}
    assert [score.round for score in scores] == [turn.round for turn in episode.turns]
    return [score.value for score in scores]


def learning_turn(episode: Episode) -> Turn:
    """A turn, not the first, in which something was learned."""
    return next(turn for turn in episode.turns[1:] if len(turn.calls) == 2)


def with_text(episode: Episode, turn: Turn, text: str, calls: tuple[Call, ...] | None = None) -> Episode:
    changed = replace(turn, text=text, calls=turn.calls if calls is None else calls)
    return replace(episode, turns=[changed if one is turn else one for one in episode.turns])


def test_who_thinks_as_taught_is_right_throughout() -> None:
    assert shares(taught()) == [1.0] * ROUNDS


def test_who_does_not_think_aloud_has_nothing_right() -> None:
    assert set(shares(played(RulesPolicy()))) == {0.0}


@pytest.mark.parametrize("line", ["named: ", "A: ", "B: ", "E: "])
def test_a_line_that_does_not_follow_costs_its_step(line: str) -> None:
    turn = learning_turn(taught())
    text = "\n".join(said.replace(" ", "  ", 1) if said.startswith(line) else said for said in turn.text.splitlines())
    assert text != turn.text
    values = shares(with_text(taught(), turn, text))
    assert values[turn.index] == pytest.approx(1 - 1 / STEPS)
    assert values[: turn.index] + values[turn.index + 1 :] == [1.0] * (ROUNDS - 1)


def test_a_decision_for_less_than_the_best_costs_its_step() -> None:
    turn = taught().turns[3]
    *others, decide = turn.calls
    worst = replace(decide, arguments={**decide.arguments, "accept": decide.arguments["ranking"][-1]})
    assert shares(with_text(taught(), turn, turn.text, (*others, worst)))[turn.index] == pytest.approx(1 - 1 / STEPS)


def test_a_weight_that_nobody_named_has_to_stay() -> None:
    """The lines of the events are judged by the weights that were written down, so a changed one costs the memory's
    step, and the line of every event that has it."""
    turn = learning_turn(taught())
    update, decide = turn.calls
    weights = read_weights(update.arguments["strategies"])
    other = next(name for name in weights if LABELS[name] not in turn.text.splitlines()[0])
    moved = replace(update, arguments={**update.arguments, "strategies": write_weights({**weights, other: 99})})
    values = shares(with_text(taught(), turn, turn.text, (moved, decide)))
    assert values[turn.index] <= 1 - 1 / STEPS


def test_a_weight_has_to_go_the_way_that_was_named() -> None:
    turn = learning_turn(taught())
    update, decide = turn.calls
    weights = read_weights(update.arguments["strategies"])
    feedback = next(
        event.data
        for event in taught().events
        if event.name == "feedback" and event.kind == "observation" and event.data["round"] == turn.round - 1
    )
    name, valued = feedback["because"]["principle"], feedback["because"]["valued"]
    away = replace(
        update,
        arguments={**update.arguments, "strategies": write_weights({**weights, name: -99 if valued else 99})},
    )
    assert shares(with_text(taught(), turn, turn.text, (away, decide)))[turn.index] <= 1 - 2 / STEPS
