"""An adapter that would be computed otherwise than it was trained is refused, and a model likewise.

And what some models have that others don't is trained: capped scores, biases, tied embeddings, experts.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from transformers_asking import own_logprobs

from agentfw.errors import SettingsError, UsageError
from agentfw.learner import Batch
from agentfw.seeds import Seeds
from agentfw_plugins.learners.settings import LoraSettings
from agentfw_plugins.learners.token_tree import Block, Packed
from agentfw_plugins.models import locate

from .conftest import batch_of, updated

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

transformers = pytest.importorskip("transformers")

from safetensors.torch import load_file  # noqa: E402

from agentfw_plugins.learners.model_learner import LoraLearner  # noqa: E402
from agentfw_plugins.learners.network import Network  # noqa: E402

PROMPT, ANSWER = (10, 11, 12, 13), (20, 21, 22)


@pytest.fixture(scope="module")
def trained(small_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter of rank 8 and alpha 16 that has learned something."""
    learner = LoraLearner(LoraSettings(model=str(small_model), learning_rate=1e-2))
    return updated(learner, batch_of(tmp_path_factory.mktemp("trained") / "update", [(PROMPT, ANSWER, 1.0)])).adapter


@pytest.fixture
def adapter(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "adapter"))


def change(adapter: Path, **values: Any) -> None:
    path = adapter / "adapter_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def begin(model: Path, adapter: Path, **settings: Any) -> LoraLearner:
    learner = LoraLearner(LoraSettings(model=str(model), adapter=str(adapter), **settings))
    learner.logprobs(PROMPT, ANSWER)
    return learner


@pytest.mark.parametrize(
    ("values", "fix"),
    [
        ({"lora_alpha": 32}, "set learner.alpha=32"),
        ({"target_modules": ["q_proj"]}, 'set learner.modules=["q_proj"]'),
        ({"use_rslora": True}, "set learner.rank_stabilised=true"),
        ({"alpha_pattern": {"q_proj": 4}}, "merge_and_unload"),
        ({"invented_tomorrow": True}, "merge_and_unload"),
    ],
)
def test_what_changes_the_computation_is_refused_by_name(
    small_model: Path, adapter: Path, values: dict[str, Any], fix: str
) -> None:
    change(adapter, **values)

    with pytest.raises(SettingsError) as caught:
        begin(small_model, adapter)

    assert next(iter(values)) in str(caught.value)
    assert fix in caught.value.fix


def test_where_an_adapter_comes_from_is_no_reason_to_refuse_it_but_without_a_config_nobody_knows_its_scale(
    small_model: Path, adapter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(adapter.parent))
    origin = {"base_model_name_or_path": "elsewhere", "peft_version": "0.1", "lora_dropout": 0.1}
    change(adapter, **origin, init_lora_weights="gaussian", target_modules=".*_proj", invented_tomorrow=None)

    assert begin(small_model, Path("~") / adapter.name).logprobs(PROMPT, ANSWER)
    (adapter / "adapter_config.json").unlink()
    with pytest.raises(UsageError, match=r"no adapter_config\.json"):
        begin(small_model, adapter)


def test_an_adapter_of_another_base_is_refused(
    small_model: Path, adapter: Path, make_model: Callable[..., Path], tmp_path: Path
) -> None:
    other = make_model(tmp_path / "other", seed=1)
    deeper = make_model(tmp_path / "deeper", num_hidden_layers=3)

    with pytest.raises(SettingsError, match="another base"):
        begin(other, adapter)
    # One made elsewhere says nothing of its base; then the shapes speak.
    (adapter / "agentfw.json").unlink()
    with pytest.raises(SettingsError, match="don't fit"):
        begin(deeper, adapter)
    with pytest.raises(UsageError, match=r"no adapter_model\.safetensors"):
        begin(small_model, other)


# -- models ------------------------------------------------------------------------------------------------------------


def test_layers_that_are_not_there_are_refused_with_those_that_are(small_model: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        LoraLearner(LoraSettings(model=str(small_model), modules=("c_attn",))).open(Path())

    assert "c_attn" in str(caught.value)
    assert "q_proj" in caught.value.fix
    for lacking, given in (("k_prj", {"modules": ("q_proj", "k_prj")}), ("layer 2", {"layers": (1, 2)})):
        with pytest.raises(SettingsError, match=f"has no {lacking}"):  # also beside some that are there
            LoraLearner(LoraSettings(model=str(small_model), **given)).open(Path())


def test_a_model_with_layers_of_another_kind_is_not_packed_as_a_tree(
    make_model: Callable[..., Path], tmp_path: Path
) -> None:
    from transformers import Qwen3NextConfig, Qwen3NextForCausalLM

    folder = make_model(tmp_path / "linear", weights=False)
    shape = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2, "head_dim": 8, "vocab_size": 384}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "linear_num_key_heads": 2, "linear_num_value_heads": 2}
    widths = {"linear_key_head_dim": 8, "linear_value_head_dim": 8, "num_experts": 0, "pad_token_id": 0}
    kinds = {"layer_types": ["linear_attention", "full_attention"]}
    Qwen3NextForCausalLM(Qwen3NextConfig(**shape, **heads, **widths, **kinds)).save_pretrained(folder)

    with pytest.raises(SettingsError, match="linear_attention"):
        LoraLearner(LoraSettings(model=str(folder))).open(tmp_path)
    plain = LoraLearner(LoraSettings(model=str(folder), packing="plain"))
    assert len(plain.logprobs(PROMPT, ANSWER)) == len(ANSWER)


CONFIDENT: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 160, "initializer_range": 0.2}
"""With 28 layers, as a model of a billion weights has, two attentions of it differ by 0.3 to 0.6 nats in bf16."""


def last_position_off_by_one(packed: Packed) -> Packed:
    positions = packed.positions.copy()
    positions[0, -10:] += 1
    return dataclasses.replace(packed, positions=positions)


def mask_without_tree(packed: Packed) -> Packed:
    return dataclasses.replace(packed, blocks=(Block(0, packed.ids.size, 0, packed.ids.size),))


@pytest.fixture(
    scope="module",
    params=[(0, 6), *(pytest.param((seed, 28), marks=pytest.mark.nightly) for seed in range(6))],
    ids=lambda of: f"seed {of[0]}, {of[1]} layers",
)
def deep_model(
    request: pytest.FixtureRequest, make_model: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    seed, layers = request.param
    return make_model(tmp_path_factory.mktemp("deep") / "model", seed=seed, num_hidden_layers=layers, **CONFIDENT)


@pytest.mark.nightly
@pytest.mark.parametrize("packing", ["tree", "plain"])
def test_a_deep_confident_model_in_bf16_can_be_trained(deep_model: Path, packing: Any) -> None:
    settings = LoraSettings(model=str(deep_model), precision="bf16", packing=packing, device="cpu")

    network = Network(settings, Seeds(7))

    assert network.base.dtype is torch.bfloat16


@pytest.mark.parametrize("wrong", [last_position_off_by_one, mask_without_tree])
def test_the_same_model_with_a_mistake_is_refused(
    deep_model: Path, wrong: Callable[[Packed], Packed], monkeypatch: pytest.MonkeyPatch
) -> None:
    places = Network._places
    monkeypatch.setattr(Network, "_places", lambda self, packed: places(self, wrong(packed)))

    with pytest.raises(SettingsError, match="gives other results than tree packing"):
        Network(LoraSettings(model=str(deep_model), precision="bf16", device="cpu"), Seeds(7))


# -- what some models have that others don't ---------------------------------------------------------------------------


MakeBatch = Callable[..., Batch]
LONG_PROMPT = tuple(range(10, 34))
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
        ("Phi3", {"sliding_window": 16, "pad_token_id": 0}, {}),
        ("Granite", {"logits_scaling": 4.0}, {}),
        ("Phi", {}, {"modules": ("q_proj", "v_proj", "dense", "fc1")}),
        ("Phi", {}, {"packing": "plain", "weights": "all", "learning_rate": 1e-3}),
        ("Llama", {"tie_word_embeddings": True}, {}),
    ],
    ids=[
        "capped scores",
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
    assert learner.logprobs(LONG_PROMPT, GOOD) == pytest.approx(own_logprobs(base, LONG_PROMPT, GOOD), abs=1e-4)

    for _ in range(3):
        update = learner.update(make_batch([(LONG_PROMPT, GOOD, 1.0)], [(LONG_PROMPT, BAD, -1.0)]))

    assert update is not None
    if learner.settings.weights == "all":
        trained = transformers.AutoModelForCausalLM.from_pretrained(update.adapter).eval()
        assert (update.adapter / "tokenizer.json").is_file(), "a model folder of its own"
    else:
        trained = PeftModel.from_pretrained(base, update.adapter).eval()
    assert learner.logprobs(LONG_PROMPT, GOOD) == pytest.approx(own_logprobs(trained, LONG_PROMPT, GOOD), abs=1e-4)
    assert sum(own_logprobs(trained, LONG_PROMPT, GOOD)) > sum(learner.logprobs(LONG_PROMPT, GOOD, base=True)) + 0.01
    if architecture == "Phi3":
        adapter = json.loads((update.adapter / "adapter_config.json").read_text())
        # By default layers that hold several in one get an adapter, too.
        assert {"qkv_proj", "gate_up_proj", "o_proj", "down_proj"} <= set(adapter["target_modules"])


@pytest.mark.parametrize(("module", "tied"), [("embed_tokens", True), ("lm_head", False)])
def test_an_adapter_of_the_vocabulary_is_refused_before_anything_is_learned(
    model_of: Callable[..., Path], module: str, tied: bool
) -> None:
    folder = model_of("Llama", tie_word_embeddings=tied)

    with pytest.raises(SettingsError, match=f"{module} of .* can't have an adapter") as caught:
        LoraLearner(LoraSettings(model=str(folder), modules=("q_proj", module))).open(Path())

    assert "q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj;" in caught.value.fix


def test_the_experts_of_a_mixture_are_trained_and_a_resumed_training_has_them(
    model_of: Callable[..., Path], make_batch: MakeBatch
) -> None:
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
    settings = LoraSettings(model=str(model_of("Qwen3Moe", head_dim=8, **experts)), learning_rate=1e-2)
    learner, again = LoraLearner(settings), LoraLearner(settings)

    update = learner.update(make_batch([(LONG_PROMPT, GOOD, 1.0)], [(LONG_PROMPT, BAD, -1.0)]))
    again.restore(learner.state())

    assert update is not None
    assert any("experts" in name for name in load_file(update.adapter / "adapter_model.safetensors"))
    assert again.logprobs(LONG_PROMPT, GOOD) == learner.logprobs(LONG_PROMPT, GOOD)
