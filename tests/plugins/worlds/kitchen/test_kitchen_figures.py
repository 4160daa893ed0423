"""Figures of the kitchen: what is read from the record, how signals are laid out, and the experiment itself."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from agentfw.engagement import Engagement
from agentfw.episode import Episode, Task
from agentfw.interfaces import parse_interface
from agentfw.policy_agent import PolicyAgent
from agentfw_plugins.worlds.kitchen.dishes import draw_dishes
from agentfw_plugins.worlds.kitchen.environment import Kitchen, KitchenSettings
from agentfw_plugins.worlds.kitchen.metrics import polls, sight_delays
from agentfw_plugins.worlds.kitchen.rule_policy import KitchenController, KitchenControllerSettings
from agentfw_plugins.worlds.kitchen.table import PLAYERS, measure_kitchen


def kept(interface: str, seed: int = 3, *, bounded: bool = False, **settings: Any) -> Episode:
    agent = PolicyAgent(KitchenController(KitchenControllerSettings(bounded=bounded)), window=1)
    kitchen = Kitchen(KitchenSettings.model_validate(settings))
    return asyncio.run(Engagement(kitchen, agent, parse_interface(interface)).run(Task(0, seed=seed)))


def test_signals_are_seen_at_once_at_a_poll_or_when_the_tutor_is_done() -> None:
    at_once, polled, late = (sight_delays(kept(name)) for name in ("event_driven", "polling:40", "step_loop"))
    assert set(at_once) == {0}
    assert 0 < max(polled) <= 40
    assert max(late) > 40


def test_polls_are_counted_while_the_tutor_explains() -> None:
    episode = kept("polling:40", variant="one", lesson="long")
    tutored = sum(turn.count for turn in episode.turns if turn.seat == "tutor")
    assert abs(polls(episode, 40) - tutored / 40) < 2
    assert polls(episode, 10**9) == 0


def test_a_case_lays_its_signals_out_as_its_gap_says() -> None:
    """As long as the dishes come to the stove one right after the other."""

    def signals(case: str, seed: int) -> list[float]:
        dishes = draw_dishes(KitchenSettings(case=case, dishes=4, burners=4), case, Random(seed))
        staged, found = 0.0, []
        for dish in dishes:
            staged += dish.prepare + 3 + 20
            found.append(staged + dish.cook)
        return found

    for seed in range(30):
        timer, whistle, *_ = signals("soft_vs_critical_conflict", seed)
        assert 10 <= whistle - timer <= 25
        assert all(60 <= later - sooner <= 120 for sooner, later in pairwise(signals("resume_pressure", seed)))


def test_a_case_has_the_dishes_that_it_is_named_for() -> None:
    def critical(case: str) -> list[bool]:
        dishes = draw_dishes(KitchenSettings(case=case, dishes=3), case, Random(7))
        return [dish.critical for dish in dishes]

    assert critical("soft_vs_critical_conflict")[:2] == [False, True]
    assert critical("staggered_criticals")[:2] == [True, True]
    assert critical("resume_pressure") == [True, False, True]


def test_a_loop_that_tutors_up_to_the_next_signal_loses_fewer_dishes() -> None:
    plain = sum(kept("step_loop", seed).outcome["dishes"] for seed in range(10))
    bounded = sum(kept("step_loop", seed, bounded=True).outcome["dishes"] for seed in range(10))
    assert bounded > plain + 2


@pytest.mark.parametrize("variant", ["one", "multi"])
def test_the_experiment_plays_every_cell_under_every_interface(variant: str) -> None:
    table = measure_kitchen(variant, structures=1, processes=1)
    rows = {(row.family, row.player): row for row in table.rows}
    families = {family for family, _ in rows}
    assert table.kitchens == (16 if variant == "one" else 54)
    assert len(families) == (5 if variant == "one" else 4)
    assert len(rows) == len(families) * len(PLAYERS)
    loop, best = rows["", "step_loop"], rows["", "event_driven"]
    assert loop.figures["utility"].estimate < best.figures["utility"].estimate
    assert loop.difference is not None
    gap = loop.figures["utility"].estimate - best.figures["utility"].estimate
    assert loop.difference.difference.estimate == pytest.approx(gap)
    assert best.difference is None
    polling = rows["", "polling:40"].figures
    assert polling["charged"].estimate < polling["utility"].estimate
    assert "step loop" in table.picture().to_svg()
