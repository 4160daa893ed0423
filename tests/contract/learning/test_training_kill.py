"""A training that is killed, at random or at the worst of moments, ends as if nobody had disturbed it."""

from __future__ import annotations

import json
import random
import signal
from pathlib import Path
from typing import Any

import pytest

from agentfw_benchmarks.kills import TrainingCase, differences, draw, trial, undisturbed


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where all trainings are: a language model is there once, for a record says where its model is."""
    return tmp_path_factory.mktemp("together")


@pytest.fixture(scope="module")
def expected(together: Path) -> Any:
    """What is left of each case when nobody disturbs it, played once."""
    known: dict[str, Any] = {}

    def find(case: str) -> Any:
        if case not in known:
            known[case] = undisturbed(TrainingCase, case, together / f"undisturbed {case}")
        return known[case]

    return find


@pytest.mark.nightly
@pytest.mark.parametrize("case", ["bandit", "memory", "language model"])
def test_kills_at_any_moment_change_nothing(case: str, expected: Any, together: Path) -> None:
    if case == "language model":
        for module in ("torch", "transformers", "peft"):
            pytest.importorskip(module)
    blows = draw(random.Random(case), 2)

    found = trial(TrainingCase, case, together / f"killed {case}", expected(case), blows)

    assert found.differences == ()


@pytest.mark.nightly
@pytest.mark.parametrize("case", ["overlapped", "overlapped pool"])
def test_an_overlapped_training_goes_on_after_kills_and_loses_nothing(case: str, expected: Any, together: Path) -> None:
    blows = draw(random.Random(case), 2)

    found = trial(TrainingCase, case, together / f"killed {case}", expected(case), blows)

    assert any(found.hit)
    assert found.differences == ()


ONE_AFTER_ANOTHER = [("episode_done", 5), ("torn", 4), ("learn", 2), ("publish", 2), ("updated", 1)]
RARE_MOMENTS = [("run_started", 1), ("scored", 3), ("publish", 2), ("forget", 4), ("run_finished", 1)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "moments",
    [ONE_AFTER_ANOTHER, *(pytest.param([moment], marks=pytest.mark.nightly) for moment in RARE_MOMENTS)],
    ids=str,
)
def test_kills_at_critical_moments_change_nothing(
    moments: list[tuple[str, int]], expected: Any, tmp_path: Path
) -> None:
    """Each kill hits the training that was resumed after the one before."""
    laboratory = TrainingCase("bandit", tmp_path / "run")
    for point, call in moments:
        (laboratory.runs / "kill.json").write_text(json.dumps({"point": point, "call": call}))
        process = laboratory.start()
        told = process.communicate(timeout=120)[1]
        assert process.returncode == -signal.SIGKILL, f"at {point}: {told}"

    assert list(differences(laboratory.finish(), expected("bandit").left)) == []
