"""The proof at the start accepts a model whatever its rounding, and refuses one that computes something else."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from agentfw.errors import SettingsError
from agentfw.seeds import Seeds
from agentfw_plugins.learners.settings import LoraSettings
from agentfw_plugins.learners.token_tree import Block, Packed

torch = pytest.importorskip("torch")

pytest.importorskip("peft")

from agentfw_plugins.learners.network import Network  # noqa: E402

CONFIDENT: dict[str, Any] = {"hidden_size": 64, "intermediate_size": 160, "initializer_range": 0.2}
"""With 28 layers, as a model of a billion weights has, two attentions of it differ by 0.3 to 0.6 nats in bf16."""


def last_position_off_by_one(packed: Packed) -> Packed:
    positions = packed.positions.copy()
    positions[0, -10:] += 1
    return dataclasses.replace(packed, positions=positions)


def positions_without_tree(packed: Packed) -> Packed:
    return dataclasses.replace(packed, positions=numpy.arange(packed.ids.size)[None])


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


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [last_position_off_by_one, positions_without_tree, mask_without_tree])
def test_the_same_model_with_a_mistake_is_refused(
    deep_model: Path, wrong: Callable[[Packed], Packed], monkeypatch: pytest.MonkeyPatch
) -> None:
    places = Network._places
    monkeypatch.setattr(Network, "_places", lambda self, packed: places(self, wrong(packed)))

    with pytest.raises(SettingsError, match="gives other results than tree packing"):
        Network(LoraSettings(model=str(deep_model), precision="bf16", device="cpu"), Seeds(7))
