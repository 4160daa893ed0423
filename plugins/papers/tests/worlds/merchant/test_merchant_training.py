"""The linear planner learns from rewards what every report needs, and what suits one merchant."""

from __future__ import annotations

import asyncio
import json
import math
from pathlib import Path

import pytest

from agentfw import Host
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import parse_spec


@pytest.mark.nightly
def test_a_training_raises_the_score(tmp_path: Path) -> None:
    spec = {
        "environment": "merchant",
        "policy": "merchant-linear",
        "learner": "merchant-linear",
        "optimizer": "parpo",
        "updates": 6,
        "tasks": 12,
        "samples": 4,
        "rewards": ["merchant_base", "merchant_personal"],
        "evaluation": {"every": 6, "tasks": 48},
    }
    run = Run.create(parse_spec(spec), Host.load(), tmp_path)

    asyncio.run(run.execute())

    stages = run.folder.stages()
    before, after = ([record["outcome"]["visible_score"] for record in stages[update]] for update in (0, 6))
    gains = [late - early for early, late in zip(before, after, strict=True)]
    mean = sum(gains) / len(gains)
    error = math.sqrt(sum((gain - mean) ** 2 for gain in gains) / len(gains) / (len(gains) - 1))
    assert mean > 3 * error
    weights = json.loads(sorted(tmp_path.rglob("weights.json"))[-1].read_text("utf-8"))
    assert weights["topic"] > weights["other"]
