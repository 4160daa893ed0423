"""The weights of a model folder: the same for everybody who loads them, also in four bits.

A model of others is data: its folder runs no code of its own, and its template ends.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agentfw.errors import AgentfwError, SettingsError

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from safetensors.torch import load_file, save_file  # noqa: E402

from agentfw_plugins.models import Chat, Precision, load_base  # noqa: E402
from agentfw_plugins.models import chat as chats  # noqa: E402
from agentfw_plugins.models.locate import four_bit_folder  # noqa: E402
from agentfw_plugins.policies.vllm.vllm_backend import VLLMSettings, engine_options  # noqa: E402
from agentfw_plugins.policies.vllm.vllm_policy import VLLMPolicy  # noqa: E402


@pytest.mark.parametrize(("precision", "far"), [("auto", 1e-6), ("bf16", 0.5), ("nf4", 3.0)])
def test_every_precision_says_nearly_the_same(
    make_model: Callable[..., Path], tmp_path: Path, precision: Precision, far: float
) -> None:
    if precision == "nf4":
        pytest.importorskip("bitsandbytes")
    folder = make_model(tmp_path / "model", hidden_size=64, initializer_range=0.1)
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        whole = load_base(folder, "fp32", "cpu")(ids).logits
        loaded = load_base(folder, precision, "cpu")(ids).logits

    assert (whole - loaded).abs().max() <= far * whole.abs().max()
    assert torch.isfinite(loaded).all()


def test_a_folder_without_weights_draws_them_from_a_seed(make_model: Callable[..., Path], tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model", weights=False)

    one, two, other = (load_base(folder, "fp32", "cpu", seed=seed).state_dict() for seed in (1, 1, 2))

    assert all(torch.equal(one[name], two[name]) for name in one)
    assert not all(torch.equal(one[name], other[name]) for name in one)
    with pytest.raises(SettingsError, match="has no weights"):
        load_base(folder, "fp32", "cpu")


def test_a_model_that_is_stored_in_eight_bits_is_read_as_what_these_stand_for(
    make_model: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make_model(tmp_path / "model", hidden_size=128, intermediate_size=128, num_key_value_heads=4)
    weights, name = load_file(folder / "model.safetensors"), "model.layers.0.mlp.up_proj.weight"
    for each in [each for each in weights if each.endswith("_proj.weight")]:
        weights[f"{each}_scale_inv"] = torch.full((1, 1), 0.25)
        weights[each] = (weights[each] * 4).to(torch.float8_e4m3fn)
    save_file(weights, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    (folder / "config.json").write_text(json.dumps(config), "utf-8")

    loaded = load_base(folder, "fp32", "cpu").get_parameter(name)

    assert torch.allclose(loaded.float(), weights[name].float() / 4, atol=1e-3)


def test_two_who_load_a_model_share_its_weights_and_nothing_else(
    make_model: Callable[..., Path], tmp_path: Path
) -> None:
    folder = make_model(tmp_path / "model", hidden_size=64)
    ids = torch.tensor([[5, 6, 7, 8]])

    with torch.inference_mode():  # as a policy's thread does
        one = load_base(folder, "fp32", "cpu")
    two = load_base(folder, "fp32", "cpu", attention="eager")

    assert [weight.data_ptr() for weight in one.parameters()] == [weight.data_ptr() for weight in two.parameters()]
    assert (one.config._attn_implementation, two.config._attn_implementation) == ("sdpa", "eager")
    with torch.no_grad():
        before = one(ids).logits
        assert torch.allclose(before, two(ids).logits, atol=1e-4)
    hook = two.get_input_embeddings().register_forward_hook(lambda *_: torch.zeros(1, 4, 64))
    two.lm_head.weight.data = torch.zeros_like(two.lm_head.weight)
    with torch.no_grad():
        assert torch.equal(one(ids).logits, before)
    hook.remove()
    for weight in one.parameters():
        weight.requires_grad_(False)
    assert two.lm_head.weight.requires_grad
    two.model.norm(two.get_input_embeddings()(ids)).sum().backward()
    # While they have it, others load it in another precision, and a file in its place is another model.
    assert load_base(folder, "bf16", "cpu").dtype == torch.bfloat16
    other = make_model(tmp_path / "other", hidden_size=64, seed=1)
    (other / "model.safetensors").replace(folder / "model.safetensors")
    with torch.no_grad():
        assert not torch.allclose(load_base(folder, "fp32", "cpu")(ids).logits, before)


def logprobs(folder: Path, precision: Precision) -> Any:
    ids = torch.arange(10, 74)[None]
    with torch.no_grad():
        return load_base(folder, precision, "cpu")(ids).logits.log_softmax(-1)


def test_a_four_bit_model_is_written_in_full_precision_once_and_vllm_serves_that(
    make_model: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("bitsandbytes")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    shape = {"hidden_size": 64, "intermediate_size": 128}
    model, other = (make_model(tmp_path / str(seed) / "model", seed=seed, **shape) for seed in (0, 1))

    folder = four_bit_folder(model, "cpu")
    made = (folder / "model.safetensors").stat().st_mtime_ns

    assert folder.is_relative_to(tmp_path / "cache")
    assert torch.allclose(logprobs(folder, "fp32"), logprobs(model, "nf4"), atol=1e-5)
    assert float((logprobs(folder, "fp32") - logprobs(model, "fp32")).abs().mean()) > 0.1, "rounding changes it"
    assert "quantization_config" not in json.loads((folder / "config.json").read_text())
    assert four_bit_folder(model, "cpu") == folder != four_bit_folder(other, "cpu")
    assert (folder / "model.safetensors").stat().st_mtime_ns == made
    settings = VLLMSettings(model=str(model), precision="nf4")
    on_gpu = torch.cuda.is_available()
    assert VLLMPolicy(settings)._served() == four_bit_folder(model, "cuda" if on_gpu else "cpu")
    assert engine_options(settings)["dtype"] == ("bfloat16" if on_gpu else "float32"), "what the learner computes in"
    assert "quantization" not in engine_options(settings)


# -- of others --------------------------------------------------------------------------------------------------------


@pytest.fixture
def foreign(small_model: Path, tmp_path: Path) -> Path:
    shutil.copytree(small_model, tmp_path / "foreign")
    return tmp_path / "foreign"


def test_the_code_of_a_models_folder_is_not_run_even_if_somebody_types_y(
    foreign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = json.loads((foreign / "config.json").read_text())
    config |= {"model_type": "other", "auto_map": {"AutoConfig": "other.Config", "AutoModelForCausalLM": "other.Model"}}
    (foreign / "config.json").write_text(json.dumps(config))
    told = {
        **json.loads((foreign / "tokenizer_config.json").read_text()),
        "auto_map": {"AutoTokenizer": ["other.T", None]},
    }
    (foreign / "tokenizer_config.json").write_text(json.dumps(told | {"tokenizer_class": "Other"}))
    ran = tmp_path / "ran"
    (foreign / "other.py").write_text(f"import pathlib\npathlib.Path({str(ran)!r}).touch()\n")
    monkeypatch.setattr("builtins.input", lambda *_: "y")

    with pytest.raises((AgentfwError, ValueError)):
        load_base(foreign, "fp32", "cpu")
    with pytest.raises((AgentfwError, ValueError)):
        Chat(foreign)

    assert not ran.exists()


def test_a_template_that_loops_for_hours_is_an_error(foreign: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chats, "_SECONDS", 0.5)
    loops = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}"
    (foreign / "chat_template.jinja").write_text(loops)

    with pytest.raises(SettingsError, match="takes more than"):
        Chat(foreign)
