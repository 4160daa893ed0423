"""What the papers register is all there, light to list, keeps the promises of its kind, and can be run as it ships."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

import agentfw
import agentfw_papers
from agentfw import Moment
from agentfw.boundary.metadata import entry_points
from agentfw.component import KINDS
from agentfw.testing import contract, fresh_host, made_by
from agentfw.testing.checks import CheckFunction, run_check, sample_episodes
from agentfw_papers.loops import read_loop
from agentfw_plugins.plugin import PAPERS

PACKAGE = Path(agentfw_papers.__file__).parent
HEAVY = {"pydantic", "numpy", "torch", "httpx", "rich", "click", "yaml", "asyncio"}
ALONE, HOST = (fresh_host("agentfw_papers.plugin:plugin", builtins=builtins) for builtins in (False, True))


def test_registering_everything_imports_nothing_heavy_and_measuring_no_torch() -> None:
    code = (
        "import sys; from agentfw_papers.plugin import plugin; plugin.registrations; print(*sys.modules);"
        "from agentfw_papers.timing import score; print(*sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    registered, measured = (set(line.split()) for line in done.stdout.splitlines())
    assert not HEAVY & registered
    assert not {"torch", "transformers"} & measured


def test_every_spec_that_ships_has_a_name_and_every_loop_can_be_done() -> None:
    specs = {name: Path(spec.path) for name, spec in ALONE.specs().items()}

    assert set(specs.values()) == set(PACKAGE.rglob("specs/*.toml"))
    for name in specs:
        if name.startswith("loop-"):
            read_loop(specs[name]).check(HOST)


def test_agentfw_knows_what_to_install_for_each_name() -> None:
    offered = {kind: {offer.component.name for offer in ALONE.components(kind)} for kind in KINDS}
    offered["spec"] = set(ALONE.specs())
    commands = entry_points("agentfw.commands")
    offered["command"] = {entry.name for entry in commands if entry.distribution == "agentfw-papers"}

    known = {what: set(names) for what, names in PAPERS.offers.items()}
    assert known == {what: names for what, names in offered.items() if names}


# What a component can't be checked without; its own tests run the same checks.
NEEDS_MORE = {
    ("environment", "etapp"): "needs a copy of ETAPP: test_etapp.py runs the same checks",
    ("reward", "assistant_preference"): "fits a model: test_log_preferences.py runs the same checks",
    ("reward", "merchant_preference"): "fits a model: test_log_preferences.py runs the same checks",
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


@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "name", "check"), list(cases()))
def test_a_component_keeps_its_promises(kind: str, name: str, check: CheckFunction) -> None:
    factory = made_by(HOST, kind, name, SETTINGS.get((kind, name)))

    result = run_check(check, factory, episodes=sample_episodes(), time_limit=300)

    if result.skipped:
        pytest.skip(result.detail)
    if not result.passed:
        raise AssertionError(f"{result.promise}\n{result.detail}") from result.error


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "world"), [("tiny-assistant", "assistant"), ("merchant", "merchant"), ("merchant-tiny", "merchant")]
)
def test_most_groups_of_a_training_called_parpo_are_judged_by_an_anchor(tmp_path: Path, name: str, world: str) -> None:
    # Which users come back depends on the spec alone, so a planner can play in place of a language model.
    planner = f"{world}-linear"
    settings = {"environment.style": "full", "samples": 2, "evaluation.tasks": 1}
    result = agentfw.train(name, policy=planner, learner=planner, settings=settings, runs=tmp_path)

    updates = [json.loads(line) for line in (result.path / "updates.jsonl").read_text("utf-8").splitlines()]
    assert fmean(update["optimizer"]["anchored"] for update in updates) > 0.5
