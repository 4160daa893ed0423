"""How the kitchen lays out its signals, and what an interface costs in it."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from agentfw_papers.worlds.kitchen.dishes import draw_dishes
from agentfw_papers.worlds.kitchen.kitchen_settings import KitchenSettings


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
