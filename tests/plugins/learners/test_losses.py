"""The one loss, against small examples worked by hand."""

from __future__ import annotations

import pytest

from agentfw.errors import UsageError
from agentfw.optimizer import Loss
from agentfw_plugins.learners.losses import made


@pytest.mark.parametrize("loss", [Loss("dpo"), Loss("agentfw:Loss"), Loss("math:sqrt"), Loss(aggregation="token_sum")])
def test_a_loss_that_cannot_be_is_refused(loss: Loss) -> None:
    with pytest.raises(UsageError) as caught:
        made(loss)

    assert caught.value.fix
