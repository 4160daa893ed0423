"""The shipped model: without transformers it is told, computes and says the same as with it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from agentfw.episode import Call, Message
from agentfw.errors import SettingsError
from agentfw_plugins.models import Chat, locate
from agentfw_plugins.models.conversation import remembered
from agentfw_plugins.models.small_model import NumpyLlama, SmallChat

TALK = [
    Message("system", "You keep a calendar."),
    Message("user", "conflict: week 1"),
    Message("assistant", "A1 due today +8 8; A 8", (Call("decide", {"accept": "A"}, "1.0"),)),
    Message("tool", "accepted", answers="1.0"),
    Message("user", 'feedback: right, A is kept. "Yes." — Zoë\'s Ünïcode 日本\nA: Review | start=11:00 min=30'),
]


@pytest.fixture(scope="module")
def small() -> SmallChat:
    return SmallChat(locate("tiny"))


@pytest.fixture(scope="module")
def whole() -> Chat:
    pytest.importorskip("transformers")
    return Chat(locate("tiny"))


@pytest.mark.parametrize("length", [2, 5])
def test_a_prompt_has_the_same_tokens_either_way(small: SmallChat, whole: Chat, length: int) -> None:
    assert small.prompt(TALK[:length]) == whole.prompt(TALK[:length])


@pytest.mark.parametrize(
    "text", ["A1 due today +12 12, A2 in person -3 9; A 9\nB 0; A 9", "", "日本 +7 ü", "<|end|> <|user|>"]
)
def test_an_answer_has_the_same_tokens_and_pieces_either_way(small: SmallChat, whole: Chat, text: str) -> None:
    ids = small.answer(text)

    assert ids == whole.answer(text)
    assert small.pieces(ids) == whole.pieces(ids)
    assert "".join(small.pieces(ids)) == text


@pytest.mark.parametrize(
    ("answer", "read"),
    [
        ("I see.<tool_call>1</tool_call>\nSo B.<tool_call>2</tool_call>", "So B.<tool_call>2</tool_call>"),
        ("<tool_call>1</tool_call><tool_call>2</tool_call> Done.", "<tool_call>2</tool_call>"),
        ("No call at all.", "No call at all."),
    ],
)
def test_of_its_last_answer_it_reads_the_last_call_and_what_led_to_it(
    small: SmallChat, whole: Chat, answer: str, read: str
) -> None:
    talk = [TALK[0], Message("assistant", answer), TALK[4]]

    assert small.prompt(talk) == whole.prompt(talk) == small.prompt([TALK[0], Message("assistant", read), TALK[4]])


def test_a_model_with_another_template_is_refused_by_name(small_model: Path) -> None:
    with pytest.raises(SettingsError, match="another chat template") as caught:
        SmallChat(small_model)

    assert "--policy transformers" in caught.value.fix


def test_of_a_system_message_what_was_recalled_stands_before_the_last_message_and_nothing_else_is_read() -> None:
    system = Message("system", "Be brief.\n\nYou remember:\n- s1: likes tea\n- s2: likes jazz")
    said = [system, Message("user", "1"), Message("assistant", "Noted."), Message("user", "2")]

    (read,) = remembered(said, "last_message")
    assert read == Message("user", "You remember:\n- s1: likes tea\n- s2: likes jazz\n2")
    assert remembered([Message("system", "Be brief."), Message("user", "1")], "last_message") == [Message("user", "1")]


# -- what it computes --------------------------------------------------------------------------------------------------


IDS = [int(token) for token in np.random.default_rng(7).integers(0, 97, 60)]


def make(folder: Path, **changes: object) -> Path:
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    settings = {
        "vocab_size": 97,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 128,
        "tie_word_embeddings": True,
    }
    torch.manual_seed(7)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings | changes))
    for weight in model.parameters():
        torch.nn.init.normal_(weight, 1.0 if weight.dim() == 1 else 0.0, 0.2)
    model.save_pretrained(folder)
    return folder


def reference(folder: Path, ids: list[int], adapter: Path | None = None) -> np.ndarray:
    """The logprobs of every token after the first, by transformers, in double precision."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    model = transformers.LlamaForCausalLM.from_pretrained(folder)
    if adapter is not None:
        import peft

        model = peft.PeftModel.from_pretrained(model, adapter)
    with torch.no_grad():
        logits = model.double().eval()(torch.tensor([ids])).logits[0].log_softmax(-1)
    found: np.ndarray = logits[range(len(ids) - 1), ids[1:]].numpy()
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("llama"))


@pytest.mark.parametrize("others", [1, 7, 30])
def test_who_else_is_in_the_batch_changes_no_bit(folder: Path, others: int) -> None:
    model = NumpyLlama.load(folder)
    alone = model.read(IDS[:9])
    rows = [model.read(IDS[other % 7 : 12 + other % 11]) for other in range(others)]
    among = model.read(IDS[:9])
    for place in range(9, 29):
        model.step([alone], [IDS[place]])
        model.step(
            [*rows[: others // 2], among, *rows[others // 2 :]],
            [*IDS[: others // 2], IDS[place], *IDS[others // 2 : others]],
        )

    assert np.array_equal(alone.logits, among.logits)


@pytest.mark.parametrize("stabilised", [False, True])
def test_an_adapter_counts_as_peft_counts_it(folder: Path, tmp_path: Path, stabilised: bool) -> None:
    import peft
    import torch
    import transformers

    model = transformers.LlamaForCausalLM.from_pretrained(folder)
    form = {"r": 4, "lora_alpha": 16, "target_modules": ["q_proj", "down_proj"], "use_rslora": stabilised}
    adapted = peft.get_peft_model(model, peft.LoraConfig(**form))
    for name, weight in adapted.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight, std=0.1)
    adapted.save_pretrained(tmp_path)

    found = NumpyLlama.load(folder, tmp_path).logprobs(IDS[:20], IDS[20:])

    assert found == pytest.approx(reference(folder, IDS, tmp_path)[19:], abs=1e-4)
    assert np.abs(found - reference(folder, IDS)[19:]).max() > 0.01
    path = tmp_path / "adapter_config.json"
    plain = path.read_text()
    for name, value in (("use_dora", "true"), ("rank_pattern", '{"q_proj": 2}'), ("modules_to_save", '["lm_head"]')):
        path.write_text(re.sub(rf'"{name}": [^,]+', f'"{name}": {value}', plain))
        with pytest.raises(SettingsError, match="is not a plain LoRA adapter") as caught:
            NumpyLlama.load(folder, tmp_path)
        assert name in caught.value.fix


LINEAR = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}


@pytest.mark.parametrize(
    "changes",
    [{"tie_word_embeddings": False}, {"attention_bias": True}, {"hidden_act": "gelu"}, {"rope_parameters": LINEAR}],
)
def test_a_model_that_it_would_compute_wrongly_is_refused(changes: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="can't compute"):
        NumpyLlama.load(make(tmp_path, **changes))


def test_broken_weights_are_refused_and_broken_adapters(folder: Path, tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    broken = Path(shutil.copytree(folder, tmp_path / "broken"))
    weights = load_file(folder / "model.safetensors")
    weights["model.norm.weight"][0] = np.nan
    save_file(weights, broken / "model.safetensors")
    (broken / "adapter_config.json").write_text('{"r": 1, "lora_alpha": 1}')
    name = "base_model.model.model.layers.0.self_attn.q_proj.lora_"
    halves = {f"{name}A.weight": np.full((1, 64), np.inf, np.float32), f"{name}B.weight": np.ones((64, 1), np.float32)}
    save_file(halves, broken / "adapter_model.safetensors")

    for given in ((broken,), (folder, broken)):
        with pytest.raises(SettingsError, match=f"the weights in {broken} contain NaN or infinity"):
            NumpyLlama.load(*given)
