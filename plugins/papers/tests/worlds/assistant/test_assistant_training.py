"""The linear assistant learns from rewards: what is right for everybody, and what suits one user."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentfw import Host
from agentfw.runs.run import Run
from agentfw.runs.spec.run_spec import parse_spec
from agentfw_papers.linear import Decision, read_decisions, write_decisions


def trained(folder: Path, **more: Any) -> Run:
    spec = {
        "environment": "assistant",
        "policy": "assistant-linear",
        "learner": "assistant-linear",
        "updates": 4,
        "tasks": 12,
        "samples": 4,
        "rewards": ["assistant_base", "assistant_personal"],
        "evaluation": {"every": 4, "tasks": 40},
        **more,
    }
    run = Run.create(parse_spec(spec), Host.load(), folder)
    asyncio.run(run.execute())
    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"optimizer": "parpo", "groups": "query"},
        {"optimizer": "empirical_bayes", "tasks": 48, "samples": 1},  # each request once, as a live product would
    ],
)
def test_a_training_raises_what_users_get(tmp_path: Path, settings: dict[str, Any]) -> None:
    run = trained(tmp_path, **settings)

    stages = run.folder.stages()
    before, after = ([record["outcome"]["visible_judge"] for record in stages[update]] for update in (0, 4))

    gains = [late - early for early, late in zip(before, after, strict=True)]
    error = stdev(gains) / math.sqrt(len(gains))
    assert fmean(gains) > 2 * error


def rows(width: int) -> st.SearchStrategy[Any]:
    return st.lists(st.tuples(*[st.floats(0, 1)] * width), min_size=2, max_size=5)


@settings(max_examples=50)
@given(rows(2), st.floats(-3, 3), st.floats(-3, 3))
def test_the_gradients_are_exact(options: list[tuple[float, float]], first: float, second: float) -> None:
    decision = Decision(("stated", "fame"), tuple(options), len(options) - 1)
    weights, reference, step = {"stated": first, "fame": second}, {"stated": 0.3, "fame": -0.2}, 1e-6

    def divergence(at: dict[str, float]) -> float:
        now, before = decision.probabilities(at), decision.probabilities(reference)
        return sum(one * (math.log(one) - math.log(other)) for one, other in zip(now, before, strict=True))

    for name in weights:
        more, less = weights | {name: weights[name] + step}, weights | {name: weights[name] - step}
        slope = (decision.logprob(more) - decision.logprob(less)) / (2 * step)
        away = (divergence(more) - divergence(less)) / (2 * step)
        assert decision.gradient(weights)[name] == pytest.approx(slope, abs=1e-5)
        assert decision.divergence_gradient(weights, reference)[name] == pytest.approx(away, abs=1e-5)
    assert read_decisions(write_decisions([decision])) == [decision]
