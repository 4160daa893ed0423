"""The maker of `tiny-sums`: the same command makes the same model."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from make_tiny_sums import main

from agentfw.turns.engagement import Engagement
from agentfw.turns.policy_agent import PolicyAgent
from agentfw_papers.worlds.budget.environment import Budget
from agentfw_plugins.policies.local.tiny_policy import TinyPolicy, TinySettings


@pytest.mark.slow
def test_the_same_command_makes_the_same_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("transformers")
    for name in ("one", "two"):
        size = ["--demonstrations", "40", "--steps", "3"]
        monkeypatch.setattr(sys, "argv", ["make_tiny_sums.py", str(tmp_path / name), *size])
        assert main() == 0

    made = {name: (tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two")}
    assert made["one"] == made["two"]
    agent = PolicyAgent(TinyPolicy(TinySettings(model=str(tmp_path / "one"))))
    episode = asyncio.run(Engagement(Budget(), agent).run(Budget().tasks(1, 11, "test")[0]))
    assert episode.turns[0].count > 0
