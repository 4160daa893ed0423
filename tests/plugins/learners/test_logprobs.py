"""Logprobs in chunks are those of all logits at once."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from agentfw_plugins.learners import logprobs as module  # noqa: E402


@pytest.mark.parametrize("trained_head", [False, True], ids=["frozen head", "trained head"])
@pytest.mark.parametrize("elements", [1, 1 << 22], ids=["many chunks", "one chunk"])
@pytest.mark.parametrize("with_bias", [False, True], ids=["no bias", "bias"])
@pytest.mark.parametrize(("cap", "temperature"), [(None, 1.0), (2.0, 0.7)], ids=["plain", "capped"])
def test_logprobs_entropies_and_slopes_are_those_of_all_logits(
    monkeypatch: pytest.MonkeyPatch,
    trained_head: bool,
    elements: int,
    with_bias: bool,
    cap: float | None,
    temperature: float,
) -> None:
    monkeypatch.setitem(module._ELEMENTS, "cpu", elements)
    generator = torch.Generator().manual_seed(0)
    hidden = torch.randn(50, 8, generator=generator, requires_grad=True)
    weight = torch.randn(30, 8, generator=generator, requires_grad=trained_head)
    targets = torch.randint(0, 30, (50,), generator=generator)
    upstream = torch.randn(50, generator=generator)
    bias = torch.randn(30, generator=generator, requires_grad=trained_head) if with_bias else None
    learned = [hidden, *([part for part in (weight, bias) if part is not None] if trained_head else [])]

    found, entropy = module.token_logprobs(hidden, weight, targets, temperature, bias=bias, cap=cap)
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
        module.token_logprobs(hidden, torch.randn(5000, 8), torch.randint(0, 5000, (1000,)))

    assert 0 < sum(kept) <= 2 * hidden.numel()
