"""Simple players: the order of timing and agreement in which any trained policy has to find its place."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from agentfw.report.statistics import Interval, bootstrap
from agentfw_papers.worlds.proactive.environment import Proactive
from agentfw_papers.worlds.proactive.settings import ProactiveSettings

Figures = Mapping[str, Mapping[str, Interval]]


@pytest.fixture(scope="module")
def figures() -> Figures:
    """The figures of each player over 200 generated dialogues."""
    environment = Proactive(ProactiveSettings(unit="dialogue", dialogues=200))
    rows: dict[str, dict[str, list[float]]] = {}
    for task in environment.tasks(200, 7, "test"):
        for player, outcome in environment.references(task).items():
            for name, value in outcome.items():
                rows.setdefault(player, {}).setdefault(name, []).append(value)
    return {player: {name: bootstrap(values) for name, values in found.items()} for player, found in rows.items()}


@pytest.mark.slow
def test_the_oracle_agrees_with_itself_and_triggers_nothing_in_vain(figures: Figures) -> None:
    oracle = {name: interval.estimate for name, interval in figures["oracle"].items()}

    assert (oracle["ac"], oracle["max_ac"], oracle["ftr"], oracle["missed"]) == (1, 1, 0, 0)
    assert oracle["pt"] == pytest.approx(oracle["rar"])


def test_a_player_waits_for_the_same_turn_in_single_turns_as_in_dialogues() -> None:
    single = Proactive(ProactiveSettings(unit="turn", dialogues=20))

    tasks = single.tasks(200, 7, "test")
    ready = [single.references(task)["reactive"].get("rar", 0.0) for task in tasks]

    assert 0 < sum(ready) < sum(single.references(task)["oracle"].get("rar", 0.0) for task in tasks)
