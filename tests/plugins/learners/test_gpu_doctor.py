"""`agentfw doctor gpu`: its rows in small on a CPU, and what it says where there is no card, or an old driver.

And the command for one GPU in docs/guides/gpu.md has valid settings.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from agentfw.boundary.settings_input import validate
from agentfw.engine import Card, Plan
from agentfw.errors import SettingsError, UsageError
from agentfw_plugins.learners.gpu_doctor import examine
from agentfw_plugins.learners.settings import LoraSettings
from agentfw_plugins.models import locate
from agentfw_plugins.policies.vllm.vllm_backend import VLLMSettings, beside, engine_options

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "gpu.md"


@pytest.mark.nightly
def test_rows_run_in_small_without_a_card() -> None:
    rows = {row.pop("row"): row for row in examine(["card", "copies", "flex", "train"], "cpu")}

    assert {name: row["failed"] for name, row in rows.items() if "failed" in row} == {}
    assert rows["card"]["card"] == "none"
    assert rows["copies"]["to the card"] > 0
    assert max(each["output"] for each in rows["flex"]["apart from fp32"]) < 0.01
    assert (rows["train"]["updates"], rows["train"]["proven"]) == (3, True)


def test_without_a_card_or_for_a_row_that_isnt_there_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")

    with pytest.raises(SettingsError, match="this machine has no GPU"):
        next(examine())
    with pytest.raises(UsageError, match="there is no row flexx"):
        next(examine(["flexx"]))


@pytest.mark.skipif(torch.cuda.is_available(), reason="torch can use the GPU of this machine")
def test_a_driver_that_torch_cant_use_is_named_with_the_versions(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked = tmp_path / "nvidia-smi"
    asked.write_text("#!/bin/sh\necho '0, GPU-1, NVIDIA H100, 81559, 81000, 470.82.01'\n")
    asked.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    with pytest.raises(SettingsError, match=r"torch can't use it: torch .* the driver is 470\.82\.01"):
        next(examine())


def test_policy_and_learner_take_the_settings_for_one_gpu() -> None:
    (command,) = re.findall(r"^agentfw train .*?(?=^```)", PAGE.read_text("utf-8"), re.S | re.M)
    given: dict[str, dict[str, object]] = {"policy": {}, "learner": {}}
    for word in shlex.split(command):
        if part := re.fullmatch(r"(policy|learner)\.(\w+)=(.*)", word):
            owner, name, text = part.groups()
            given[owner][name] = {"true": True, "0.6": 0.6}.get(text, text)

    policy = validate(VLLMSettings, given["policy"], "policy")
    learner = validate(LoraSettings, given["learner"], "learner")

    assert isinstance(policy, VLLMSettings)
    assert isinstance(learner, LoraSettings)
    assert policy.rank >= learner.rank
    assert policy.model == "path/to/model"
    assert "model" not in given["learner"], "named once, it holds for both"


@pytest.mark.parametrize(
    ("memory", "weights", "share", "sleeps", "portion"),
    [
        (80.0, 16, 1.0, False, 0.5),  # 8 billion weights in bf16: both stay
        (80.0, 28, 1.0, True, 0.55),
        (80.0, 16, 0.5, True, 0.275),  # two copies play, and one learns
        (0.0, 16, 1.0, True, 0.55),  # a card that nobody could ask
    ],
)
def test_vllm_stays_awake_beside_a_learner_where_the_model_fits_twice(
    tmp_path: Path, memory: float, weights: int, share: float, sleeps: bool, portion: float
) -> None:
    model = shutil.copytree(locate("tiny"), tmp_path / "model")
    os.truncate(model / "model.safetensors", weights * 2**30)  # takes no room on the disk
    plan = Plan((Card("0", memory=memory),), (Card("0", memory=memory),))

    options = engine_options(VLLMSettings(**beside({"model": str(model)}, plan, share)))

    assert options.get("enable_sleep_mode", False) == sleeps
    assert options["gpu_memory_utilization"] == portion
