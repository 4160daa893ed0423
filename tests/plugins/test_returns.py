"""Returns to go, worked out by hand and compared with the definition."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentfw_plugins.optimizers.relative import returns_to_go


def test_returns_by_hand() -> None:
    # G_3 = 3, G_2 = 2 + 0.5 * 3, G_1 = 1 + 0.5 * 3.5
    assert returns_to_go([1.0, 2.0, 3.0], 0.5) == [2.75, 3.5, 3.0]
    assert returns_to_go([1.0, 2.0, 3.0], 1.0) == [6.0, 5.0, 3.0]
    assert returns_to_go([1.0, 2.0, 3.0], 0.0) == [1.0, 2.0, 3.0]
    assert returns_to_go([], 0.9) == []


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=30), st.floats(0, 1))
def test_the_first_return_to_go_is_the_discounted_sum(rewards: list[float], gamma: float) -> None:
    discounted = sum(gamma**place * reward for place, reward in enumerate(rewards))

    assert returns_to_go(rewards, gamma)[0] == pytest.approx(discounted, abs=1e-9)
