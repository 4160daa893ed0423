"""How far a token may go in one batch: each way of clipping against its formula, written out in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from agentfw_plugins.learners.losses import Figures, Terms, loss_of

from .conftest import Chosen

torch = pytest.importorskip("torch")


def _ppo(ratio: Any, advantages: Any, _: Any) -> Any:
    return torch.minimum(ratio * advantages, torch.clamp(ratio, 0.8, 1.2) * advantages)


def _dual_clip(ratio: Any, advantages: Any, logprobs: Any) -> Any:
    """Ye et al. 2020: where the advantage is negative, the objective is at least 3 A."""
    ppo = _ppo(ratio, advantages, logprobs)
    return torch.where(advantages < 0, torch.maximum(ppo, 3 * advantages), ppo)


def _cispo(ratio: Any, advantages: Any, logprobs: Any) -> Any:
    return torch.clamp(ratio, max=5.0).detach() * advantages * logprobs


def _sapo(ratio: Any, advantages: Any, _: Any) -> Any:
    gates = {sign: 4 / t * torch.sigmoid(t * (ratio - 1)) for sign, t in ((1, 1.0), (-1, 1.05))}
    return torch.where(advantages > 0, gates[1], gates[-1]) * advantages


@pytest.mark.parametrize(
    ("name", "settings", "formula"),
    [
        ("grpo", {"kl": 0.0}, _ppo),
        ("grpo", {"kl": 0.0, "ratio_cap": 3.0}, _dual_clip),
        ("cispo", {}, _cispo),
        ("sapo", {}, _sapo),
    ],
)
def test_a_loss_and_its_gradient_are_those_of_the_formula(
    chosen: Chosen, name: str, settings: dict[str, float], formula: Callable[[Any, Any, Any], Any]
) -> None:
    generator = torch.Generator().manual_seed(3)
    before = -3 * torch.rand(40, generator=generator, dtype=torch.float64)
    start = before + torch.randn(40, generator=generator, dtype=torch.float64)
    advantages = torch.randn(40, generator=generator, dtype=torch.float64)
    weights = torch.rand(40, generator=generator, dtype=torch.float64)
    now, plain = start.clone().requires_grad_(), start.clone().requires_grad_()
    loss = replace(chosen(name, settings).loss(), importance_cap=None)

    found = loss_of(loss, Terms(now, before, advantages, weights, torch.arange(40)), Figures())
    expected = -(weights * formula((plain - before).exp(), advantages, plain)).sum()

    assert float(found) == pytest.approx(float(expected), abs=1e-9)
    found.backward()
    expected.backward()
    assert torch.allclose(now.grad, plain.grad, atol=1e-9)
