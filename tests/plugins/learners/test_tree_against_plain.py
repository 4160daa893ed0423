"""A tree and one turn a row: the same loss and the same gradients, whatever the turns have in common.

Flex attention gets the same tree as the rectangles do.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from agentfw.optimizer import Loss
from agentfw.seeds import Seeds
from agentfw_plugins.learners.settings import LoraSettings
from agentfw_plugins.learners.token_tree import TurnTokens, pack
from agentfw_plugins.optimizers.imitation import Imitation, ImitationSettings

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from torch.nn.attention.flex_attention import flex_attention  # noqa: E402

from agentfw_plugins.learners import tree_flex  # noqa: E402
from agentfw_plugins.learners.descent import Descent  # noqa: E402
from agentfw_plugins.learners.lessons import Lesson  # noqa: E402
from agentfw_plugins.learners.network import Network  # noqa: E402
from agentfw_plugins.learners.tree_attention import Kind, RectangleTree  # noqa: E402

tokens = st.lists(st.integers(0, 3), min_size=1, max_size=8).map(tuple)
lessons = st.lists(st.tuples(tokens, tokens, st.sampled_from([-1.5, -0.5, 0.0, 1.0, 2.0])), min_size=1, max_size=8).map(
    lambda rows: [Lesson(TurnTokens(p, s), a, (-1.0,) * len(s), 0, i) for i, (p, s, a) in enumerate(rows)]
)
losses = st.sampled_from(
    [
        Loss(),
        Loss(kl=0.1, aggregation="sequence_mean", ratio="sequence"),
        Loss(ratio="episode", aggregation="episode_mean"),
        Loss(importance_cap=2.0, ratio_cap=10.0, aggregation="token_sum", length=5),
        Imitation(ImitationSettings()).loss(),
    ]
)


class Watched(torch.optim.SGD):  # type: ignore[misc, name-defined]  # mypy does not follow torch
    """Keeps the gradients of the last step, and takes none."""

    def step(self, closure: Any = None) -> None:
        self.gradients = [p.grad.clone() for group in self.param_groups for p in group["params"] if p.grad is not None]


def gradients_of(network: Network, some: list[Lesson], loss: Loss) -> tuple[dict[str, float], list[Any]]:
    optimizer = Watched(network.parameters(), lr=1.0)
    figures = Descent(network, optimizer, network.settings, 1.0).learn([some], loss, 1)
    return figures, getattr(optimizer, "gradients", [])


def network_of(model: Path, **changes: Any) -> Network:
    network = Network(LoraSettings(model=str(model), gradient_clip=1e9, **changes), Seeds(7))
    with torch.no_grad():  # else the second half of each adapter is zero, and so the first half's gradient
        for number, parameter in enumerate(network.parameters()):
            if changes.get("weights") != "all":
                generator = torch.Generator().manual_seed(number)
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return network


@pytest.fixture(scope="module")
def networks(small_model: Path) -> dict[str, tuple[Network, Network]]:
    """The tree's and the plain one, of each kind."""
    kinds: dict[str, dict[str, Any]] = {"lora": {}, "all": {"weights": "all"}, "checkpointing": {"checkpointing": True}}
    return {
        kind: (network_of(small_model, **changes), network_of(small_model, packing="plain", **changes))
        for kind, changes in kinds.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["lora", "all", "checkpointing"])
@given(some=lessons, loss=losses, budget=st.sampled_from([7, 20, 1000]))
@hypothesis_settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_loss_and_gradients_are_the_same(
    networks: dict[str, tuple[Network, Network]], kind: str, some: list[Lesson], loss: Loss, budget: int
) -> None:
    tree, plain = networks[kind]
    tree.settings = tree.settings.model_copy(update={"tokens": budget})

    found, gradients = gradients_of(tree, some, loss)
    expected, wanted = gradients_of(plain, some, loss)

    assert found.keys() == expected.keys()
    for name in found.keys() - {"tokens_computed"}:
        assert found[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-6), name
    assert found["tokens_computed"] <= expected["tokens_computed"]
    assert len(gradients) == len(wanted)
    for one, other in zip(gradients, wanted, strict=True):
        assert float((one - other).norm()) <= 1e-4 * float(other.norm()) + 1e-7


# -- flex attention ----------------------------------------------------------------------------------------------------


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compiled by torch, but to no kernels: those for CPUs take a minute, and aren't those for GPUs."""
    torch._dynamo.reset()
    monkeypatch.setattr(tree_flex, "_compiled", lambda: torch.compile(flex_attention, dynamic=False, backend="eager"))
    yield
    torch._dynamo.reset()


@pytest.mark.slow
def test_flex_attention_takes_the_tree_of_a_whole_model(small_model: Path, compiled: None) -> None:
    """As on CUDA, but forwards only."""
    network = network_of(small_model)
    prompt = tuple(range(10, 160))
    turns = [TurnTokens(prompt, (200 + n, *range(20, 60))) for n in range(4)]
    (packed,) = network.pack([*turns, TurnTokens(prompt[:70], (3, 4))])

    with torch.no_grad():
        expected = network.logprobs(packed)[0]
        network.flex = True
        found = network.logprobs(packed)[0]

    assert torch.allclose(found, expected, atol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [Kind(window=100), Kind(cap=2.0), Kind(40, 2.0), Kind(50, None, torch.tensor([0.5, 2.0]))], ids=str
)
def test_windows_caps_and_sinks_of_flex_attention_are_those_of_the_rectangles(kind: Kind, compiled: None) -> None:
    turns = [TurnTokens(range(600), (5000 + number, *range(60))) for number in range(4)]
    (packed,) = pack([*turns, TurnTokens(range(201), (9000, 8, 7))], 1 << 20)
    generator = torch.Generator().manual_seed(packed.ids.size)
    query, key, value = (torch.randn(1, heads, packed.ids.size, 16, generator=generator) for heads in (2, 1, 1))

    found = tree_flex.FlexTree(packed, "cpu").attend(query, key, value, 0.3, kind)

    expected = RectangleTree(packed).attend(query, key, value, 0.3, kind)
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5)
