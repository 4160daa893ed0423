"""The shipped trainings that are called PARPO judge most groups by an anchor: without, they would be the variant C4."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import fmean

import pytest

import agentfw

pytestmark = pytest.mark.nightly


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "world"),
    [
        ("tiny-assistant", "assistant"),
        ("merchant", "merchant"),
        ("merchant-tiny", "merchant"),
    ],
)
def test_most_groups_are_judged_by_an_anchor(tmp_path: Path, name: str, world: str) -> None:
    # Which users come back depends on the spec alone, so a planner can play in place of a language model.
    planner = f"{world}-linear"
    settings = {"environment.style": "full", "samples": 2, "evaluation.tasks": 1}
    result = agentfw.train(name, policy=planner, learner=planner, settings=settings, runs=tmp_path)

    updates = [json.loads(line) for line in (result.path / "updates.jsonl").read_text("utf-8").splitlines()]
    assert fmean(update["optimizer"]["anchored"] for update in updates) > 0.5
