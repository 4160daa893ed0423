"""The rewards of the proactive world, and the reward rules of the paper as weights of them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentfw import Episode, RewardModel, Run, Task
from agentfw.episode import Measure
from agentfw.runs import parse_spec
from agentfw.runs.spec.weights import Progress, parse_schedule
from agentfw.testing import fresh_host

HOST = fresh_host("agentfw_papers.plugin:plugin", builtins=True, strict=False)
COMPONENTS = {
    "proactive_ac": "rac",
    "proactive_max_ac": "max_rac",
    "proactive_pt": "ptr",
    "proactive_ftr": "ftr_cost",
    "proactive_format": "format",
}


def episode(*values: float, measure: str = "rac", whole: bool = True) -> Episode:
    found = Episode(Task(0, 7), outcome={"turns": float(len(values))} if whole else {})
    found.measures = [Measure(measure, value, 0, number) for number, value in enumerate(values, start=1)]
    return found


def scores_of(name: str, one: Episode, **settings: Any) -> dict[int | None, float]:
    model = HOST.create("reward", name, settings)
    assert isinstance(model, RewardModel)
    return {score.round: score.value for score in asyncio.run(model.score([one])) if score.component == name}


@pytest.mark.parametrize(("name", "measure"), COMPONENTS.items())
def test_each_turn_earns_what_was_measured_at_it(name: str, measure: str) -> None:
    assert scores_of(name, episode(0.5, 1.0, measure=measure)) == {1: 0.5, 2: 1.0}


def test_a_turn_that_was_not_measured_has_no_score_and_is_counted(tmp_path: Path) -> None:
    spec = parse_spec(
        {
            "environment": {"name": "proactive", "settings": {"unit": "dialogue", "dialogues": 5}},
            "policy": "scripted",
            "rewards": ["proactive_pt"],
            "episodes": 2,
            "horizon": 4.5,
        }
    )
    run = Run.create(spec, HOST, tmp_path)

    asyncio.run(run.execute())

    records = run.folder.metrics()
    # The fifth turn was still open when the time was over.
    assert [len(record["scores"]) for record in records] == [4, 4]
    assert [record["outcome"]["proactive_pt_unmeasured"] for record in records] == [1, 1]


# -- the rules of appendix G.4 -----------------------------------------------------------------------------------------

RULES: Mapping[str, Mapping[str, float | str]] = {
    "rac": {"proactive_ac": 1},
    "max_rac": {"proactive_max_ac": 1},
    "timing": {"proactive_pt": 1, "proactive_ftr": -1},
    "ruler": {"rubric": 1},
    "weighted": {"proactive_ac": 1, "proactive_pt": 0.05, "proactive_ftr": -0.01},
    "adaptive_metric": {
        "proactive_ac": "stages:0,0.6,0.6",
        "proactive_max_ac": "stages:0.8,0,0",
        "proactive_pt": "stages:0.2,0.3,0",
        "proactive_ftr": "stages:0,-0.1,-0.4",
    },
    "hybrid": {"proactive_ac": 0.5, "rubric": 0.5},
    "adaptive_ruler": {"proactive_ac": "ramp:1->0.7", "rubric": "ramp:0.3"},
}
VALUES = {"proactive_ac": 0.5, "proactive_max_ac": 0.8, "proactive_pt": 0.4, "proactive_ftr": 0.25, "rubric": 0.9}


def reward(rule: str, update: int, updates: int = 99) -> float:
    progress = Progress(update=update, updates=updates)
    return sum(parse_schedule(weight)(progress) * VALUES[name] for name, weight in RULES[rule].items())


@pytest.mark.parametrize(
    ("rule", "update", "value"),
    [
        ("rac", 50, 0.5),
        ("max_rac", 50, 0.8),
        ("timing", 50, 0.4 - 0.25),
        ("ruler", 50, 0.9),
        ("weighted", 50, 0.5 + 0.05 * 0.4 - 0.01 * 0.25),
        ("adaptive_metric", 0, 0.8 * 0.8 + 0.2 * 0.4),
        ("adaptive_metric", 32, 0.8 * 0.8 + 0.2 * 0.4),
        ("adaptive_metric", 33, 0.6 * 0.5 + 0.3 * 0.4 - 0.1 * 0.25),
        ("adaptive_metric", 66, 0.6 * 0.5 - 0.4 * 0.25),
        ("adaptive_metric", 98, 0.6 * 0.5 - 0.4 * 0.25),
        ("hybrid", 50, 0.5 * 0.5 + 0.5 * 0.9),
        ("adaptive_ruler", 0, 0.5),
        ("adaptive_ruler", 33, 0.9 * 0.5 + 0.1 * 0.9),
        ("adaptive_ruler", 66, 0.8 * 0.5 + 0.2 * 0.9),
        # The last update comes before the end of the training: (U - 1) / U of the share.
        ("adaptive_ruler", 98, (1 - 0.3 * 98 / 99) * 0.5 + 0.3 * 98 / 99 * 0.9),
    ],
)
def test_a_rule_of_the_paper_is_a_mix_of_weights(rule: str, update: int, value: float) -> None:
    assert reward(rule, update) == pytest.approx(value)


def test_the_first_two_stages_of_the_adaptive_metric_share_one_and_a_cost() -> None:
    totals = [
        math.fsum(
            abs(parse_schedule(weight)(Progress(update=update, updates=99)))
            for weight in RULES["adaptive_metric"].values()
        )
        for update in (0, 40, 80)
    ]

    assert totals == pytest.approx([1, 1, 1])


# -- in a run ----------------------------------------------------------------------------------------------------------


def test_a_run_mixes_agreement_with_the_judge_for_each_sample_of_a_turn(tmp_path: Path) -> None:
    judge = {"name": "rubric", "weight": 0.5, "settings": {"policy": "timing_judge"}}
    spec = parse_spec(
        {
            "environment": {"name": "proactive", "settings": {"dialogues": 5, "answers": "lines"}},
            "policy": {"name": "scripted", "settings": {"replies": ["search-faq ready_to_trigger", "nothing"]}},
            "rewards": [{"name": "proactive_ac", "weight": 0.5}, judge],
            "episodes": 4,
            "samples": 2,
        }
    )
    run = Run.create(spec, HOST, tmp_path)

    asyncio.run(run.execute())

    for record in run.folder.metrics():
        found = {row[0]: row[2] for row in record["scores"]}
        assert found.keys() == {"proactive_ac", "rubric"}
        assert record["reward"] == pytest.approx(0.5 * found["proactive_ac"] + 0.5 * found["rubric"])
