"""The weights of a model folder: the same for everybody who loads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentfw.errors import SettingsError
from agentfw_plugins.models import Precision, load_base

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


@pytest.mark.parametrize(("precision", "far"), [("fp32", 1e-6), ("auto", 1e-6), ("bf16", 0.5), ("nf4", 3.0)])
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


@pytest.mark.parametrize("precision", ["fp32", "nf4"])
def test_two_who_load_a_model_share_its_weights_and_nothing_else(
    make_model: Callable[..., Path], tmp_path: Path, precision: Precision
) -> None:
    if precision == "nf4":
        pytest.importorskip("bitsandbytes")
    folder = make_model(tmp_path / "model", hidden_size=64)
    ids = torch.tensor([[5, 6, 7, 8]])

    with torch.inference_mode():  # as a policy's thread does
        one = load_base(folder, precision, "cpu")
    two = load_base(folder, precision, "cpu", attention="eager")

    assert [weight.data_ptr() for weight in one.parameters()] == [weight.data_ptr() for weight in two.parameters()]
    assert (one.config._attn_implementation, two.config._attn_implementation) == ("sdpa", "eager")
    with torch.no_grad():
        before, other = one(ids).logits, two(ids).logits
    assert torch.allclose(before, other, atol=1e-4)
    hook = two.get_input_embeddings().register_forward_hook(lambda *_: torch.zeros(1, 4, 64))
    two.lm_head.weight.data = torch.zeros_like(two.lm_head.weight)
    with torch.no_grad():
        assert torch.equal(one(ids).logits, before)
    hook.remove()
    for weight in one.parameters():
        weight.requires_grad_(False)
    assert two.lm_head.weight.requires_grad
    two.model.norm(two.get_input_embeddings()(ids)).sum().backward()


@pytest.mark.slow
def test_an_adapter_that_is_served_changes_nothing_for_the_learner_beside_it(
    make_model: Callable[..., Path], make_adapter: Callable[..., Path], tmp_path: Path
) -> None:
    pytest.importorskip("peft")
    from agentfw_plugins.models.sampling_weights import Weights

    folder = make_model(tmp_path / "model")
    ids = torch.tensor([[5, 6, 7, 8]])
    learner = load_base(folder, "fp32", "cpu")
    with torch.no_grad():
        before = learner(ids).logits
        served = Weights(folder, "fp32", "cpu", "sdpa").of(make_adapter(folder, tmp_path / "adapter"))
        assert not torch.allclose(served(ids).logits, before, atol=1e-3)
        assert torch.equal(learner(ids).logits, before)
    assert served.get_input_embeddings().weight.data_ptr() == learner.get_input_embeddings().weight.data_ptr()
