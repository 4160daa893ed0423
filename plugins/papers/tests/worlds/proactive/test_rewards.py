"""The rewards of the proactive world, and the reward rules of the paper as weights of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agentfw import Episode, RewardModel, Run, Task
from agentfw.episode import Measure
from agentfw.runs import parse_spec
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
