"""Every built-in keeps the promises of its kind: the same checks that authors of plugins run.

Components are taken from the host, so that a new built-in is checked without a line here.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentfw.component import KINDS
from agentfw.request import Moment
from agentfw.testing import CheckFunction, contract, contract_tests, fresh_host, made_by

PLUGINS = Path(__file__).parents[2] / "plugins"
HOST = fresh_host(builtins=True, strict=False)

# What a component can't be checked without; its own tests have a server, or a model, of their own.
NEEDS_MORE = {
    ("environment", "from_feedback"): "needs recorded runs: test_from_feedback.py has some",
    ("policy", "openai"): "needs a model server",
    ("policy", "vllm"): "needs vLLM: tests/plugins/policies/test_vllm.py runs the same checks with one",
    ("tool", "mcp"): "needs an MCP server: test_mcp_tools.py runs the same checks with one",
    ("tool", "skills"): "needs a folder that a person has allowed: test_agent_skills.py has one",
    ("environment", "verifiers"): "needs a taskset of the library: test_verifiers.py has some",
    ("reward", "preference"): "needs a fitted model",
    ("reward", "feedback_preference"): "needs recorded runs: test_from_feedback.py has some",
}

# Settings that a component is checked with, where its defaults don't do here.
SETTINGS: dict[tuple[str, str], dict[str, Any]] = {}
SETTINGS["reward", "rubric"] = {"policy": {"name": "scripted", "settings": {"rule": f"{__name__}:judged"}}}
SETTINGS["environment", "program"] = {
    "function": f"{__name__}:judged",
    "tasks": str(PLUGINS / "worlds" / "program" / "tasks.jsonl"),
}
SUMS = Path(tempfile.mkdtemp()) / "sums.jsonl"
SUMS.write_text("".join(f'{{"prompt": "{n}+1=", "answer": "{n + 1}"}}\n' for n in range(100)), "utf-8")
SETTINGS["environment", "questions"] = {"tasks": str(SUMS)}
SETTINGS["hook", "approve"] = {"tools": ["pour"]}
SETTINGS["tracker", "mirror"] = {"address": f"file://{tempfile.mkdtemp()}"}

# What a component works without, but its checks don't.
EXTRAS = {("memory", "skillgraph"): ("igraph",)}

# One is made on the spot; the components take its folder as `model`.
NEEDS_A_MODEL = {("policy", "transformers"), ("learner", "lora"), ("learner", "sft")}

# Measured: each of these takes 5 to 40 seconds for all its checks, most others a tenth of a second.
NIGHTLY = {("policy", "pool"), ("tracker", "mlflow"), ("tracker", "wandb"), *NEEDS_A_MODEL}


def judged(moment: Moment) -> Iterator[str]:
    """A judge that thinks the more of an attempt, the higher its number."""
    count = moment.observations[0].text.count("<attempt-")
    yield json.dumps({"scores": [{"id": number, "score": number / count} for number in range(1, count + 1)]})


def cases() -> Iterator[Any]:
    for kind in KINDS:
        for offer in HOST.components(kind):
            name = offer.component.name
            needs = (*offer.component.needs, *EXTRAS.get((kind, name), ()))
            missing = [module for module in needs if importlib.util.find_spec(module) is None]
            reason = f"needs {', '.join(missing)}" if missing else ""
            if (kind, name) not in SETTINGS:
                reason = reason or NEEDS_MORE.get((kind, name), "")
            marks = [pytest.mark.skip(reason=reason)] if reason else []
            if (kind, name) in NIGHTLY:
                marks.append(pytest.mark.nightly)
            for check in contract(kind):
                yield pytest.param(kind, name, check, marks=marks, id=f"{kind}-{name}-{check.__name__}")


@pytest.mark.parametrize(("kind", "name", "check"), list(cases()))
def test_a_builtin_keeps_its_promises(
    kind: str, name: str, check: CheckFunction, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.1")  # nobody listens
    settings = SETTINGS.get((kind, name))
    if (kind, name) in NEEDS_A_MODEL:
        settings = {"model": str(request.getfixturevalue("small_model"))}

    contract_tests(kind, made_by(HOST, kind, name, settings), time_limit=300)(check)


def test_no_builtin_is_in_trouble() -> None:
    assert HOST.notes == []
    assert HOST.components(), "agentfw isn't installed: pip install -e ."
