"""The built-in rewards: what the environment paid, and whether each answer could be carried out."""

from __future__ import annotations

import asyncio

import pytest

from agentfw import Episode, Task, Turn
from agentfw.episode import Call, Event
from agentfw_plugins.rewards.measured import Format, Utility


def test_utility_is_what_the_environment_paid() -> None:
    episode = Episode(Task(3, 7), utility=2.5)
    (score,) = asyncio.run(Utility().score([episode]))
    assert (score.episode, score.component, score.value, score.track) == ("00003-0", "utility", 2.5, "base")


@pytest.mark.parametrize(
    ("turn", "values"),
    [
        (Turn(0, 0, 1, calls=(Call("write", {}, "1.0"),)), [1.0]),
        (Turn(0, 0, 1), [1.0]),
        (Turn(0, 0, 1, failures=("a call without a name",)), [0.0]),
        (Turn(0, 0, 1, calls=(Call("handle", {"message": 9}, "2.0"),)), [0.0]),
        (Turn(0, 0, 1, finish="interrupted"), []),
    ],
    ids=["carried out", "did nothing", "not understood", "refused", "broken off"],
)
def test_format_pays_for_what_could_be_carried_out(turn: Turn, values: list[float]) -> None:
    refused = Event(1, "refused", "handle", {"id": "2.0", "reason": "there is no mail 9"})
    episode = Episode(Task(0, 7), turns=[turn], events=[refused])
    scores = asyncio.run(Format().score([episode]))
    assert [score.value for score in scores] == values
    assert all(score.turn == turn.index for score in scores)
