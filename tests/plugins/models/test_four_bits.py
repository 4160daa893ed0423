"""What is served for a learner in four bits is exactly the model that it trains."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
from torch import Tensor  # noqa: E402

pytest.importorskip("bitsandbytes")

from agentfw_plugins.models import load_base  # noqa: E402
from agentfw_plugins.models.base import Precision  # noqa: E402
from agentfw_plugins.models.locate import four_bit_folder  # noqa: E402
from agentfw_plugins.policies.vllm.vllm_backend import (  # noqa: E402
    VLLMSettings,
    engine_options,
)
from agentfw_plugins.policies.vllm.vllm_policy import VLLMPolicy  # noqa: E402


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def model(make_model: Callable[..., Path], tmp_path: Path) -> Path:
    return make_model(tmp_path / "model", hidden_size=64, intermediate_size=128)


def logprobs(folder: Path, precision: Precision) -> Tensor:
    ids = torch.arange(10, 74)[None]
    with torch.no_grad():
        found: Tensor = load_base(folder, precision, "cpu")(ids).logits.log_softmax(-1)
    return found


def test_the_folder_is_the_four_bit_model_in_full_precision(model: Path, cache: Path) -> None:
    served = four_bit_folder(model, "cpu")

    assert served.is_relative_to(cache)
    assert torch.allclose(logprobs(served, "fp32"), logprobs(model, "nf4"), atol=1e-5)
    assert float((logprobs(served, "fp32") - logprobs(model, "fp32")).abs().mean()) > 0.1, "rounding changes it"
    assert "quantization_config" not in json.loads((served / "config.json").read_text())


def test_it_is_made_once_and_again_for_other_weights(
    model: Path, cache: Path, make_model: Callable[..., Path], tmp_path: Path
) -> None:
    served = four_bit_folder(model, "cpu")
    made = (served / "model.safetensors").stat().st_mtime_ns
    other = make_model(tmp_path / "elsewhere" / "model", hidden_size=64, intermediate_size=128, seed=1)

    assert four_bit_folder(model, "cpu") == served
    assert (served / "model.safetensors").stat().st_mtime_ns == made
    assert four_bit_folder(other, "cpu") != served


def test_vllm_serves_it_with_the_precision_that_the_learner_computes_in(model: Path, cache: Path) -> None:
    settings = VLLMSettings(model=str(model), precision="nf4")

    served = VLLMPolicy(settings)._served()

    assert served == four_bit_folder(model, "cuda" if torch.cuda.is_available() else "cpu")
    assert engine_options(settings)["dtype"] == ("bfloat16" if torch.cuda.is_available() else "float32")
    assert "quantization" not in engine_options(settings)
