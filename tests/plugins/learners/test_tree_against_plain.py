"""A tree and one turn a row: the same loss and the same gradients, whatever the turns have in common.

Flex attention gets the same tree as the rectangles do. Logprobs in chunks are those of all logits at once.
And how many tokens are computed at once, where the settings leave it open: as many as share what can be shared.
"""

from __future__ import annotations

import random
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
from agentfw_plugins.models.base import LayerAttention
from agentfw_plugins.optimizers.imitation import Imitation, ImitationSettings

torch = pytest.importorskip("torch")
pytest.importorskip("peft")

from torch.nn.attention.flex_attention import flex_attention  # noqa: E402

from agentfw_plugins.learners import logprobs as chunked  # noqa: E402
from agentfw_plugins.learners import network as networking  # noqa: E402
from agentfw_plugins.learners import tree_flex  # noqa: E402
from agentfw_plugins.learners.descent import Descent  # noqa: E402
from agentfw_plugins.learners.lessons import Lesson  # noqa: E402
from agentfw_plugins.learners.network import Network  # noqa: E402
from agentfw_plugins.learners.tree_attention import RectangleTree  # noqa: E402

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


@pytest.mark.parametrize("kind", ["lora", "all", "checkpointing"])
@given(some=lessons, loss=losses, budget=st.sampled_from([7, 20, 1000]))
@hypothesis_settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


@pytest.mark.parametrize(
    "layer", [LayerAttention(0.3, 40, 2.0), LayerAttention(0.3, 50, None, torch.tensor([0.5, 2.0]))], ids=str
)
def test_windows_caps_and_sinks_of_flex_attention_are_those_of_the_rectangles(
    layer: LayerAttention, compiled: None
) -> None:
    turns = [TurnTokens(range(600), (5000 + number, *range(60))) for number in range(4)]
    (packed,) = pack([*turns, TurnTokens(range(201), (9000, 8, 7))], 1 << 20)
    generator = torch.Generator().manual_seed(packed.ids.size)
    query, key, value = (torch.randn(1, heads, packed.ids.size, 16, generator=generator) for heads in (2, 1, 1))

    found = tree_flex.FlexTree(packed, "cpu").attend(query, key, value, layer)

    expected = RectangleTree(packed).attend(query, key, value, layer)
    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5)


# -- logprobs in chunks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("elements", [1, 1 << 22], ids=["many chunks", "one chunk"])
@pytest.mark.parametrize(
    ("trained_head", "with_bias", "cap", "temperature"), [(False, True, None, 1.0), (True, True, 2.0, 0.7)]
)
def test_logprobs_entropies_and_slopes_are_those_of_all_logits(
    monkeypatch: pytest.MonkeyPatch,
    trained_head: bool,
    elements: int,
    with_bias: bool,
    cap: float | None,
    temperature: float,
) -> None:
    monkeypatch.setitem(chunked._ELEMENTS, "cpu", elements)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(50, 8, generator=generator, requires_grad=True)
    weight = torch.randn(30, 8, generator=generator, requires_grad=trained_head)
    targets = torch.randint(0, 30, (50,), generator=generator)
    upstream = torch.randn(50, generator=generator)
    bias = torch.randn(30, generator=generator, requires_grad=trained_head) if with_bias else None
    learned = [hidden, *([part for part in (weight, bias) if part is not None] if trained_head else [])]

    found, entropy = chunked.token_logprobs(hidden, weight, targets, temperature, bias=bias, cap=cap)
    logits = hidden @ weight.T + (0.0 if bias is None else bias)
    every = torch.log_softmax((logits if cap is None else cap * torch.tanh(logits / cap)) / temperature, -1)
    expected = every.gather(-1, targets[:, None])[:, 0]

    assert torch.allclose(found, expected, atol=1e-5)
    assert torch.allclose(entropy, -(every.exp() * every).sum(-1), atol=1e-5)
    gradients = torch.autograd.grad(found, learned, upstream)
    for gradient, wanted in zip(gradients, torch.autograd.grad(expected, learned, upstream), strict=True):
        assert torch.allclose(gradient, wanted, atol=1e-5)


def test_nothing_is_kept_that_is_as_large_as_the_logits() -> None:
    """A thousand tokens of a vocabulary of 5,000: five million logits, and nothing of that size survives."""
    hidden = torch.randn(1000, 8, requires_grad=True)
    kept: list[int] = []

    def keep(tensor: Any) -> Any:
        kept.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda it: it):
        chunked.token_logprobs(hidden, torch.randn(5000, 8), torch.randint(0, 5000, (1000,)))

    assert 0 < sum(kept) <= 2 * hidden.numel()


# -- how many tokens are computed at once ------------------------------------------------------------------------------


def samples_of(prompt: int, answer: int, count: int = 8) -> list[TurnTokens]:
    draw = random.Random(7)
    shown = [draw.randrange(10, 380) for _ in range(prompt)]
    return [
        TurnTokens(shown, [10 + number, *(draw.randrange(10, 380) for _ in range(answer - 1))])
        for number in range(count)
    ]


def figures_of(model: Path, turns: list[TurnTokens], **changes: Any) -> tuple[dict[str, float], Network]:
    made = Network(LoraSettings(model=str(model), device="cpu", **changes), Seeds(7))
    optimizer = torch.optim.SGD(made.parameters(), lr=1e-3)
    lessons = [Lesson(turn, 1.0, (), 0, number) for number, turn in enumerate(turns)]
    return Descent(made, optimizer, made.settings, 1e-3).learn([lessons], Loss(), 1), made


def test_a_long_conversation_is_computed_twice_rather_than_once_a_turn(
    small_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it can't be stored as a whole, but would be computed again for each turn of its second half."""
    draw = random.Random(1)
    said = [draw.randrange(10, 380) for _ in range(2000)]
    turns = [TurnTokens(said[: 200 * turn], said[200 * turn : 200 * turn + 20]) for turn in range(1, 10)]
    short = samples_of(100, 20, count=4)
    before, made = figures_of(small_model, turns, tokens=4000)
    assert not made.checkpointing
    monkeypatch.setattr(networking, "machine_memory", lambda: 40 << 20)

    stored, never = figures_of(small_model, turns, checkpointing=False)
    found, made = figures_of(small_model, turns)

    assert stored["tokens_computed"] > 2 * stored["tokens_unique"]
    assert made.checkpointing
    assert found["tokens_computed"] == found["tokens_unique"]
    assert found["gradient_norm"] == pytest.approx(before["gradient_norm"], rel=1e-6)
    made.pack(short)
    never.pack(short)
    assert made.piece_size == never.piece_size  # a training that goes on here cuts what comes in the same way
