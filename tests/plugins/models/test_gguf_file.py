"""A GGUF file is a model: its weights are those that the file stands for, and damaged ones are told in a line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
gguf = pytest.importorskip("gguf")
transformers = pytest.importorskip("transformers")

from agentfw.episode import Message  # noqa: E402
from agentfw.errors import SettingsError  # noqa: E402
from agentfw.policy import Request, Sampling  # noqa: E402
from agentfw_plugins.models import base, load_base, locate  # noqa: E402
from agentfw_plugins.policies.local.transformers_policy import TransformersPolicy, TransformersSettings  # noqa: E402

_NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def name_of(weight: str) -> str:
    """What llama.cpp calls a weight of Qwen 2."""
    if weight in ("model.embed_tokens.weight", "model.norm.weight"):
        return {"embed_tokens": "token_embd", "norm": "output_norm"}[weight.split(".")[1]] + ".weight"
    _, _, layer, rest = weight.split(".", 3)
    module, _, kind = rest.rpartition(".")
    return f"blk.{layer}.{_NAMES[module]}.{kind}"


def write_gguf(path: Path, model: Any, tokenizer: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The model as a file: matrices in eight bits, the rest as it is. Returns what its weights stand for."""
    config = model.config
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(config.vocab_size)
    words = sorted(tokenizer["model"]["vocab"], key=tokenizer["model"]["vocab"].get)
    control = {token["content"] for token in tokenizer["added_tokens"]}
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(words)
    writer.add_token_types([3 if word in control else 1 for word in words])
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_eos_token_id(words.index("<|end|>"))
    for key, value in fields.items():
        if isinstance(value, int):
            writer.add_uint16(key.replace("_", ".", 1), value)
        else:
            writer.add_chat_template(value)
    meant = {}
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight":
            continue
        values = weight.float().numpy()
        kind = gguf.GGMLQuantizationType.Q8_0 if values.ndim == 2 else gguf.GGMLQuantizationType.F32
        packed = gguf.quants.quantize(values, kind)
        writer.add_tensor(name_of(name), packed, raw_dtype=kind)
        meant[name] = torch.from_numpy(gguf.quants.dequantize(packed, kind).copy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return meant


@pytest.fixture
def made(
    make_model: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[Path, dict[str, Any]]]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    words = json.loads((make_model(tmp_path / "words", weights=False) / "tokenizer.json").read_text())
    config = transformers.Qwen2Config(
        vocab_size=384,
        hidden_size=64,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        initializer_range=0.3,
    )
    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = transformers.Qwen2ForCausalLM(config)

    def write(name: str = "model.gguf", **fields: Any) -> tuple[Path, dict[str, Any]]:
        path = tmp_path / name
        return path, write_gguf(path, model, words, **fields)

    return write


TEMPLATE = "{% for message in messages %}{{ message.content }}<|end|>{% endfor %}"


def test_a_file_is_the_model_that_it_stands_for(
    made: Callable[..., Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, meant = made("sha256-0123", template=TEMPLATE)

    folder = locate(str(path))

    assert folder.is_relative_to(tmp_path / "cache")
    loaded = load_base(folder, "fp32", "cpu").state_dict()
    assert all(torch.equal(loaded[name], weight) for name, weight in meant.items())
    assert loaded["lm_head.weight"].data_ptr() == loaded["model.embed_tokens.weight"].data_ptr()
    # Servers such as vLLM choose the class by it.
    assert json.loads((folder / "config.json").read_text("utf-8"))["architectures"] == ["Qwen2ForCausalLM"]
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert locate(str(path)) == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == before, "made once"
    assert capsys.readouterr().err.count(f"converting {path.name}, ") == 1

    async def answer() -> Any:
        policy = TransformersPolicy(TransformersSettings(model=str(path), device="cpu"))
        try:
            return await policy.generate(Request([Message("user", "tea")], sampling=Sampling(max_tokens=4, seed=1)))
        finally:
            await policy.close()

    found = asyncio.run(answer())
    assert len(found.token_ids) == len(found.logprobs) > 0


def test_a_file_without_a_chat_template_is_told_before_it_is_converted(
    made: Callable[..., Any], tmp_path: Path
) -> None:
    path, _ = made()

    with pytest.raises(SettingsError, match="has no chat template"):
        TransformersPolicy(TransformersSettings(model=str(path), device="cpu"))

    assert not list((tmp_path / "cache").rglob("*.safetensors"))


@pytest.mark.parametrize("kept", [0.5, 0.02])
def test_a_file_that_was_cut_is_told_and_leaves_nothing(made: Callable[..., Any], tmp_path: Path, kept: float) -> None:
    path, _ = made()
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])

    with pytest.raises(SettingsError, match=r"model.gguf can't be read as GGUF: ") as caught:
        locate(str(path))

    assert "\n" not in caught.value.message
    assert caught.value.fix == "copy or download it again: it may be incomplete"
    assert not list((tmp_path / "cache").rglob("*.*"))


def test_a_part_of_a_model_and_one_too_large_are_told(
    made: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = made("part.gguf", split_count=3)
    with pytest.raises(SettingsError, match="is one of 3 parts of a model") as caught:
        locate(str(path))
    assert "llama-gguf-split --merge" in caught.value.fix

    path, _ = made()
    monkeypatch.setattr(base, "machine_memory", lambda: 1000)
    with pytest.raises(SettingsError, match=r"model.gguf needs 0\.0 GB in fp32.* this machine has 0\.0 GB"):
        locate(str(path))


def test_a_file_that_is_no_model_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "notes.gguf").write_text("not a model")

    with pytest.raises(SettingsError, match="is a file, but not in the format GGUF"):
        locate(str(tmp_path / "notes.gguf"))
