"""What some models have that others don't: capped scores, biases, tied embeddings. Random weights in two layers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers_asking import own_logprobs

from agentfw.errors import SettingsError
from agentfw.learner import Batch
from agentfw_plugins.learners.settings import LoraSettings
from agentfw_plugins.models import locate

torch = pytest.importorskip("torch")
pytest.importorskip("peft")
transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file  # noqa: E402

from agentfw_plugins.learners.model_learner import LoraLearner  # noqa: E402

MakeBatch = Callable[..., Batch]
PROMPT = tuple(range(10, 34))
GOOD, BAD = (20, 21, 22), (30, 31, 32)
SHAPE: dict[str, Any] = {
    "vocab_size": 384,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 128,
}
CAPPED = {"head_dim": 8, "sliding_window": 16, "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}


@pytest.fixture
def model_of(tmp_path: Path) -> Callable[..., Path]:
    """A folder with a model of random weights; also its biases and norms are random."""

    def make(architecture: str, **changes: Any) -> Path:
        torch.manual_seed(0)
        config = getattr(transformers, f"{architecture}Config")(**SHAPE, **changes)
        model = transformers.AutoModelForCausalLM.from_config(config)
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1 and name.endswith("bias"):
                torch.nn.init.normal_(parameter)
        folder = tmp_path / architecture
        model.save_pretrained(folder)
        shutil.copyfile(locate("tiny") / "tokenizer.json", folder / "tokenizer.json")
        return folder

    return make


@pytest.mark.parametrize(
    ("architecture", "changes", "settings"),
    [
        ("Gemma2", CAPPED, {}),
        ("Gemma2", CAPPED, {"packing": "plain"}),
        ("Phi3", {"sliding_window": 16, "pad_token_id": 0}, {}),
        ("Granite", {"logits_scaling": 4.0}, {}),
        ("Phi", {}, {"modules": ("q_proj", "v_proj", "dense", "fc1")}),
        ("Phi", {}, {"packing": "plain", "weights": "all", "learning_rate": 1e-3}),
        ("Llama", {"tie_word_embeddings": True}, {}),
    ],
    ids=[
        "capped scores",
        "capped scores, plain",
        "joined layers",
        "scaled logits",
        "biases",
        "biases, all weights",
        "tied embeddings",
    ],
)
def test_a_model_is_trained_and_loaded_with_the_same_logprobs(
    model_of: Callable[..., Path],
    make_batch: MakeBatch,
    architecture: str,
    changes: dict[str, Any],
    settings: dict[str, Any],
) -> None:
    from peft import PeftModel

    folder = model_of(architecture, **changes)
    base = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    learner = LoraLearner(LoraSettings(**{"model": str(folder), "learning_rate": 1e-2, **settings}))
    assert learner.logprobs(PROMPT, GOOD) == pytest.approx(own_logprobs(base, PROMPT, GOOD), abs=1e-4)

    for _ in range(3):
        update = learner.update(make_batch([(PROMPT, GOOD, 1.0)], [(PROMPT, BAD, -1.0)]))

    assert update is not None
    if learner.settings.weights == "all":
        trained = transformers.AutoModelForCausalLM.from_pretrained(update.adapter).eval()
        assert (update.adapter / "tokenizer.json").is_file(), "a model folder of its own"
    else:
        trained = PeftModel.from_pretrained(base, update.adapter).eval()
    assert learner.logprobs(PROMPT, GOOD) == pytest.approx(own_logprobs(trained, PROMPT, GOOD), abs=1e-4)
    assert sum(own_logprobs(trained, PROMPT, GOOD)) > sum(learner.logprobs(PROMPT, GOOD, base=True)) + 0.01


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("module", ["embed_tokens", "lm_head"])
def test_an_adapter_of_the_vocabulary_is_refused_before_anything_is_learned(
    model_of: Callable[..., Path], module: str, tied: bool
) -> None:
    folder = model_of("Llama", tie_word_embeddings=tied)

    with pytest.raises(SettingsError, match=f"{module} of .* can't have an adapter") as caught:
        LoraLearner(LoraSettings(model=str(folder), modules=("q_proj", module))).open(Path())

    assert "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj;" in caught.value.fix


def test_by_default_layers_that_hold_several_in_one_get_an_adapter_too(
    model_of: Callable[..., Path], make_batch: MakeBatch
) -> None:
    learner = LoraLearner(LoraSettings(model=str(model_of("Phi3", pad_token_id=0))))

    update = learner.update(make_batch([(PROMPT, GOOD, 1.0)], [(PROMPT, BAD, -1.0)]))

    assert update is not None
    adapter = json.loads((update.adapter / "adapter_config.json").read_text())
    assert {"qkv_proj", "gate_up_proj", "o_proj", "down_proj"} <= set(adapter["target_modules"])


def test_the_experts_of_a_mixture_are_trained_and_a_resumed_training_has_them(
    model_of: Callable[..., Path], make_batch: MakeBatch
) -> None:
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
    settings = LoraSettings(model=str(model_of("Qwen3Moe", head_dim=8, **experts)), learning_rate=1e-2)
    learner, again = LoraLearner(settings), LoraLearner(settings)

    update = learner.update(make_batch([(PROMPT, GOOD, 1.0)], [(PROMPT, BAD, -1.0)]))
    again.restore(learner.state())

    assert update is not None
    assert any("experts" in name for name in load_file(update.adapter / "adapter_model.safetensors"))
    assert again.logprobs(PROMPT, GOOD) == learner.logprobs(PROMPT, GOOD)
