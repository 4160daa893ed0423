"""What each loss makes of the tokens of a batch, against its formula, written out in plain torch."""

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


@pytest.mark.parametrize("clipped", [False, True])
def test_distillation_follows_the_teacher_token_by_token(chosen: Chosen, clipped: bool) -> None:
    """On the policy's own samples the gradient is that of the reverse KL divergence, bounded and clipped."""
    generator = torch.Generator().manual_seed(5)
    before, teacher, weights, apart = torch.randn(4, 40, generator=generator, dtype=torch.float64)
    before, teacher, weights = before - 3, teacher - 3, weights.abs()
    start = before + apart * clipped
    now, plain = start.clone().requires_grad_(), start.clone().requires_grad_()
    loss = replace(chosen("distillation", {"bound": 1.5}).loss(), importance_cap=None)

    terms = Terms(now, before, torch.ones(40, dtype=torch.float64), weights, torch.arange(40), teacher=teacher)
    found = loss_of(loss, terms, Figures())
    signal = (teacher - before).clip(-1.5, 1.5)
    ratio = (plain - before).exp()
    expected = -(weights * torch.minimum(ratio * signal, ratio.clip(0.8, 1.2) * signal)).sum()

    assert float(found) == pytest.approx(float(expected), abs=1e-9)
    found.backward()
    expected.backward()
    assert torch.allclose(now.grad, plain.grad, atol=1e-9)
    if not clipped:
        # The score function estimator of KL(p | q): each sampled token by log p - log q.
        assert torch.allclose(now.grad, -(weights * signal), atol=1e-9)


def test_pairs_of_answers_have_the_value_and_the_gradient_of_dpo(chosen: Chosen) -> None:
    """Three pairs, cut into two pieces that part them: the sum over the pieces is the loss of Rafailov et al. 2023."""
    generator = torch.Generator().manual_seed(6)
    turns = torch.tensor([0, 0, 1, 2, 2, 2, 3, 4, 4, 5])  # the turns 2 n and 2 n + 1 are a pair
    base, start = (-3 * torch.rand(10, generator=generator, dtype=torch.float64) for _ in range(2))
    loss = chosen("dpo", {"beta": 0.7}).loss()

    def by_turn(values: Any) -> Any:
        return torch.zeros(6, dtype=torch.float64).index_add(0, turns, values)

    def gaps(logprobs: Any) -> Any:
        ratios = by_turn(logprobs - base)
        return ratios[0::2] - ratios[1::2]

    plain, now = start.clone().requires_grad_(), start.clone().requires_grad_()
    expected = -torch.nn.functional.logsigmoid(0.7 * gaps(plain)).mean()
    found = torch.zeros((), dtype=torch.float64)
    for piece in ([0, 3, 4], [1, 2, 5]):
        chosen_tokens = torch.isin(turns, torch.tensor(piece))
        numbers = torch.unique(turns[chosen_tokens], return_inverse=True)
        lengths = by_turn(torch.ones(10, dtype=torch.float64))
        some = Terms(
            now[chosen_tokens],
            now[chosen_tokens].detach(),
            torch.where(turns % 2 == 0, 1.0, -1.0).double()[chosen_tokens],
            1 / (6 * lengths[turns[chosen_tokens]]),
            numbers[1],
            baseline=gaps(start)[numbers[0] // 2],
        )
        found = found + loss_of(loss, some, Figures())

    assert float(found) == pytest.approx(float(expected), abs=1e-9)
    found.backward()
    expected.backward()
    assert torch.allclose(now.grad, plain.grad, atol=1e-9)
