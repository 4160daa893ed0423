"""Every component of the papers keeps the promises of its kind."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentfw import Moment
from agentfw.component import KINDS
from agentfw.testing import contract, fresh_host, made_by
from agentfw.testing.checks import CheckFunction, run_check
from agentfw.testing.samples import sample_episodes

pytestmark = pytest.mark.nightly

HOST = fresh_host("agentfw_papers.plugin:plugin", builtins=True)

# What a component can't be checked without; its own tests run the same checks.
NEEDS_MORE = {
    ("environment", "etapp"): "needs a copy of ETAPP: test_etapp.py runs the same checks",
    ("reward", "assistant_preference"): "fits a model: test_assistant_logs.py runs the same checks",
    ("reward", "merchant_preference"): "fits a model: test_merchant_preference.py runs the same checks",
}
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {
    ("policy", "merchant-team"): {"reporter": "scripted"},
    ("policy", "qtable"): {"table": str(Path(__file__).parent / "table.json")},
    ("reward", "keypoints"): {"policy": {"name": "scripted", "settings": {"rule": f"{__name__}:marked"}}},
}


def marked(moment: Moment) -> Iterator[str]:
    """A judge that gives every head the same mark."""
    yield json.dumps({"points": [], "marks": {"procedure": 4, "personal": 3, "proactive": 0}})


def cases() -> Iterator[Any]:
    for kind in KINDS:
        for offer in HOST.components(kind):
            if offer.record.distribution != "agentfw-papers":
                continue
            name = offer.component.name
            missing = [module for module in offer.component.needs if importlib.util.find_spec(module) is None]
            reason = f"needs {', '.join(missing)}" if missing else NEEDS_MORE.get((kind, name), "")
            marks = [pytest.mark.skip(reason=reason)] if reason else []
            for check in contract(kind):
                yield pytest.param(kind, name, check, marks=marks, id=f"{kind}-{name}-{check.__name__}")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "name", "check"), list(cases()))
def test_a_component_keeps_its_promises(kind: str, name: str, check: CheckFunction) -> None:
    factory = made_by(HOST, kind, name, SETTINGS.get((kind, name)))

    result = run_check(check, factory, episodes=sample_episodes(), time_limit=300)

    if result.skipped:
        pytest.skip(result.detail)
    if not result.passed:
        raise AssertionError(f"{result.promise}\n{result.detail}") from result.error
