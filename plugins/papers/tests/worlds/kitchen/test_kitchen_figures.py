"""How the kitchen lays out its signals, and what an interface costs in it."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from random import Random
from typing import Any

from agentfw.episode import Episode, Task
from agentfw.interfaces import parse_interface
from agentfw.turns.engagement import Engagement
from agentfw.turns.policy_agent import PolicyAgent
from agentfw_papers.worlds.kitchen.dishes import draw_dishes
from agentfw_papers.worlds.kitchen.environment import Kitchen
from agentfw_papers.worlds.kitchen.kitchen_settings import KitchenSettings
from agentfw_papers.worlds.kitchen.rule_policy import KitchenController, KitchenControllerSettings


def kept(interface: str, seed: int = 3, *, bounded: bool = False, **settings: Any) -> Episode:
    agent = PolicyAgent(KitchenController(KitchenControllerSettings(bounded=bounded)), window=1)
    kitchen = Kitchen(KitchenSettings.model_validate(settings))
    return asyncio.run(Engagement(kitchen, agent, parse_interface(interface)).run(Task(0, seed=seed)))


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
