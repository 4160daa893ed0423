"""`Choices` of `agentfw_papers.linear`: what a policy of a few weights decides, and what its answers say of that."""

from __future__ import annotations

import math

import pytest

from agentfw import Intervention, Moment, Request, Task
from agentfw.request import Sampling
from agentfw_papers.linear import Choices, read_decisions

WEIGHTS = {"fame": math.log(3), "stated": 0.0}
OPTIONS = ((0.0, 1.0), (1.0, 0.0))


def request(seed: int, temperature: float | None = None) -> Request:
    return Request([], moment=Moment(0), task=Task(0, 7), sampling=Sampling(temperature=temperature, seed=seed))


def test_at_temperature_0_the_likeliest_option_is_chosen() -> None:
    choices = Choices(WEIGHTS, request(1, temperature=0))

    assert [choices.decide(("fame", "stated"), OPTIONS), choices.flip("fame")] == [1, True]
    assert choices.generation((), "start").temperature == 0


def test_an_answer_has_its_decisions_with_their_logprobs() -> None:
    choices = Choices(WEIGHTS, request(5))
    choices.decide(("fame", "stated"), OPTIONS)
    choices.flip("fame")

    answer = choices.generation([Intervention("take")], "start")

    decisions = read_decisions(answer.text)
    assert [(one.names, one.choice) for one in decisions] == [
        (("fame", "stated"), answer.token_ids[0]),
        (("fame",), answer.token_ids[1]),
    ]
    assert list(answer.logprobs) == pytest.approx([one.logprob(WEIGHTS) for one in decisions])
    assert (answer.calls[0].name, answer.said, answer.version) == ("take", "", "start")
