"""The Llama in numpy: what it computes is what transformers computes, whoever else is in the batch."""

from pathlib import Path

import numpy as np
import pytest

from agentfw.errors import SettingsError
from agentfw_plugins.models.small_model import NumpyLlama

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

IDS = [int(token) for token in np.random.default_rng(7).integers(0, 97, 60)]


def make(folder: Path, **changes: object) -> Path:
    """A small random Llama."""
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


def test_it_thinks_of_tokens_what_transformers_thinks(folder: Path) -> None:
    found = NumpyLlama.load(folder).logprobs(IDS[:20], IDS[20:])

    assert found == pytest.approx(reference(folder, IDS)[19:], abs=1e-4)


@pytest.mark.parametrize("others", [1, 6, 7, 8, 30])
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


def test_an_adapter_counts_as_peft_counts_it(folder: Path, tmp_path: Path) -> None:
    import peft

    model = transformers.LlamaForCausalLM.from_pretrained(folder)
    adapted = peft.get_peft_model(model, peft.LoraConfig(r=4, lora_alpha=16, target_modules=["q_proj", "down_proj"]))
    for name, weight in adapted.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(weight, std=0.1)
    adapted.save_pretrained(tmp_path)

    found = NumpyLlama.load(folder, tmp_path).logprobs(IDS[:20], IDS[20:])

    assert found == pytest.approx(reference(folder, IDS, tmp_path)[19:], abs=1e-4)
    assert np.abs(found - reference(folder, IDS)[19:]).max() > 0.01


@pytest.mark.parametrize("changes", [{"tie_word_embeddings": False}, {"attention_bias": True}, {"hidden_act": "gelu"}])
def test_a_model_that_it_would_compute_wrongly_is_refused(changes: dict[str, object], tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="can't compute"):
        NumpyLlama.load(make(tmp_path, **changes))
