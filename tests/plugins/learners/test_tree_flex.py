"""Flex attention gets the same tree as the rectangles do, in few shapes, and never falls back without a word."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from agentfw_plugins.learners.token_tree import Packed, TurnTokens, pack

torch = pytest.importorskip("torch")
from torch import Tensor  # noqa: E402
from torch.nn.attention.flex_attention import flex_attention  # noqa: E402

from agentfw_plugins.learners import tree_flex  # noqa: E402
from agentfw_plugins.learners.tree_attention import PLAIN, Kind, RectangleTree  # noqa: E402


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compiled by torch, but to no kernels: those for CPUs take a minute, and aren't those for GPUs."""
    torch._dynamo.reset()
    monkeypatch.setattr(tree_flex, "_compiled", lambda: torch.compile(flex_attention, dynamic=False, backend="eager"))
    yield
    torch._dynamo.reset()


def tree_of(prompt: int, answer: int, samples: int = 4) -> Packed:
    turns = [TurnTokens(range(prompt), (5000 + number, *range(answer))) for number in range(samples)]
    (packed,) = pack([*turns, TurnTokens(range(prompt // 3 + 1), (9000, 8, 7))], 1 << 20)
    return packed


def drawn(packed: Packed, heads: int, key_heads: int, width: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(packed.ids.size)
    shapes = [(1, count, packed.ids.size, width) for count in (heads, key_heads, key_heads)]
    return [torch.randn(shape, generator=generator) for shape in shapes]


def attended(
    packed: Packed, heads: int = 2, key_heads: int = 1, width: int = 16, kind: Kind = PLAIN
) -> tuple[Tensor, Tensor]:
    """What flex attention gives, and what the rectangles give."""
    query, key, value = drawn(packed, heads, key_heads, width)
    found = tree_flex.FlexTree(packed, "cpu").attend(query, key, value, 0.3, kind)
    return found, RectangleTree(packed).attend(query, key, value, 0.3, kind)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [Kind(window=100), Kind(cap=2.0), Kind(40, 2.0), Kind(50, None, torch.tensor([0.5, 2.0]))], ids=str
)
def test_windows_caps_and_sinks_are_those_of_the_rectangles(kind: Kind) -> None:
    found, expected = attended(tree_of(600, 60), kind=kind)

    assert torch.allclose(found, expected, rtol=1e-4, atol=1e-5)
