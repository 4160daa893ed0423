"""The reward model keeps what one promises, and finds circles."""

import pytest

pytest.importorskip("networkx")

from agentfw import Episode, Task, Turn
from agentfw.episode import Call
from agentfw.testing import contract_tests, fresh_host, made_by

from agentfw_circles.circles import Circles

test_promise = contract_tests("reward", made_by(fresh_host("agentfw_circles.plugin"), "reward", "circles"))


@pytest.mark.parametrize(
    ("actions", "value"), [("", 1.0), ("abcd", 1.0), ("aa", 0.0), ("abab", 0.0), ("abac", pytest.approx(1 / 3))]
)
def test_actions_that_come_back_to_themselves_cost(actions: str, value: float) -> None:
    turns = [Turn(index, index, index, calls=(Call(name),)) for index, name in enumerate(actions)]

    assert Circles().value(Episode(Task(0, seed=7), turns=turns)) == value
