"""The one loss, against small examples worked by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from agentfw.errors import UsageError
from agentfw.optimizer import Loss

torch = pytest.importorskip("torch")

from agentfw_plugins.learners.losses import Figures, Terms, loss_of, made  # noqa: E402


def terms(logprobs: list[float], advantages: list[float], **others: Any) -> Terms:
    """Tokens of one turn unless said otherwise, each of weight one, whose logprobs were 0 before."""
    made = {
        "logprobs": torch.tensor(logprobs, requires_grad=True),
        "before": torch.zeros(len(logprobs)),
        "advantages": torch.tensor(advantages),
        "weights": torch.ones(len(logprobs)),
        "turns": torch.zeros(len(logprobs), dtype=torch.long),
    }
    return Terms(**(made | {name: torch.tensor(value) for name, value in others.items()}))


def value_and_slopes(loss: Loss, given: Terms) -> tuple[float, list[float]]:
    total = loss_of(loss, given, Figures())
    return float(total.detach()), torch.autograd.grad(total, given.logprobs)[0].tolist()


def test_a_ratio_that_no_float_can_hold_is_still_a_number() -> None:
    value, slopes = value_and_slopes(Loss(), terms([500.0, -500.0], [-1.0, 1.0]))

    assert all(map(math.isfinite, [value, *slopes]))


@pytest.mark.parametrize("loss", [Loss("dpo"), Loss("agentfw:Loss"), Loss("math:sqrt"), Loss(aggregation="token_sum")])
def test_a_loss_that_cannot_be_is_refused(loss: Loss) -> None:
    with pytest.raises(UsageError) as caught:
        made(loss)

    assert caught.value.fix
