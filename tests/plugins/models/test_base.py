"""The weights of a model folder: the same for everybody who loads them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentfw.errors import SettingsError
from agentfw_plugins.models import Precision, choose_device, load_base

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


def test_drawing_weights_moves_no_other_generator(make_model: Callable[..., Path], tmp_path: Path) -> None:
    folder = make_model(tmp_path / "model", weights=False)
    torch.manual_seed(3)
    expected = torch.rand(1)

    torch.manual_seed(3)
    load_base(folder, "fp32", "cpu", seed=1)

    assert torch.equal(torch.rand(1), expected)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_told() -> None:
    assert choose_device("auto") == "cpu"
    with pytest.raises(SettingsError, match="no GPU"):
        choose_device("cuda")
