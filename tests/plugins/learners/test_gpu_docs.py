"""docs/guides/gpu.md: its command for one GPU has valid settings."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from agentfw.boundary.settings_input import validate
from agentfw.engine import Card, Plan
from agentfw_plugins.learners.settings import LoraSettings
from agentfw_plugins.policies.vllm.vllm_backend import VLLMSettings, beside, engine_options

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "guides" / "gpu.md").read_text("utf-8")


def test_policy_and_learner_take_the_settings_for_one_gpu() -> None:
    (command,) = re.findall(r"^agentfw train .*?(?=^```)", PAGE, re.S | re.M)
    words = shlex.split(command)
    given: dict[str, dict[str, object]] = {"policy": {}, "learner": {}}
    for word in words:
        if part := re.fullmatch(r"(policy|learner)\.(\w+)=(.*)", word):
            owner, name, text = part.groups()
            given[owner][name] = {"true": True, "0.6": 0.6}.get(text, text)

    policy = validate(VLLMSettings, given["policy"], "policy")
    learner = validate(LoraSettings, given["learner"], "learner")

    assert isinstance(policy, VLLMSettings)
    assert isinstance(learner, LoraSettings)
    plan = Plan((Card("0"),), (Card("0"),))  # one card, which both use in turn
    options = engine_options(VLLMSettings(**beside(policy.model_dump(), plan)))
    assert options["enable_sleep_mode"] is True
    assert options["gpu_memory_utilization"] == 0.55
    assert policy.rank >= learner.rank
    assert policy.model == "path/to/model"
    assert "model" not in given["learner"], "named once, it holds for both"
